// repoll_*: the calls, and the sets by their descriptors. A set itself: epoll_set.h.
#pragma once

namespace verbena::rsocket {

// rclose of such a descriptor; false if it is none.
bool close_epoll(int fd);

}  // namespace verbena::rsocket
