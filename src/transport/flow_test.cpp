#include "transport/flow.h"

#include <gtest/gtest.h>

namespace verbena::transport {
namespace {

const Gid kPeer = Gid::from_ipv4(0x0a000001);

// Sends and acknowledges a whole window.
void round_trip(Flow& flow) {
    const auto window = flow.window();
    flow.sent(window);
    flow.acknowledged(window);
}

TEST(Flow, OnePacketMayAlwaysGo) {
    Flow flow;
    EXPECT_TRUE(flow.allows(10'000'000));
    flow.sent(1);
    EXPECT_FALSE(flow.allows(10'000'000));
    flow.sent(flow.window() - 101);
    EXPECT_TRUE(flow.allows(100));
    EXPECT_FALSE(flow.allows(101));
}

TEST(Flow, DoublesInARoundTripWhileItIsUsed) {
    Flow flow;
    round_trip(flow);
    EXPECT_EQ(flow.window(), 2 * Flow::kInitialWindow);
    for (int i = 0; i < 100; i++) round_trip(flow);
    EXPECT_EQ(flow.window(), Flow::kMaximumWindow);
}

TEST(Flow, DoesNotGrowUnused) {
    Flow flow;
    for (int i = 0; i < 100; i++) {
        flow.sent(flow.window() / 4);
        flow.acknowledged(flow.window() / 4);
    }
    EXPECT_EQ(flow.window(), Flow::kInitialWindow);
}

TEST(Flow, HalvesAndThenGrowsSlowly) {
    Flow flow;
    for (int i = 0; i < 10; i++) round_trip(flow);
    const auto before = flow.window();
    flow.lost();
    EXPECT_EQ(flow.window(), before / 2);
    round_trip(flow);
    EXPECT_LT(flow.window(), before / 2 + 10'000);
    EXPECT_GT(flow.window(), before / 2);
    for (int i = 0; i < 20; i++) flow.lost();
    EXPECT_EQ(flow.window(), Flow::kMinimumWindow);
}

TEST(Flow, DoublesUpToTheThresholdHoweverMuchIsAcknowledgedAtOnce) {
    Flow flow;
    flow.collapsed();  // the threshold is half of the window, and nothing was in flight
    EXPECT_EQ(flow.window(), Flow::kMinimumWindow);
    flow.sent(3 * Flow::kInitialWindow);
    flow.acknowledged(3 * Flow::kInitialWindow);
    EXPECT_EQ(flow.window(), Flow::kInitialWindow / 2);
}

TEST(Flow, AThousandLossesOfOneBurstAreOneLoss) {
    Flow flow;
    flow.sent(Flow::kInitialWindow);
    for (int i = 0; i < 1000; i++) flow.lost();
    EXPECT_EQ(flow.window(), Flow::kInitialWindow / 2);
    flow.collapsed();
    EXPECT_EQ(flow.window(), Flow::kInitialWindow / 2);
    flow.withdrawn(Flow::kInitialWindow);  // all of that burst is over
    flow.lost();
    EXPECT_EQ(flow.window(), Flow::kInitialWindow / 4);
    flow.collapsed();
    EXPECT_EQ(flow.window(), Flow::kMinimumWindow);
}

TEST(Flow, TurnsAreTakenInOrder) {
    Flow flow;
    EXPECT_FALSE(flow.crowded());
    flow.wait(1, false);
    flow.wait(2, false);
    EXPECT_TRUE(flow.crowded());
    EXPECT_EQ(flow.next_waiting(), 1u);
    flow.wait(1, true);  // its packet was too large
    EXPECT_TRUE(flow.is_next(1));
    EXPECT_EQ(flow.next_waiting(), 1u);
    EXPECT_EQ(flow.next_waiting(), 2u);
    EXPECT_EQ(flow.next_waiting(), 0u);
    EXPECT_FALSE(flow.crowded());
}

TEST(FlowShare, NobodyPassesThoseWhoWait) {
    auto flow = std::make_shared<Flow>();
    FlowShare a, b;
    a.join(flow);
    b.join(flow);
    a.sent(flow->window());
    EXPECT_TRUE(a.alone());
    EXPECT_FALSE(b.alone());
    EXPECT_FALSE(b.allows(100));
    b.wait(2, false);
    b.wait(2, false);  // once is enough
    a.acknowledged(1000);
    EXPECT_FALSE(a.allows(100));
    EXPECT_EQ(flow->next_waiting(), 2u);
    EXPECT_FALSE(flow->crowded());
    b.turn(true);
    flow->wait(3, false);
    EXPECT_TRUE(b.allows(100));
    b.turn(false);
    EXPECT_FALSE(b.allows(100));
}

TEST(FlowShare, WhatAQueuePairHadInFlightEndsWithIt) {
    auto flow = std::make_shared<Flow>();
    {
        FlowShare share;
        share.join(flow);
        share.sent(5000);
        share.acknowledged(9000);  // more than it has
        EXPECT_EQ(flow->in_flight(), 0u);
        share.sent(3000);
        EXPECT_FALSE(share.idle());
    }
    EXPECT_EQ(flow->in_flight(), 0u);
}

TEST(FlowTable, OneFlowForAReceiveQueue) {
    FlowTable table;
    const auto flow = table.find(kPeer, 0x5001);
    EXPECT_EQ(table.find(kPeer, 0x5fff), flow);
    EXPECT_NE(table.find(kPeer, 0x6000), flow);
    EXPECT_NE(table.find(Gid::from_ipv4(0x0a000002), 0x5001), flow);
    for (std::uint32_t i = 0; i < 1000; i++) table.find(kPeer, i << 12);  // nobody keeps them
    EXPECT_EQ(table.find(kPeer, 0x5001), flow);
}

// While it is lent others may use it; what arrives meanwhile is not counted twice.
TEST(FlowShareTest, LendsItsRoomAndTakesItBack) {
    auto flow = std::make_shared<Flow>();
    FlowShare share;
    share.join(flow);
    EXPECT_FALSE(share.lend()) << "nothing is under way";
    share.sent(5000);
    EXPECT_TRUE(share.lend());
    EXPECT_FALSE(share.lend());
    EXPECT_EQ(flow->in_flight(), 0u);
    EXPECT_TRUE(share.alone());
    share.acknowledged(2000);
    EXPECT_EQ(flow->in_flight(), 0u);
    share.take_back();
    share.take_back();
    EXPECT_EQ(flow->in_flight(), 3000u);
    EXPECT_TRUE(share.lend());
    share.sent(1000);
    EXPECT_EQ(flow->in_flight(), 4000u);
    EXPECT_TRUE(share.lend());
    share.withdraw();
    EXPECT_EQ(flow->in_flight(), 0u);
    EXPECT_TRUE(share.idle());
}

}  // namespace
}  // namespace verbena::transport
