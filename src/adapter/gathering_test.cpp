// When requests wait for others, and when they leave: a sender whose peer does not look, under a clock of the
// test's own. What has left is what waits at the peer.
#include <gtest/gtest.h>

#include "adapter/adapter.h"
#include "adapter/test_endpoint.h"

namespace verbena::adapter {
namespace {

using transport::Operation;

constexpr unsigned kTogether = 64, kRow = 8;
constexpr Duration kPatience = 50 * kMicrosecond, kStep = kPatience / 500;

class GatheringTest : public testing::Pair {
   protected:
    void post(unsigned count, std::uint32_t length = 8, Duration step = kStep) {
        for (unsigned i = 0; i < count; i++, now_ += step)
            ASSERT_EQ(
                left_.post(Operation::rdma_write, 0, length, now_, right_.address_of(0), right_.keys.rkey),
                0);
    }
    std::size_t left() { return links_[1].waiting(); }
    void peer_answers() {
        for (int i = 0; i < 2; i++)
            right_.adapter->progress(now_, true);  // an acknowledgement is held back once
        left_.adapter->progress(now_, true, Adapter::Caller::posts);
    }
    void poll_in_vain() { left_.adapter->progress(now_, true); }
};

TEST_F(GatheringTest, WaitFromTheEighthOfARowOnAndFillABurst) {
    post(kRow - 1);
    EXPECT_EQ(left(), kRow - 1);
    post(kTogether - 1);
    EXPECT_EQ(left(), kRow - 1);
    post(1);
    EXPECT_EQ(left(), kRow - 1 + kTogether);
}

// So that the peer, which had nothing else to do, works on one half while the other is made.
TEST_F(GatheringTest, HalfABurstLeavesIfItTookLongToMake) {
    post(kRow - 1);
    post(kTogether / 2 - 1, 8, 3 * kStep);
    EXPECT_EQ(left(), kRow - 1);
    post(1);
    EXPECT_EQ(left(), kRow - 1 + kTogether / 2);
    post(kTogether - 1, 8, 3 * kStep);
    EXPECT_EQ(left(), kRow - 1 + kTogether / 2);
    post(1);
    EXPECT_EQ(left(), kRow - 1 + kTogether / 2 + kTogether);
}

TEST_F(GatheringTest, LeaveWhenTheyAreManyBytes) {
    post(kRow - 1 + kTogether - 1, 1024);
    EXPECT_GT(left(), kRow - 1);
    EXPECT_LT(left(), kRow - 1 + kTogether - 1);
}

// Whose rate is limited leaves each in its time.
TEST_F(GatheringTest, WhatIsPacedDoesNotWait) {
    transport::Attributes a;
    a.rate_limit = 100'000'000;  // kbit/s
    left_.change(a, transport::QpState::rts, transport::kAttrRateLimit, now_);
    post(2 * kRow);
    EXPECT_EQ(left(), 2 * kRow);
}

TEST_F(GatheringTest, LeaveWhenSomebodyPollsInVain) {
    post(kRow + 2);
    EXPECT_EQ(left(), kRow - 1);
    unsigned done = 0;
    left_.adapter->glance(now_, done);
    EXPECT_EQ(left(), kRow + 2);
}

TEST_F(GatheringTest, LeaveInTime) {
    post(kRow);
    const Time posted_at = now_ - kStep;
    EXPECT_EQ(left_.adapter->gathers_until(), posted_at + kPatience);
    EXPECT_EQ(left_.adapter->next_deadline(), posted_at + kPatience);
    left_.adapter->progress(posted_at + kPatience - 1, true, Adapter::Caller::posts);
    EXPECT_EQ(left(), kRow - 1);
    left_.adapter->progress(posted_at + kPatience, true, Adapter::Caller::posts);
    EXPECT_EQ(left(), kRow);
    EXPECT_EQ(left_.adapter->gathers_until(), kNever);
}

TEST_F(GatheringTest, OfTheNextRowAllButTheFirstWait) {
    post(kRow);
    poll_in_vain();
    peer_answers();
    ASSERT_EQ(left(), 0u);
    post(1);
    EXPECT_EQ(left(), 1u) << "nothing is under way";
    post(2);
    EXPECT_EQ(left(), 1u);
    poll_in_vain();
    EXPECT_EQ(left(), 3u);
    post(kRow - 1);  // the row before was short
    EXPECT_EQ(left(), 3u + kRow - 1);
}

TEST_F(GatheringTest, NothingWaitsThatWasPostedWhileWaitingOrNowAndThen) {
    for (unsigned i = 0; i < 2 * kRow; i++) {
        post(1);
        poll_in_vain();
        EXPECT_EQ(left(), i + 1);
    }
    for (unsigned i = 0; i < 2 * kRow; i++) {
        now_ += 51 * kMicrosecond;
        post(1);
        EXPECT_EQ(left(), 2 * kRow + i + 1);
    }
}

TEST_F(GatheringTest, WhatDoesNotGatherTakesThemAlong) {
    post(kRow + 1);
    EXPECT_EQ(left(), kRow - 1);
    post(1, 1500);  // two packets
    EXPECT_EQ(left(), kRow + 1 + 2);
    post(1);
    EXPECT_EQ(left(), kRow + 1 + 2 + 1) << "the row is over";
}

TEST_F(GatheringTest, AcknowledgementsLeaveThemTheirTime) {
    post(kRow + 1);
    peer_answers();
    EXPECT_EQ(left(), 0u);
    EXPECT_TRUE(left_.adapter->awaits_acknowledgement(*left_.qp));
    poll_in_vain();
    EXPECT_EQ(left(), 2u);
}

TEST_F(GatheringTest, AnswersDoNotWait) {
    post(kRow + 1);
    ASSERT_EQ(right_.post(Operation::rdma_read, 0, 8, now_, left_.address_of(0), left_.keys.rkey), 0);
    const std::size_t before = left();
    left_.adapter->progress(now_, true, Adapter::Caller::posts);
    EXPECT_GT(left(), before);
}

TEST_F(GatheringTest, WhoStandsInLeavesThemTheirTime) {
    post(kRow);
    left_.adapter->progress_in_turn(now_);
    EXPECT_EQ(left(), kRow - 1);
    post(1);
    left_.adapter->progress_in_turn(left_.adapter->gathers_until().load());
    EXPECT_EQ(left(), kRow + 1);
}

TEST_F(GatheringTest, AListIsNoRow) {
    const transport::Sge sge{left_.address_of(0), 8, left_.keys.lkey};
    transport::SendRequest request;
    request.operation = Operation::rdma_write;
    request.sges = {&sge, 1};
    request.remote_address = right_.address_of(0);
    request.rkey = right_.keys.rkey;
    const std::vector<transport::SendRequest> list(kRow, request);
    for (unsigned lists = 1; lists <= 3; lists++, now_ += kMillisecond) {
        std::size_t index = 0;
        ASSERT_EQ(left_.adapter->post_send(left_.qp->number(), list, index, now_), 0);
        ASSERT_EQ(left_.adapter->post_send(left_.qp->number(), list, index, now_, false, true), 0);
        EXPECT_EQ(left(), lists * 2 * kRow);
    }
    ASSERT_EQ(left_.adapter->post_send_together(*left_.qp, {}, now_), 0);
    EXPECT_EQ(left_.adapter->gathers_until(), kNever);
}

TEST_F(GatheringTest, WhoLooksInVainLooksLessOften) {
    Duration patience = kPatience;
    for (unsigned i = 0; i < 6; i++) {
        post(2 * kRow);
        const Time until = left_.adapter->gathers_until();
        poll_in_vain();
        peer_answers();
        EXPECT_LE(until, now_ + patience);
        EXPECT_GT(until, now_ + patience - 2 * kRow * kStep - 1) << "round " << i;
        left_.adapter->look_at_gathered(until);
        patience = std::min<Duration>(2 * patience, kMillisecond);
        left_.poll();
    }
    post(2 * kRow);
    const std::size_t before = left();
    left_.adapter->look_at_gathered(left_.adapter->gathers_until());
    EXPECT_GT(left(), before) << "this look was needed";
    peer_answers();
    post(kRow);
    EXPECT_LE(left_.adapter->gathers_until(), now_ + kPatience);
}

// Each to its own address, however few places the send queue has.
TEST_F(GatheringTest, DatagramsGatherAndCompleteAtOnce) {
    transport::QpSetup setup;
    setup.service = transport::Service::ud;
    setup.port_mtu = 1024;
    setup.pd = testing::Endpoint::kPd;
    setup.capabilities = {2, 1, 1, 1, 0};
    setup.send_cq = setup.receive_cq = &left_.cq;
    setup.listener = &left_;
    transport::QueuePair* const qp = left_.adapter->create_qp(setup, now_);
    ASSERT_NE(qp, nullptr);
    transport::Attributes a;
    a.port = 1;
    const auto change = [&](transport::QpState state, std::uint32_t mask) {
        a.state = state;
        return left_.adapter->modify(*qp, a, mask | transport::kAttrState, now_);
    };
    ASSERT_EQ(change(transport::QpState::init,
                     transport::kAttrPkeyIndex | transport::kAttrPort | transport::kAttrQkey),
              0);
    ASSERT_EQ(change(transport::QpState::rtr, 0), 0);
    ASSERT_EQ(change(transport::QpState::rts, transport::kAttrSqPsn), 0);

    const transport::Sge sge{left_.address_of(0), 8, left_.keys.lkey};
    for (std::uint32_t i = 0; i < 2 * kRow; i++, now_ += kStep) {
        const wire::Path path{Gid::from_ipv4(0x0a000001), Gid::from_ipv4(0x0a000100 + i)};
        transport::SendRequest request;
        request.operation = Operation::send;
        request.flags = transport::kSignaled;
        request.sges = {&sge, 1};
        request.path = &path;
        request.path_pd = testing::Endpoint::kPd;
        request.remote_qp = i;
        std::size_t index = 0;
        ASSERT_EQ(left_.adapter->post_send(qp->number(), {&request, 1}, index, now_), 0);
        EXPECT_EQ(left_.poll().size(), 1u);
    }
    EXPECT_EQ(left(), kRow - 1);
    poll_in_vain();
    struct : link::Receiver {
        void datagram(const link::Datagram& datagram) override {
            EXPECT_EQ(datagram.path->destination, Gid::from_ipv4(0x0a000100 + came++));
        }
        std::uint32_t came = 0;
    } receiver;
    links_[1].receive(receiver, ~0u);
    EXPECT_EQ(receiver.came, 2 * kRow);
    left_.adapter->destroy_qp(qp, now_);
}

TEST_F(GatheringTest, LeaveBeforeTheirQueuePairEnds) {
    post(kRow + 1);
    left_.adapter->destroy_qp(left_.qp, now_);
    left_.qp = nullptr;
    EXPECT_EQ(left(), kRow + 1);
}

}  // namespace
}  // namespace verbena::adapter
