#include "interpose/planned_failures.h"

#include <errno.h>
#include <stdlib.h>

#include "base/reason.h"
#include "faults/call_faults.h"
#include "faults/program.h"

namespace verbena::interpose {
namespace {

// Set once, and as long-lived as the process.
faults::PlannedCalls* calls = nullptr;

[[gnu::constructor]] void read_environment() {
    const char* path = secure_getenv(faults::kInterposedVariable);
    if (!path || !*path) return;
    if (auto board = faults::Board::open(path))
        calls = new faults::PlannedCalls(*board.release(), program_invocation_short_name);
    else
        log(LogLevel::error, "%s: %s", faults::kInterposedVariable, last_reason());
}

}  // namespace

bool plans_failures() { return calls != nullptr; }

int planned_failure(const char* call) { return calls ? calls->error_of(call) : 0; }

const char* reason_of_planned_failure() { return last_reason(); }

}  // namespace verbena::interpose
