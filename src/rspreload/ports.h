// Ports of rsockets.
#pragma once

#include <sys/socket.h>

#include "rspreload/entries.h"

namespace verbena::rspreload {

// Its port is one of TCP's as well, which the program's peers and neighbours may mean: one that TCP has free,
// and then of both. `local` becomes what it is bound to. -1 with errno, and nothing is bound.
int bind_both(int fd, int rs, const Entry& entry, sockaddr_storage& local, socklen_t& length);

}  // namespace verbena::rspreload
