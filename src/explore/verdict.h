// What became of a run with a fault, beside the one without.
#pragma once

#include <string>

#include "explore/recorded.h"
#include "explore/trials.h"

namespace verbena::explore {

enum class Finding {
    none,         // it went well, or said that it failed
    hang,         // it had not ended after its time
    crash,        // a signal ended it
    leak,         // it said that all was well, but something was not given back
    gave_up,      // a fault that is made good for made it fail
    never_fired,  // it did not come to what the fault is about
};

const char* to_string(Finding finding);

struct Ending {
    bool timed_out = false;
    int exit_status = 0;  // as a shell has it: 128 and the signal
    bool never_fired = false;
};

struct Verdict {
    Finding finding = Finding::none;
    std::string what;  // a line about it; may be empty
};

Verdict judge(const Trial& trial, const Ending& ending, const Recorded& run, const Recorded& without);

}  // namespace verbena::explore
