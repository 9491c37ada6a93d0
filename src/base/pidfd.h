// The descriptor of a process: readable once that has ended.
//
// Thread safety: all calls.
#pragma once

#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#include "base/own_file.h"

namespace verbena {

// Under a high number. -1 with errno: ESRCH; EMFILE; where nobody gets one, ENOSYS before Linux 5.3 and under
// tools that do not know the call, that or EPERM by a container's filter on system calls.
inline int open_pidfd(pid_t pid) { return out_of_the_way(static_cast<int>(syscall(SYS_pidfd_open, pid, 0))); }

}  // namespace verbena
