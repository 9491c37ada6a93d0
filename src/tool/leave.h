// Out of Verbena's environment again, for a program that is to have the system's libraries (run --system).
#pragma once

#include "tool/installation.h"

namespace verbena::tool {

// Takes this installation out of the environment of this process: its libraries, what it preloads and its
// `rdma`. Everything else that is there stays, in its order. The library that looks at calls stays where a
// command around this one watches the program, and goes where `own_interposer` is to come.
void leave_verbena(const Installation& installation, bool own_interposer);

}  // namespace verbena::tool
