#include "rsocket/datagram_peer_table.h"

#include <gtest/gtest.h>

namespace verbena::rsocket {
namespace {

using Speaker = PeerTable::Speaker;

Endpoint endpoint(std::size_t number) {
    Endpoint endpoint;
    endpoint.port = static_cast<std::uint16_t>(number);
    return endpoint;
}

// One peer each of these ports, which is also its QPN.
void add(PeerTable& table, std::size_t first, std::size_t count, Speaker speaker) {
    for (std::size_t i = first; i < first + count; i++) {
        Peer peer;
        peer.qpn = static_cast<std::uint32_t>(i);
        EXPECT_EQ(table.add(endpoint(i), std::move(peer), speaker).qpn, i);
    }
}

std::size_t count(PeerTable& table, std::size_t first, std::size_t end) {
    std::size_t found = 0;
    for (std::size_t i = first; i < end; i++)
        if (const Peer* peer = table.find(endpoint(i), Speaker::peer)) found += peer->qpn == i;
    return found;
}

TEST(PeerTable, strangers_displace_the_stranger_least_recently_heard) {
    PeerTable table;
    add(table, 0, PeerTable::kMostStrangers, Speaker::peer);
    EXPECT_NE(table.find(endpoint(0), Speaker::peer), nullptr);
    add(table, 10'000, 1, Speaker::peer);
    EXPECT_NE(table.find(endpoint(0), Speaker::peer), nullptr);
    EXPECT_EQ(table.find(endpoint(1), Speaker::peer), nullptr);
    add(table, 20'000, 10'000, Speaker::peer);
    EXPECT_EQ(count(table, 0, 30'000), PeerTable::kMostStrangers);
}

TEST(PeerTable, strangers_do_not_displace_whom_the_program_sends_to) {
    PeerTable table;
    add(table, 1, 2, Speaker::program);
    add(table, 3, 2, Speaker::peer);
    EXPECT_NE(table.find(endpoint(3), Speaker::program), nullptr);
    add(table, 10'000, 10'000, Speaker::peer);
    EXPECT_EQ(count(table, 1, 5), 3u);
    EXPECT_EQ(table.find(endpoint(4), Speaker::peer), nullptr);
}

TEST(PeerTable, whom_the_program_sends_to_is_limited_too) {
    PeerTable table;
    add(table, 0, PeerTable::kMostKnown, Speaker::program);
    EXPECT_NE(table.find(endpoint(0), Speaker::program), nullptr);
    EXPECT_NE(table.find(endpoint(1), Speaker::peer), nullptr);  // it sends, the program does not answer
    add(table, 10'000, 1, Speaker::program);
    EXPECT_NE(table.find(endpoint(0), Speaker::peer), nullptr);
    EXPECT_EQ(table.find(endpoint(1), Speaker::peer), nullptr);
    add(table, 20'000, 1, Speaker::peer);
    EXPECT_NE(table.find(endpoint(20'000), Speaker::program), nullptr);  // a stranger no longer
    EXPECT_EQ(count(table, 0, 30'000), PeerTable::kMostKnown);
}

}  // namespace
}  // namespace verbena::rsocket
