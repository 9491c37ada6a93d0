// The bytes of the rsocket protocol: positions and byte orders are fixed by the other implementation.
#include "rsocket/wire.h"

#include <gtest/gtest.h>

namespace verbena::rsocket {
namespace {

TEST(RsocketWire, hello) {
    Hello hello;
    hello.big_endian = false;
    hello.credits = 0x0180;
    hello.map_entries = 3;
    hello.list = {0x0102030405060708, 0x11121314, 2};
    hello.buffer = {0x2122232425262728, 0x31323334, 0x10000};
    const std::array<std::uint8_t, kHelloSize> expected{
        1,    2,    0x01, 0x80, 0,    0,    0,    3,    1, 2, 3,    4,    5,    6,
        7,    8,    0x11, 0x12, 0x13, 0x14, 0,    0,    0, 2, 0x21, 0x22, 0x23, 0x24,
        0x25, 0x26, 0x27, 0x28, 0x31, 0x32, 0x33, 0x34, 0, 1, 0,    0};
    const auto bytes = encode(hello);
    EXPECT_EQ(bytes, expected);
    const auto back = decode_hello(bytes);
    ASSERT_TRUE(back);
    EXPECT_FALSE(back->big_endian);
    EXPECT_EQ(back->credits, 0x180);
    EXPECT_EQ(back->map_entries, 3u);
    EXPECT_EQ(back->list.key, 0x11121314u);
    EXPECT_EQ(back->buffer.length, 0x10000u);
}

TEST(RsocketWire, hello_of_another_version_or_too_short) {
    auto bytes = encode(Hello{});
    EXPECT_FALSE(decode_hello(std::span(bytes).first(kHelloSize - 1)));
    bytes[0] = 2;
    EXPECT_FALSE(decode_hello(bytes));
}

TEST(RsocketWire, map_sizes) {
    for (unsigned entries : {0u, 1u, 127u, 128u, 256u, 512u, 32512u})
        EXPECT_EQ(map_entries(map_scale(entries)), entries);
    EXPECT_EQ(map_entries(map_scale(300)), 256u);
}

TEST(RsocketWire, messages) {
    EXPECT_EQ(message(Kind::data, 5), 5u);
    EXPECT_EQ(message(Kind::credit, 0x1234), 0x80001234u);
    EXPECT_EQ(message(Kind::control, 2), 0xe0000002u);
    EXPECT_EQ(kind_of(0xc0000007), Kind::map);
    EXPECT_EQ(argument_of(0xc0000007), 7u);
}

TEST(RsocketWire, a_flow_tells_no_endpoints_apart) {
    const Endpoint endpoint{AF_INET6, {0xfe, 0x80, 1}, 7, 0, 2};
    Endpoint other = endpoint;
    other.flow = 9;
    EXPECT_EQ(other, endpoint);
    other.scope = 3;
    EXPECT_NE(other, endpoint);
}

TEST(RsocketWire, datagram_headers) {
    std::array<std::uint8_t, kMaxDatagramHeader> bytes{};
    const Endpoint v4{AF_INET, {10, 1, 2, 3}, 0x1d2f, 0, 0};
    ASSERT_EQ(encode_datagram_header(v4, bytes), 8u);
    EXPECT_EQ((std::array{bytes[0], bytes[1], bytes[2], bytes[3], bytes[4], bytes[7]}),
              (std::array<std::uint8_t, 6>{4, 8, 0x1d, 0x2f, 10, 3}));
    EXPECT_EQ(decode_datagram_header(bytes)->source, v4);
    EXPECT_FALSE(decode_datagram_header(std::span(bytes).first(7)));

    const Endpoint v6{AF_INET6, {0xfe, 0x80, 1}, 7, 9, 0};
    ASSERT_EQ(encode_datagram_header(v6, bytes), 24u);
    EXPECT_EQ(decode_datagram_header(bytes)->source, v6);
    EXPECT_EQ(decode_datagram_header(bytes)->source.flow, v6.flow);
    bytes[1] = 23;
    EXPECT_FALSE(decode_datagram_header(bytes));
}

TEST(RsocketWire, udp_headers) {
    std::array<std::uint8_t, kMaxUdpHeader> bytes{};
    const UdpHeader header{UdpOperation::control, 0x010203, {AF_INET, {127, 0, 0, 1}, 0, 0, 0}, 0};
    ASSERT_EQ(encode_udp_header(header, bytes), 16u);
    EXPECT_EQ((std::array{bytes[0], bytes[4], bytes[5], bytes[6], bytes[8], bytes[9], bytes[11], bytes[12]}),
              (std::array<std::uint8_t, 8>{0x55, 4, 7, 16, 0, 1, 3, 127}));
    const auto back = decode_udp_header(bytes);
    ASSERT_TRUE(back);
    EXPECT_EQ(back->qpn, 0x010203u);
    EXPECT_EQ(back->operation, UdpOperation::control);
    bytes[3] = 0;
    EXPECT_FALSE(decode_udp_header(bytes));
}

}  // namespace
}  // namespace verbena::rsocket
