// What stands in an epoll set of the kernel's for us.
#pragma once

#include <sys/epoll.h>

#include <cerrno>
#include <cstdint>

namespace verbena::rsocket {

// Told from the program's data by an address that is none of the program's.
inline epoll_event marked(const void* own) {
    epoll_event event{EPOLLIN, {}};
    event.data.u64 = reinterpret_cast<std::uintptr_t>(own);
    return event;
}

// In a set whose data are all ours: its number. An errno.
inline int add_to(int set, int fd) {
    epoll_event event{EPOLLIN, {}};
    event.data.fd = fd;
    return epoll_ctl(set, EPOLL_CTL_ADD, fd, &event) == 0 || errno == EEXIST ? 0 : errno;
}

}  // namespace verbena::rsocket
