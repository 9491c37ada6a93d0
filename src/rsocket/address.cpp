#include "rsocket/address.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/reason.h"
#include "base/socket_address.h"

namespace verbena::rsocket {

Address::Address(const Endpoint& endpoint) {
    storage_.ss_family = endpoint.family;
    set_port(endpoint.port);
    if (endpoint.family == AF_INET) {
        std::memcpy(&v4().sin_addr, endpoint.address.data(), 4);
    } else {
        std::memcpy(&v6().sin6_addr, endpoint.address.data(), 16);
        v6().sin6_flowinfo = endpoint.flow;
        v6().sin6_scope_id = endpoint.scope;
    }
}

Address Address::any(int family) {
    Address address;
    address.storage_.ss_family = static_cast<sa_family_t>(family);
    return address;
}

Address Address::of_socket(int fd, int family) {
    sockaddr_storage storage{};
    socklen_t length = sizeof storage;
    auto* const name = static_cast<sockaddr*>(static_cast<void*>(&storage));
    getsockname(fd, name, &length);
    Address address;
    address.assign(name, family);
    return address;
}

int Address::assign(const sockaddr* address, socklen_t length) {
    if (!address) return fail(EFAULT, "the address is NULL");
    if (length < sizeof(sa_family_t)) return fail(EINVAL, "an address of %u bytes", length);
    if (address->sa_family != AF_INET && address->sa_family != AF_INET6)
        return fail(EAFNOSUPPORT, "an address of family %d; rsockets know AF_INET and AF_INET6",
                    address->sa_family);
    const socklen_t needed = address->sa_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    if (length < needed) return fail(EINVAL, "an address of %u bytes, %u are needed", length, needed);
    storage_ = {};
    std::memcpy(&storage_, address, needed);
    return 0;
}

void Address::assign(const sockaddr* address, int family) {
    *this = any(family);
    if (address->sa_family != AF_INET && address->sa_family != AF_INET6) return;
    std::memcpy(&storage_, address,
                address->sa_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6));
    if (this->family() == AF_INET && family == AF_INET6) *this = mapped();
}

std::uint16_t Address::port() const { return ntohs(family() == AF_INET6 ? v6().sin6_port : v4().sin_port); }

void Address::set_port(std::uint16_t port) {
    if (family() == AF_INET6)
        v6().sin6_port = htons(port);
    else
        v4().sin_port = htons(port);
}

bool Address::is_any() const {
    return family() == AF_INET6 ? IN6_IS_ADDR_UNSPECIFIED(&v6().sin6_addr)
                                : v4().sin_addr.s_addr == INADDR_ANY;
}

bool Address::is_link_local() const { return family() == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&v6().sin6_addr); }

Gid Address::gid() const {
    constexpr std::uint8_t kLoopback = 127;  // 127.0.0.0/8
    Gid gid = gid_of(get()).value_or(Gid{});
    if (family() == AF_INET)
        return is_any() || gid.bytes[12] == kLoopback ? Gid::from_ipv4(INADDR_LOOPBACK) : gid;
    if (is_any()) gid.bytes[15] = 1;
    return gid;
}

Endpoint Address::endpoint() const {
    Endpoint endpoint;
    endpoint.family = storage_.ss_family;
    endpoint.port = port();
    if (family() == AF_INET) {
        std::memcpy(endpoint.address.data(), &v4().sin_addr, 4);
    } else {
        std::memcpy(endpoint.address.data(), &v6().sin6_addr, 16);
        endpoint.flow = v6().sin6_flowinfo;
        if (is_link_local()) endpoint.scope = v6().sin6_scope_id;  // of others it says nothing
    }
    return endpoint;
}

Address Address::unmapped() const {
    if (family() != AF_INET6 || !IN6_IS_ADDR_V4MAPPED(&v6().sin6_addr)) return *this;
    Address plain = any(AF_INET);
    std::memcpy(&plain.v4().sin_addr, &v6().sin6_addr.s6_addr[12], 4);
    plain.set_port(port());
    return plain;
}

Address Address::mapped() const {
    if (family() != AF_INET) return *this;
    Address wide = any(AF_INET6);
    wide.set_port(port());
    if (is_any()) return wide;
    wide.v6().sin6_addr.s6_addr[10] = wide.v6().sin6_addr.s6_addr[11] = 0xff;
    std::memcpy(&wide.v6().sin6_addr.s6_addr[12], &v4().sin_addr, 4);
    return wide;
}

void Address::copy_to(sockaddr* address, socklen_t* length) const {
    if (!length) return;
    if (address) std::memcpy(address, &storage_, std::min<std::size_t>(*length, this->length()));
    *length = this->length();
}

}  // namespace verbena::rsocket
