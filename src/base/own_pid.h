// The process's own id, without a system call: for the many places that must notice that they run in a forked
// child now, whose copies of sockets, threads and locks are the parent's.
//
// Thread safety: all of it.
#pragma once

#include <sys/types.h>

namespace verbena {

// As getpid(2). A child made by vfork(2), which may do nothing but exec, gets its parent's.
pid_t own_pid();

}  // namespace verbena
