#include "daemon/totals.h"

#include <gtest/gtest.h>

namespace verbena::daemon {
namespace {

TEST(TotalsTest, ProgramsThatEnded) {
    auto segment = adapter::Segment::create_shared({.regions = 10, .queue_pairs = 10, .objects = 10}, 1);
    ASSERT_NE(segment, nullptr);
    segment->totals_of(3).own.messages_sent = 5;
    segment->queue_pairs()[0].created = 1;
    segment->queue_pairs()[0].number = 0x1001;  // killed with a queue pair
    segment->queue_pairs()[0].device = 3;
    segment->queue_pairs()[0].peer_device = adapter::kNoDevice;
    segment->busy_counters_of(segment->queue_pairs()[0]).messages_sent = 2;
    Totals totals;
    totals.program_ended(segment->fd());
    totals.program_ended(segment->fd());
    EXPECT_EQ(totals.of(3).own.messages_sent, 14u);
    EXPECT_EQ(totals.of(2).own.messages_sent, 0u);
    EXPECT_EQ(totals.ended(), 2u);
}

TEST(TotalsTest, ManagementPackets) {
    Totals totals;
    totals.mad_sent(1);
    totals.mad_received(1);
    totals.mad_received(1);
    EXPECT_EQ(totals.of(1).own.packets_sent, 1u);
    EXPECT_EQ(totals.of(1).own.wire_bytes_sent, 280u);  // BTH, DETH, MAD, ICRC
    EXPECT_EQ(totals.of(1).own.packets_received, 2u);
}

TEST(TotalsTest, AnUpAndDownCountsOnce) {
    Totals totals;
    for (bool active : {false, true, true, false, false, true}) totals.port_is(1, active);
    EXPECT_EQ(totals.of(1).link_downed, 1u);
}

}  // namespace
}  // namespace verbena::daemon
