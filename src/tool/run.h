// verbena run and verbena env: programs with our libraries in front of the distribution's.
#pragma once

#include <string>
#include <vector>

namespace verbena::tool {

struct RunOptions {
    std::string fabric;
    std::string log;       // VERBENA_LOG
    std::string capture;   // VERBENA_CAPTURE
    std::string disable;   // VERBENA_DISABLE
    std::string faults;    // a plan, or the name of a file with one
    bool sockets = false;  // librspreload.so: the program's TCP connections go over RDMA
};

// Replaces this process by the program; returns the exit status only if that fails (127: not found, 126: not
// executable, 1: the installation is incomplete). With a plan of faults, waits for it (supervise.h).
int run(const RunOptions& options, const std::vector<std::string>& command);

// Prints the same environment for a shell: eval $(verbena env).
int print_environment(const RunOptions& options);

}  // namespace verbena::tool
