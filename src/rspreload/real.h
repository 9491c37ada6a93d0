// The C library's own functions, which the names that this library defines hide.
#pragma once

#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>

#include <cstddef>
#include <cstdio>

namespace verbena::rspreload {

struct Real {
    int (*socket)(int, int, int);
    int (*bind)(int, const sockaddr*, socklen_t);
    int (*listen)(int, int);
    int (*accept)(int, sockaddr*, socklen_t*);
    int (*accept4)(int, sockaddr*, socklen_t*, int);
    int (*connect)(int, const sockaddr*, socklen_t);
    int (*shutdown)(int, int);
    int (*close)(int);
    int (*close_range)(unsigned, unsigned, int);
    void (*closefrom)(int);
    int (*fclose)(std::FILE*);
    int (*getpeername)(int, sockaddr*, socklen_t*);
    int (*getsockname)(int, sockaddr*, socklen_t*);
    int (*setsockopt)(int, int, int, const void*, socklen_t);
    int (*getsockopt)(int, int, int, void*, socklen_t*);
    ssize_t (*recv)(int, void*, std::size_t, int);
    ssize_t (*recvfrom)(int, void*, std::size_t, int, sockaddr*, socklen_t*);
    ssize_t (*recvmsg)(int, msghdr*, int);
    ssize_t (*read)(int, void*, std::size_t);
    ssize_t (*readv)(int, const iovec*, int);
    ssize_t (*send)(int, const void*, std::size_t, int);
    ssize_t (*sendto)(int, const void*, std::size_t, int, const sockaddr*, socklen_t);
    ssize_t (*sendmsg)(int, const msghdr*, int);
    ssize_t (*write)(int, const void*, std::size_t);
    ssize_t (*writev)(int, const iovec*, int);
    ssize_t (*sendfile)(int, int, off_t*, std::size_t);
    int (*sendmmsg)(int, mmsghdr*, unsigned, int);
    int (*recvmmsg)(int, mmsghdr*, unsigned, int, timespec*);
    ssize_t (*preadv2)(int, const iovec*, int, off_t, int);
    ssize_t (*pwritev2)(int, const iovec*, int, off_t, int);
    ssize_t (*splice)(int, off64_t*, int, off64_t*, std::size_t, unsigned);
    int (*poll)(pollfd*, nfds_t, int);
    int (*ppoll)(pollfd*, nfds_t, const timespec*, const sigset_t*);
    int (*select)(int, fd_set*, fd_set*, fd_set*, timeval*);
    int (*pselect)(int, fd_set*, fd_set*, fd_set*, const timespec*, const sigset_t*);
    int (*epoll_create1)(int);
    int (*epoll_ctl)(int, int, int, epoll_event*);
    int (*epoll_wait)(int, epoll_event*, int, int);
    int (*epoll_pwait)(int, epoll_event*, int, int, const sigset_t*);
    // nullptr: this C library has none. The same for close_range and closefrom.
    int (*epoll_pwait2)(int, epoll_event*, int, const timespec*, const sigset_t*);
    int (*dup)(int);
    int (*dup2)(int, int);
    int (*dup3)(int, int, int);
    int (*fcntl)(int, int, ...);
    int (*ioctl)(int, unsigned long, ...);
};

// Looked up at the first call.
const Real& real();

// A socket's option that is a number; -1: it has none.
inline int option_of(int fd, int level, int option) {
    int value = -1;
    socklen_t size = sizeof value;
    return real().getsockopt(fd, level, option, &value, &size) == 0 ? value : -1;
}

// Whether the code at this address is the rdma libraries' own, whose sockets and epoll sets are not the
// program's.
bool is_library_code(const void* address);

}  // namespace verbena::rspreload
