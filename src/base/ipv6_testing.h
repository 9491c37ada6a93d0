// Many containers have no IPv6, not even on loopback, and some kernels do not know it. What a test says of it
// is left out there, and said so.
#pragma once

#include <unistd.h>

#include "base/socket_address.h"

namespace verbena {

// Whether a socket of the kernel's binds to this address of IPv6's.
inline bool binds_ipv6(const Gid& gid) {
    const SocketAddress address(gid, 0);
    const int fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    const bool bound = fd >= 0 && bind(fd, address.get(), address.size()) == 0;
    if (fd >= 0) close(fd);
    return bound;
}

// The kernel does; this host need not have an address.
inline bool knows_ipv6() { return binds_ipv6(any_address(AF_INET6)); }

inline bool has_ipv6() {
    Gid loopback;
    loopback.bytes[15] = 1;
    return binds_ipv6(loopback);
}

inline constexpr const char* kNoIpv6 = "::1 is no address of this host";
inline constexpr const char* kUnknownIpv6 = "this kernel knows no IPv6";

}  // namespace verbena
