// Two commands that write to the same file would make it useless for both.
#pragma once

#include <string>

namespace verbena::tool {

// Of a file that is open to be written, before anything of it is taken away: no other command may write to it
// while this one lives. False when it was told that another one does. What is no file (a pipe, a device) may
// have many writers.
bool become_sole_writer(int fd, const std::string& name);

}  // namespace verbena::tool
