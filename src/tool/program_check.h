// Whether a program, started with our libraries first in LD_LIBRARY_PATH, will really load them.
#pragma once

#include <string>

namespace verbena::tool {

// The file that execvp() would run for `name`; empty if there is none.
std::string find_program(const std::string& name);

// Why the program would use other RDMA libraries than ours: static linking, a set-user-ID bit, an RPATH.
// Empty if nothing speaks against it, or if the file is a script.
std::string why_not_ours(const std::string& file);

}  // namespace verbena::tool
