// Many containers have no IPv6, not even on loopback. What a test says of it is left out there, and said so.
#pragma once

#include <unistd.h>

#include "base/socket_address.h"

namespace verbena {

inline bool has_ipv6() {
    Gid loopback;
    loopback.bytes[15] = 1;
    const SocketAddress address(loopback, 0);
    const int fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    const bool bound = fd >= 0 && bind(fd, address.get(), address.size()) == 0;
    if (fd >= 0) close(fd);
    return bound;
}

inline constexpr const char* kNoIpv6 = "::1 is no address of this host";

}  // namespace verbena
