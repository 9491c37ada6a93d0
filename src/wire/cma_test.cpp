#include "wire/cma.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace verbena::wire {
namespace {

using ::testing::ElementsAreArray;
using HeaderBytes = std::array<std::uint8_t, kCmaHeaderLength>;

TEST(Cma, Ipv4Layout) {
    CmaHeader h;
    h.port = 0x1d51;
    h.set_addresses(Gid::from_ipv4(0x0a4d0003), Gid::from_ipv4(0x0a4d0002));
    HeaderBytes out{};
    encode(h, out);
    EXPECT_THAT(
        out, ElementsAreArray({0x00, 0x40, 0x1d, 0x51, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,    0,    0x0a, 0x4d,
                               0,    3,    0,    0,    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x0a, 0x4d, 0,    2}));
    CmaHeader back;
    EXPECT_TRUE(decode(out, back));
    EXPECT_EQ(back, h);
    EXPECT_EQ(back.source_gid(), Gid::from_ipv4(0x0a4d0003));
    EXPECT_EQ(back.destination_gid(), Gid::from_ipv4(0x0a4d0002));
}

TEST(Cma, Ipv6KeepsTheWholeAddress) {
    Gid a, b;
    a.bytes = {0xfe, 0x80, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14};
    b.bytes = {0xfd, 1, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 15};
    CmaHeader h;
    h.set_addresses(a, b);
    EXPECT_EQ(h.ip_version, 6);
    EXPECT_EQ(h.source_gid(), a);
    EXPECT_EQ(h.destination_gid(), b);
    HeaderBytes out{};
    encode(h, out);
    EXPECT_EQ(out[1], 0x60);
    EXPECT_EQ(out[4], 0xfe);
    EXPECT_EQ(out[35], 15);
}

TEST(Cma, DecodeLosesNothingAndJudgesTheVersions) {
    std::mt19937 random(1);
    for (int i = 0; i < 2000; i++) {
        HeaderBytes in{}, out{};
        for (std::uint8_t& byte : in) byte = static_cast<std::uint8_t>(random());
        if (i % 2 == 0) in[0] = 0;
        CmaHeader h;
        bool good = decode(in, h);
        EXPECT_EQ(good, in[0] == 0 && (in[1] >> 4 == 4 || in[1] >> 4 == 6));
        encode(h, out);
        ASSERT_EQ(in, out);
    }
}

TEST(Cma, ServiceIds) {
    EXPECT_EQ(service_id(kPortSpaceTcp, 7174), 0x0000000001061c06u);
    EXPECT_EQ(service_id(kPortSpaceUdp, 7174), 0x0000000001111c06u);
    EXPECT_TRUE(is_ip_service(service_id(kPortSpaceTcp, 1)));
    EXPECT_TRUE(is_ip_service(service_id(kPortSpaceIpoib, 1)));
    EXPECT_FALSE(is_ip_service(0x0000000000030001u));
    EXPECT_FALSE(is_ip_service(0x0000000002061c06u));
    EXPECT_FALSE(is_ip_service(0x1000000001061c06u));
    EXPECT_EQ(service_port_space(0x0000000001061c06u), kPortSpaceTcp);
    EXPECT_EQ(service_port(0x0000000001061c06u), 7174);
}

}  // namespace
}  // namespace verbena::wire
