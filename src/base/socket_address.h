// The address of a UDP socket, as the kernel takes it.
//
// Thread safety: a value.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdint>
#include <cstring>

#include "base/gid.h"

namespace verbena {

class SocketAddress {
   public:
    SocketAddress() = default;
    // `interface_index` counts where the address alone does not say it.
    SocketAddress(const Gid& gid, std::uint16_t port, std::uint32_t interface_index = 0)
        : is_ipv4_(gid.is_ipv4()), address_{} {
        if (is_ipv4_) {
            address_.ipv4.sin_family = AF_INET;
            address_.ipv4.sin_port = htons(port);
            address_.ipv4.sin_addr.s_addr = htonl(gid.ipv4());
        } else {
            address_.ipv6.sin6_family = AF_INET6;
            address_.ipv6.sin6_port = htons(port);
            std::memcpy(&address_.ipv6.sin6_addr, gid.bytes.data(), sizeof address_.ipv6.sin6_addr);
            if (gid.is_link_local() || gid.is_multicast()) address_.ipv6.sin6_scope_id = interface_index;
        }
    }

    const sockaddr* get() const { return &address_.any; }
    socklen_t size() const { return is_ipv4_ ? sizeof address_.ipv4 : sizeof address_.ipv6; }

   private:
    bool is_ipv4_ = false;
    union {
        sockaddr_in6 ipv6;
        sockaddr_in ipv4;
        sockaddr any;
    } address_;  // not set up by default
};

}  // namespace verbena
