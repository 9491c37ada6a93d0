// repoll_*: epoll over rsockets and other descriptors. The descriptor that the program gets is an epoll set
// of the kernel's, in which rsockets stand with their own descriptors; readiness is asked of the rsockets
// themselves, so it is level-triggered unless EPOLLET is asked for.
#pragma once

namespace verbena::rsocket {

// rclose of such a descriptor; false if it is none.
bool close_epoll(int fd);

}  // namespace verbena::rsocket
