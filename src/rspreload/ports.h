// Ports of rsockets, which are those of TCP as well: the program's peers and neighbours may mean either.
#pragma once

#include <sys/socket.h>

#include "rspreload/entries.h"

namespace verbena::rspreload {

enum class Bound {
    yes,
    no,          // with errno: the rsocket cannot be
    not_by_tcp,  // with errno: TCP has not got it free, or not for this program
};

// To an address that TCP has free, and then for both, as long as nobody takes it for TCP in between. `local`
// becomes what it is bound to. Nothing is bound if it cannot be.
Bound bind_both(int fd, int rs, const Entry& entry, sockaddr_storage& local, socklen_t& length);

// As the kernel, which chooses a port if the socket has none.
int listen_both(int fd, int rs, Entry& entry, int backlog);

}  // namespace verbena::rspreload
