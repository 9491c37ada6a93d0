// A socket of the kernel's for our own use, whatever is preloaded: librspreload turns a program's socket()
// into rsockets, which would stand on themselves here.
#pragma once

#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace verbena {

// As socket(2).
inline int own_socket(int domain, int type) { return static_cast<int>(syscall(SYS_socket, domain, type, 0)); }

}  // namespace verbena
