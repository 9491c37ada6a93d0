#include "link/capture_reader.h"

#include <gtest/gtest.h>

namespace verbena::link {
namespace {

constexpr std::uint64_t kStart = 1'000'000'000'000'000'000, kSecond = 1'000'000'000;

CapturedPacket packet(std::uint64_t nanoseconds, Direction direction, std::uint32_t content = 0) {
    CapturedPacket packet;
    packet.nanoseconds = kStart + nanoseconds;
    packet.direction = direction;
    packet.path.source = Gid::from_ipv4(0x0a000001);
    packet.path.destination = Gid::from_ipv4(0x0a000002);
    for (int shift = 0; shift < 32; shift += 8)
        packet.bytes.push_back(static_cast<std::uint8_t>(content >> shift));
    return packet;
}

// When those left that stay, in their order.
std::vector<std::uint64_t> times_after_merging(std::vector<CapturedPacket> packets) {
    merge_captures(packets);
    std::vector<std::uint64_t> times;
    for (const auto& packet : packets) times.push_back(packet.nanoseconds - kStart);
    return times;
}

using Times = std::vector<std::uint64_t>;

TEST(MergedCaptures, a_packet_that_left_and_arrived_is_there_once) {
    EXPECT_EQ(times_after_merging({packet(5, Direction::inbound), packet(3, Direction::outbound),
                                   packet(4, Direction::outbound, 1), packet(9, Direction::unknown)}),
              (Times{3, 4, 9}));
}

TEST(MergedCaptures, another_address_or_another_content_is_another_packet) {
    CapturedPacket elsewhere = packet(2, Direction::inbound), of_another = packet(3, Direction::inbound);
    elsewhere.path.destination = Gid::from_ipv4(0x0a000003);
    of_another.path.source = Gid::from_ipv4(0x0a000003);
    EXPECT_EQ(times_after_merging(
                  {packet(1, Direction::outbound), elsewhere, of_another, packet(4, Direction::inbound, 1)}),
              (Times{1, 2, 3, 4}));
}

TEST(MergedCaptures, each_departure_has_one_arrival) {
    EXPECT_EQ(times_after_merging({packet(1, Direction::outbound), packet(2, Direction::outbound),
                                   packet(3, Direction::inbound), packet(4, Direction::inbound),
                                   packet(5, Direction::inbound)}),
              (Times{1, 2, 5}));
}

TEST(MergedCaptures, an_arrival_comes_within_a_second_of_the_last_departure) {
    EXPECT_EQ(times_after_merging({packet(0, Direction::outbound), packet(2, Direction::inbound, 1),
                                   packet(kSecond, Direction::inbound)}),
              (Times{0, 2, kSecond}));
    EXPECT_EQ(times_after_merging({packet(0, Direction::outbound), packet(kSecond - 1, Direction::inbound)}),
              (Times{0}));
}

// Quadratic effort takes half a minute here.
TEST(MergedCaptures, of_many_arrivals_in_a_second_each_is_looked_up_at_once) {
    constexpr std::uint32_t kCount = 200'000;
    std::vector<CapturedPacket> packets;
    for (std::uint32_t i = 0; i < kCount; i++) packets.push_back(packet(i, Direction::inbound, i));
    merge_captures(packets);
    EXPECT_EQ(packets.size(), kCount);
}

}  // namespace
}  // namespace verbena::link
