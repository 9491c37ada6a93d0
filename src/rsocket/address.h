// A socket address as programs pass it, checked once.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdint>

#include "base/gid.h"
#include "rsocket/wire.h"

namespace verbena::rsocket {

class Address {
   public:
    Address() = default;
    explicit Address(const Endpoint& endpoint);
    // The family's wildcard with port 0.
    static Address any(int family);
    // What a socket of the kernel's is bound to, as a socket of that family shows it.
    static Address of_socket(int fd, int family);

    // Copies a program's address. An errno: EFAULT, EINVAL (too short), EAFNOSUPPORT.
    [[nodiscard]] int assign(const sockaddr* address, socklen_t length);
    // Copies what a cm id holds; family 0 gives the wildcard of `family`.
    void assign(const sockaddr* address, int family);

    int family() const { return storage_.ss_family; }
    std::uint16_t port() const;
    void set_port(std::uint16_t port);
    bool is_any() const;
    bool is_link_local() const;
    // As a device knows it: one address for all of the loopback's, and for "any" as a destination.
    Gid gid() const;
    Endpoint endpoint() const;

    const sockaddr* get() const { return static_cast<const sockaddr*>(static_cast<const void*>(&storage_)); }
    sockaddr* get() { return static_cast<sockaddr*>(static_cast<void*>(&storage_)); }
    socklen_t length() const { return family() == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in); }

    // ::ffff:a.b.c.d as a.b.c.d, and back, for IPv6 sockets that speak to IPv4 hosts.
    Address unmapped() const;
    Address mapped() const;

    // As getsockname does it: cut to the room that there is, the full length returned.
    void copy_to(sockaddr* address, socklen_t* length) const;

   private:
    sockaddr_in& v4() { return *static_cast<sockaddr_in*>(static_cast<void*>(&storage_)); }
    const sockaddr_in& v4() const {
        return *static_cast<const sockaddr_in*>(static_cast<const void*>(&storage_));
    }
    sockaddr_in6& v6() { return *static_cast<sockaddr_in6*>(static_cast<void*>(&storage_)); }
    const sockaddr_in6& v6() const {
        return *static_cast<const sockaddr_in6*>(static_cast<const void*>(&storage_));
    }

    sockaddr_storage storage_{};
};

}  // namespace verbena::rsocket
