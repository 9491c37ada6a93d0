// Packets of several queue pairs leave together, and those of one queue pair in their order, whichever thread
// posts them: three queue pairs whose peers do not look, under a clock of the test's own.
#include "adapter/outgoing.h"

#include <gtest/gtest.h>

#include <array>
#include <thread>

#include "adapter/adapter.h"
#include "adapter/test_endpoint.h"

namespace verbena::adapter {
namespace {

using transport::Operation;
using transport::QueuePair;

constexpr unsigned kQps = 3, kEach = 5;

class OutgoingTest : public testing::Pair {
   protected:
    OutgoingTest() {
        qps_[0] = left_.qp;
        peers_[0] = right_.qp;
        for (unsigned i = 1; i < kQps; i++) {
            qps_[i] = left_.qp = left_.create();
            peers_[i] = right_.qp = right_.create();
            left_.connect(right_, now_);
            right_.connect(left_, now_);
        }
    }
    ~OutgoingTest() override {
        left_.qp = qps_[0];
        right_.qp = peers_[0];
        for (unsigned i = 1; i < kQps; i++) {
            if (qps_[i]) left_.adapter->destroy_qp(qps_[i], now_);
            right_.adapter->destroy_qp(peers_[i], now_);
        }
    }
    void post(unsigned qp) {
        left_.qp = qps_[qp];
        ASSERT_EQ(left_.post(Operation::rdma_write, 0, 8, now_++, right_.address_of(0), right_.keys.rkey), 0);
    }
    void acknowledge(unsigned qp) {  // by the right side, what the left one posts
        post(qp);
        poll_in_vain();
        for (int i = 0; i < 2; i++) right_.adapter->progress(now_, true);
        poll_in_vain();
        EXPECT_EQ(left_.poll().size(), 1u);
    }
    void post_in_turn() {
        for (unsigned i = 0; i < kQps * kEach; i++) post(i % kQps);
    }
    std::size_t left() { return links_[1].waiting(); }
    void poll_in_vain() { left_.adapter->progress(now_, true); }

    std::array<QueuePair*, kQps> qps_{}, peers_{};
};

// By which the helper sees that somebody is there, however long his call takes; but not who posts now and
// then, and does not poll.
TEST_F(OutgoingTest, OnlyALongTransmissionShows) {
    left_.qp = qps_[0];
    const auto write = [&](std::uint32_t length) {
        const std::uint64_t before = left_.adapter->long_rounds();
        EXPECT_EQ(
            left_.post(Operation::rdma_write, 0, length, now_++, right_.address_of(0), right_.keys.rkey), 0);
        const bool showed = left_.adapter->long_rounds() != before;
        for (unsigned i = 0; i < 4; i++) {
            right_.adapter->progress(now_, true);
            left_.adapter->progress(now_++, true);
        }
        return showed;
    };
    for (unsigned n = 0; n < 32; n++) EXPECT_FALSE(write(120 << 10)) << "while the window grows";
    EXPECT_FALSE(write(4000));
    EXPECT_TRUE(write(256 << 10));
}

TEST_F(OutgoingTest, RequestsOfManyQueuePairsGatherAndLeaveTogether) {
    post_in_turn();
    EXPECT_EQ(left(), 7u) << "from the eighth on";
    const unsigned before = links_[0].flushes;
    poll_in_vain();
    EXPECT_EQ(left(), kQps * kEach);
    EXPECT_EQ(links_[0].flushes, before + 1);
}

// Of many queue pairs most have nothing there yet.
TEST_F(OutgoingTest, AQueuePairJoinsWhatItsThreadLetsWait) {
    const transport::Sge sge{left_.address_of(0), 8, left_.keys.lkey};
    transport::SendRequest request;
    request.operation = Operation::rdma_write;
    request.flags = transport::kSignaled;
    request.sges = {&sge, 1};
    request.remote_address = right_.address_of(0);
    request.rkey = right_.keys.rkey;
    const auto joins = [&] { return left_.adapter->post_straight(qps_[2]->number(), request, now_++); };
    post(0);
    EXPECT_FALSE(joins()) << "nothing waits";
    for (unsigned i = 0; i < 10; i++) post(i % 2);
    const std::size_t before = left();
    EXPECT_LT(before, 11u);
    EXPECT_TRUE(joins());
    EXPECT_EQ(left(), before);
    poll_in_vain();
    EXPECT_EQ(left(), 12u);
}

TEST_F(OutgoingTest, AcknowledgementsOfManyQueuePairsLeaveTogether) {
    post_in_turn();
    poll_in_vain();
    const unsigned before = links_[1].flushes;
    for (int i = 0; i < 2; i++) right_.adapter->progress(now_, true);
    EXPECT_EQ(links_[0].waiting(), kQps);
    EXPECT_EQ(links_[1].flushes, before + 1);
}

// Behind what the first thread has left waiting; a packet that overtakes another would be refused. Of two
// threads, one at least has an Outgoing of its own.
TEST_F(OutgoingTest, AnotherThreadsRequestsStayBehindThose) {
    post_in_turn();
    EXPECT_LT(left(), kQps * kEach);
    for (int i = 0; i < 2; i++) std::thread([&] { post(0); }).join();
    poll_in_vain();
    EXPECT_EQ(left(), kQps * kEach + 2);
    for (int i = 0; i < 2; i++) right_.adapter->progress(now_, true);
    poll_in_vain();
    EXPECT_EQ(left_.poll().size(), kQps * kEach + 2) << "nothing had to be sent again";
}

// A queue pair remembers where its last packets waited by a number that comes again.
TEST_F(OutgoingTest, WhatLooksAsIfItWaitedHoldsNobodyUp) {
    for (const unsigned turns : {256u, 512u}) {
        acknowledge(0);
        for (unsigned n = 1; n < turns; n++) acknowledge(1);
        right_.qp = peers_[0];
        const std::size_t before = links_[0].waiting();
        ASSERT_EQ(right_.post(Operation::rdma_write, 0, 8, now_, left_.address_of(0), left_.keys.rkey), 0);
        EXPECT_EQ(links_[0].waiting(), before + 1);
        for (int i = 0; i < 2; i++) poll_in_vain();
        right_.adapter->progress(now_, true);
        EXPECT_EQ(right_.poll().size(), 1u);
    }
}

// Who fills the window that it shares with others leaves room in it when it is reset or ends.
TEST_F(OutgoingTest, WhoWaitedBehindAQueuePairThatIsGoneGoesOn) {
    const auto write = [&](QueuePair* qp, std::uint32_t length) {
        left_.qp = qp;
        ASSERT_EQ(left_.post(Operation::rdma_write, 0, length, now_, right_.address_of(0), right_.keys.rkey),
                  0);
    };
    for (const bool ends : {false, true}) {
        SCOPED_TRACE(ends);
        QueuePair* const fills = qps_[ends ? 2 : 0];
        write(fills, 1 << 20);
        write(qps_[1], 1024);
        const std::size_t before = left();
        poll_in_vain();
        EXPECT_EQ(left(), before) << "the window is full";
        if (ends) {
            left_.adapter->destroy_qp(std::exchange(qps_[2], nullptr), now_);
        } else {
            transport::Attributes a;
            a.state = transport::QpState::reset;
            ASSERT_EQ(left_.adapter->modify(*fills, a, transport::kAttrState, now_), 0);
        }
        poll_in_vain();
        EXPECT_EQ(left(), before + 1);
    }
}

TEST_F(OutgoingTest, LeaveBeforeAQueuePairChangesOrEnds) {
    post_in_turn();
    transport::Attributes attributes;
    attributes.state = transport::QpState::sqd;
    ASSERT_EQ(left_.adapter->modify(*qps_[1], attributes, transport::kAttrState, now_), 0);
    EXPECT_EQ(left(), kQps * kEach);
    for (unsigned i = 0; i < 2 * kEach; i++) post(i % 2 * 2);
    EXPECT_LT(left(), (kQps + 2) * kEach);
    left_.adapter->destroy_qp(qps_[2], now_);
    qps_[2] = nullptr;
    EXPECT_EQ(left(), (kQps + 2) * kEach);
}

}  // namespace
}  // namespace verbena::adapter
