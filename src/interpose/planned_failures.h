// Calls that a plan of faults makes fail, over libraries that know of no plan: Verbena's own have that seam
// in themselves (base/call_fault.h). By VERBENA_CALL_FAULT: the board's file (verbena run --system --fault).
#pragma once

namespace verbena::interpose {

// There is a plan.
bool plans_failures();

// 0, or the errno with which the call shall fail this time.
int planned_failure(const char* call);

// The sentence about this thread's last planned failure.
const char* reason_of_planned_failure();

}  // namespace verbena::interpose
