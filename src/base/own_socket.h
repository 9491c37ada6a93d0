// A socket of the kernel's for our own use, whatever is preloaded: librspreload turns a program's socket()
// into rsockets, which would stand on themselves here.
#pragma once

#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "base/own_file.h"

namespace verbena {

// As socket(2), closed by exec() and out of the program's way.
inline int own_socket(int domain, int type) {
    return out_of_the_way(static_cast<int>(syscall(SYS_socket, domain, type | SOCK_CLOEXEC, 0)));
}

// Why there is no socket of a family: the kernel does not know it, or a filter on system calls forbids it.
inline bool is_refusal(int error) { return error == EAFNOSUPPORT || error == EPERM || error == EACCES; }

}  // namespace verbena
