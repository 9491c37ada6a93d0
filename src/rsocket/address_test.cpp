// Addresses between programs, rsockets and the wire.
#include "rsocket/address.h"

#include <gtest/gtest.h>

#include <cstring>

namespace verbena::rsocket {
namespace {

Address of(std::uint8_t first, std::uint8_t second, std::uint32_t scope) {
    sockaddr_in6 given{};
    given.sin6_family = AF_INET6;
    given.sin6_port = htons(7);
    given.sin6_addr.s6_addr[0] = first;
    given.sin6_addr.s6_addr[1] = second;
    given.sin6_addr.s6_addr[15] = 1;
    given.sin6_scope_id = scope;
    Address address;
    EXPECT_EQ(address.assign(reinterpret_cast<const sockaddr*>(&given), socklen_t{sizeof given}), 0);
    return address;
}

std::uint32_t scope_of(const Address& address) {
    sockaddr_in6 shown{};
    std::memcpy(&shown, address.get(), sizeof shown);
    return shown.sin6_scope_id;
}

TEST(RsocketAddress, a_link_local_address_keeps_its_interface) {
    const Endpoint endpoint = of(0xfe, 0x80, 5).endpoint();
    EXPECT_EQ(endpoint.scope, 5u);
    EXPECT_EQ(scope_of(Address(endpoint)), 5u);
    EXPECT_NE(endpoint, of(0xfe, 0x80, 6).endpoint());
    std::array<std::uint8_t, kMaxDatagramHeader> bytes{};
    encode_datagram_header(endpoint, bytes);
    EXPECT_EQ(decode_datagram_header(bytes)->source.scope, 0u);
}

TEST(RsocketAddress, others_have_none) { EXPECT_EQ(of(0xfd, 0, 5).endpoint(), of(0xfd, 0, 0).endpoint()); }

TEST(RsocketAddress, a_device_knows_one_loopback_address) {
    auto of_ipv4 = [](std::uint32_t address) {
        Endpoint endpoint;
        for (int i = 0; i < 4; i++)
            endpoint.address[static_cast<std::size_t>(i)] =
                static_cast<std::uint8_t>(address >> (24 - 8 * i));
        return Address(endpoint).gid();
    };
    const Gid loopback = Gid::from_ipv4(INADDR_LOOPBACK);
    EXPECT_EQ(of_ipv4(INADDR_LOOPBACK), loopback);
    EXPECT_EQ(of_ipv4(INADDR_LOOPBACK + 1), loopback);
    EXPECT_EQ(Address::any(AF_INET).gid(), loopback);
    EXPECT_EQ(of_ipv4(0x0a000001), Gid::from_ipv4(0x0a000001));
    EXPECT_EQ(Address::any(AF_INET6).gid().bytes[15], 1);
    EXPECT_EQ(of(0xfd, 3, 0).gid().bytes[1], 3);
}

}  // namespace
}  // namespace verbena::rsocket
