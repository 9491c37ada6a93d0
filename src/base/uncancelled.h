// The system calls that posting, polling and destructors make, without being points of cancellation
// (pthreads(7)), as the C library's are: whoever makes one holds locks, and has begun what must be ended.
// They answer as the C library's, by errno. What may take long, or makes many, is inside a NoCancellation
// (base/no_cancellation.h) instead.
//
// Thread safety: all calls.
#pragma once

#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstddef>

#ifdef VERBENA_THREAD_SANITIZER
#include "base/no_cancellation.h"
#endif

namespace verbena::uncancelled {

inline ssize_t read(int fd, void* into, std::size_t size) { return syscall(SYS_read, fd, into, size); }
inline ssize_t write(int fd, const void* from, std::size_t size) {
    return syscall(SYS_write, fd, from, size);
}
#ifdef VERBENA_THREAD_SANITIZER
// Which knows descriptors, and would take the next thread that gets this number for one that races with us.
inline int close(int fd) {
    const NoCancellation ending;
    return ::close(fd);
}
#else
inline int close(int fd) { return static_cast<int>(syscall(SYS_close, fd)); }
#endif

inline ssize_t sendmsg(int fd, const msghdr& message, int flags) {
    return syscall(SYS_sendmsg, fd, &message, flags);
}
inline ssize_t recvmsg(int fd, msghdr& message, int flags) {
    return syscall(SYS_recvmsg, fd, &message, flags);
}
inline int sendmmsg(int fd, mmsghdr* messages, unsigned count, int flags) {
    return static_cast<int>(syscall(SYS_sendmmsg, fd, messages, count, flags));
}
// Without a time: a call that waits belongs elsewhere.
inline int recvmmsg(int fd, mmsghdr* messages, unsigned count, int flags) {
    return static_cast<int>(syscall(SYS_recvmmsg, fd, messages, count, flags, nullptr));
}
// What is there now.
inline int poll_at_once(pollfd* files, unsigned count) {
    const timespec now{};
    return static_cast<int>(syscall(SYS_ppoll, files, count, &now, nullptr, 0));
}
inline int epoll_at_once(int fd, epoll_event* events, int most) {
    return static_cast<int>(syscall(SYS_epoll_pwait, fd, events, most, 0, nullptr, 0));
}

}  // namespace verbena::uncancelled
