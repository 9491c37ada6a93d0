// Looks for what stands still (standstill.h) in this process, now and then, and logs why.
#pragma once

namespace verbena::verbs {

class Process;

// From the start of its engine on, by the helper.
void tell_of_standstill(Process& process);

}  // namespace verbena::verbs
