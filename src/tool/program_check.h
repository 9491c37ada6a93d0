// Whether a program, started with our libraries first in LD_LIBRARY_PATH, will really load them.
#pragma once

#include <string>

namespace verbena::tool {

inline constexpr const char* kDefaultPath = "/usr/local/bin:/usr/bin:/bin";  // without PATH

// The file that execvp() would run for `name`; empty if there is none. Files that are `other_than` are passed
// over.
std::string find_program(const std::string& name, const std::string& other_than = {});

// Why the program would use other RDMA libraries than ours, or none: static linking, a set-user-ID bit.
// Empty if nothing speaks against it, or if the file is a script.
std::string why_not_ours(const std::string& file);

// Whether its RPATH, which comes before LD_LIBRARY_PATH but not before what is preloaded, leads to other RDMA
// libraries.
bool prefers_others(const std::string& file);

// Why no library can be put in front of the program's calls (LD_PRELOAD); likewise.
std::string why_not_preloaded(const std::string& file);

}  // namespace verbena::tool
