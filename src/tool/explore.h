// verbena explore: runs a program again and again, each time with another fault, and tells what it did not
// survive.
#pragma once

#include <string>
#include <vector>

namespace verbena::tool {

struct ExploreOptions {
    std::vector<std::string> only;  // calls, messages, packets; empty: all
    double timeout = 0;             // seconds for one run; 0: by the first run
    unsigned limit = 0;             // runs; 0: as many as there are faults
    std::string fabric;             // empty: one of its own
    bool json = false;
};

// Exit status 1 if the program hung, crashed, leaked or gave up; 2 if it does not succeed without a fault.
int explore(const ExploreOptions& options, const std::vector<std::string>& command);

}  // namespace verbena::tool
