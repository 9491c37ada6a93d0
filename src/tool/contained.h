// Runs a program whose processes must all be gone afterwards, whatever they do.
#pragma once

#include <string>
#include <vector>

namespace verbena::tool {

struct Contained {
    bool timed_out = false;
    int interrupted_by = 0;  // a signal to us, which ended it
    int exit_status = 0;     // as a shell has it: 128 and the signal
    double seconds = 0;
    std::string last_words;  // the last line that it wrote to stderr or stdout
};

// In a session of its own, without input, for at most so many seconds. What it leaves running is ended; the
// daemon is left alone. From the first call on SIGINT, SIGTERM and SIGHUP end such programs only: it is the
// caller's to end then, when it has cleaned up.
Contained run_contained(const std::vector<std::string>& command, double timeout);

}  // namespace verbena::tool
