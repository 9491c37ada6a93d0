// verbena fault: plans of faults of programs that run.
#pragma once

#include <optional>
#include <string>

namespace verbena::tool {

struct FaultOptions {
    std::optional<std::string> program;  // a pid or "all"; none with `list`, `clear`: all
    std::optional<std::string> plan;     // what to add: text, or the name of a file
    bool list = false, clear = false, calls = false, json = false;
};

// The exit status.
int fault(const FaultOptions& options);

}  // namespace verbena::tool
