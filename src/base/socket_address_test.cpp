#include "base/socket_address.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>

namespace verbena::testing {
namespace {

Gid v6(const char* text) {
    Gid gid;
    EXPECT_EQ(inet_pton(AF_INET6, text, gid.bytes.data()), 1) << text;
    return gid;
}

TEST(SocketAddressTest, AnAddressComesBack) {
    for (const Gid& gid :
         {Gid::from_ipv4(0x0a000001), Gid::from_ipv4(0), v6("fd00::2"), v6("fe80::3"), Gid{}})
        EXPECT_EQ(gid_of(SocketAddress(gid, 4791, 3).get()), gid) << to_string(gid);
}

TEST(SocketAddressTest, OneOfIpv4IsMapped) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(0x7f000001);
    EXPECT_EQ(gid_of(reinterpret_cast<const sockaddr*>(&address)), v6("::ffff:127.0.0.1"));
}

TEST(SocketAddressTest, OtherFamiliesHaveNone) {
    const sockaddr unspecified{};
    EXPECT_EQ(gid_of(&unspecified), std::nullopt);
}

TEST(SocketAddressTest, TheInterfaceCountsWhereTheAddressDoesNotSayIt) {
    const auto scope = [](const Gid& gid) {
        sockaddr_in6 address;
        std::memcpy(&address, SocketAddress(gid, 1, 7).get(), sizeof address);
        return address.sin6_scope_id;
    };
    EXPECT_EQ(scope(v6("fe80::3")), 7u);
    EXPECT_EQ(scope(v6("ff02::1")), 7u);
    EXPECT_EQ(scope(v6("fd00::2")), 0u);
}

}  // namespace
}  // namespace verbena::testing
