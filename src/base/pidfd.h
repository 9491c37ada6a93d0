// The descriptor of a process: readable once that has ended.
//
// Thread safety: all calls.
#pragma once

#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#include <cerrno>

#include "base/own_file.h"
#include "base/uncancelled.h"

namespace verbena {

// Under a high number. -1 with errno: ESRCH; EMFILE; or as can_follow_processes() finds it.
inline int open_pidfd(pid_t pid) { return out_of_the_way(static_cast<int>(syscall(SYS_pidfd_open, pid, 0))); }

// False with errno where nobody gets one: ENOSYS before Linux 5.3; that or EPERM by a container's filter on
// system calls.
inline bool can_follow_processes() {
    const int own = open_pidfd(getpid());
    if (own >= 0) uncancelled::close(own);
    return own >= 0 || (errno != ENOSYS && errno != EPERM);
}

}  // namespace verbena
