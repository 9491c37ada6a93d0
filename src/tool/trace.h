// verbena trace: what a program calls, what it is answered and what becomes of it, on one time line with the
// packets. verbena record: the same, kept in a file for verbena report.
#pragma once

#include <string>
#include <vector>

#include "tool/run.h"

namespace verbena::tool {

struct TraceOptions {
    RunOptions run;
    std::string output;  // a file; empty: stderr. Of record: the events' file
    std::string calls;   // patterns of calls to show, separated by commas; empty: all
    bool perfetto = false;
    bool no_data = false;     // neither posts and polls nor packets of data
    bool no_packets = false;  // no packets at all
};

// The exit status is the program's; a signal that ended it ends us, too.
int trace(const TraceOptions& options, const std::vector<std::string>& command);
int record(const TraceOptions& options, const std::vector<std::string>& command);

}  // namespace verbena::tool
