// The address of a UDP socket, as the kernel takes it and gives it back.
//
// Thread safety: a value.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdint>
#include <cstring>
#include <optional>

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

// Of a socket's address; nothing if it is of another family than these two.
inline std::optional<Gid> gid_of(const sockaddr* address) {
    if (address->sa_family == AF_INET) {
        sockaddr_in ipv4;
        std::memcpy(&ipv4, address, sizeof ipv4);
        return Gid::from_ipv4(ntohl(ipv4.sin_addr.s_addr));
    }
    if (address->sa_family != AF_INET6) return std::nullopt;
    sockaddr_in6 ipv6;
    std::memcpy(&ipv6, address, sizeof ipv6);
    Gid gid;
    std::memcpy(gid.bytes.data(), &ipv6.sin6_addr, gid.bytes.size());
    return gid;
}

// Of either family: it lies at the same place in both.
inline std::uint16_t port_of(const sockaddr* address) {
    sockaddr_in ipv4;
    std::memcpy(&ipv4, address, sizeof ipv4);
    return ntohs(ipv4.sin_port);
}

// What a socket of `family` (AF_INET or AF_INET6) binds to for all addresses; with AF_INET6 IPv4's, too.
inline Gid any_address(int family) { return family == AF_INET ? Gid::from_ipv4(INADDR_ANY) : Gid{}; }

}  // namespace verbena
