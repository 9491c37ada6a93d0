// What comes together, in a ring or in a burst, is what it would be one by one.
#include <gtest/gtest.h>

#include "adapter/test_endpoint.h"

namespace verbena::adapter {
namespace {

using testing::Endpoint;
using transport::Operation;

class TogetherTest : public testing::Pair {};

TEST_F(TogetherTest, WhatARingHasTogetherIsTakenTogether) {
    links_[1].is_ring = true;
    constexpr std::uint64_t kValue = 0x1122334455667788;
    std::memcpy(right_.memory.data() + 512, &kValue, sizeof kValue);
    for (unsigned i = 0; i < 3; i++) {
        left_.memory[i] = static_cast<std::uint8_t>('a' + i);
        ASSERT_EQ(right_.post_receive(100 * i, 64, now_), 0);
        ASSERT_EQ(left_.post(Operation::send, i, 1, now_), 0);
    }
    // One that is followed, and one that is the last.
    for (unsigned i = 0; i < 2; i++)
        ASSERT_EQ(
            left_.post(Operation::fetch_add, 1024 + 8 * i, 8, now_, right_.address_of(512), right_.keys.rkey),
            0);
    left_.adapter->progress(now_, true);
    ASSERT_EQ(links_[1].waiting(), 5u);
    right_.adapter->progress(now_, false);
    expect_success(right_.poll(), 3);
    EXPECT_EQ(links_[1].taken_together, 3u) << "atomics are answered one by one";
    EXPECT_EQ(right_.segment->counters().received, 5u);
    EXPECT_EQ(right_.qp->counters().wire_bytes_received, left_.qp->counters().wire_bytes_sent);
    for (unsigned i = 0; i < 3; i++) EXPECT_EQ(right_.memory[100 * i], 'a' + i);
    settle();
    expect_success(left_.poll(), 5);
    EXPECT_EQ(std::memcmp(left_.memory.data() + 1024, &kValue, 8), 0);
    EXPECT_EQ(std::memcmp(left_.memory.data() + 1032, &kValue, 8), 0);
}

// Messages that are ahead of their receives wait in the ring until the program has had those before them: no
// NAK, no wait. If it posts none then they are received like others, and waited for.
TEST_F(TogetherTest, WhatIsAheadOfItsReceiveStaysInTheRingForOnce) {
    links_[1].is_ring = true;
    constexpr unsigned kMessages = 9, kPosted = 4;
    const auto post_receives = [&](unsigned count) {
        for (unsigned i = 0; i < count; i++) ASSERT_EQ(right_.post_receive(100 * i, 64, now_), 0);
    };
    post_receives(kPosted);
    for (unsigned i = 0; i < kMessages; i++) ASSERT_EQ(left_.post(Operation::send, i, 1, now_), 0);
    left_.adapter->progress(now_, true);
    ASSERT_EQ(links_[1].waiting(), kMessages);
    right_.adapter->progress(now_, false);
    expect_success(right_.poll(), kPosted);
    EXPECT_EQ(links_[1].waiting(), kMessages - kPosted);
    post_receives(kPosted);
    right_.adapter->progress(now_, false);
    expect_success(right_.poll(), kPosted);
    EXPECT_EQ(links_[1].waiting(), 1u);
    right_.adapter->progress(now_, false);
    EXPECT_EQ(links_[1].waiting(), 0u);
    EXPECT_TRUE(right_.poll().empty());
    post_receives(1);
    for (int i = 0; i < 3; i++) settle();
    expect_success(right_.poll(), 1);
    expect_success(left_.poll(), kMessages);
    EXPECT_EQ(right_.qp->counters().rnr_naks_sent, 0u);
}

// A damaged packet among them is lost, and for another there is no receive, so that those behind them come
// again; what is of another kind, or for another queue pair, is none of theirs.
TEST_F(TogetherTest, WhatABurstHasForOneQueuePairIsTakenTogether) {
    links_[1].merges = true;
    transport::QueuePair* const first[] = {left_.qp, right_.qp};
    transport::QueuePair* const second[] = {left_.create(), right_.create()};
    left_.qp = second[0], right_.qp = second[1];
    left_.connect(right_, now_);
    right_.connect(left_, now_);
    constexpr unsigned kMessages = 40, kWithImmediate = 18, kDamaged = 25, kWithoutReceive = 30;
    const auto choose = [&](unsigned i) {
        const auto& pair = i >= 20 && i < 23 ? second : first;
        left_.qp = pair[0], right_.qp = pair[1];
    };
    const auto post_receive = [&](unsigned i) { ASSERT_EQ(right_.post_receive(100 * i, 64, now_), 0); };
    for (unsigned i = 0; i < kMessages; i++) {
        choose(i);
        left_.memory[8 * i] = static_cast<std::uint8_t>('a' + i);
        if (i < kWithoutReceive) post_receive(i);
        const bool immediate = i == kWithImmediate;  // as long, on the wire
        ASSERT_EQ(left_.post(immediate ? Operation::send_with_immediate : Operation::send, 8 * i,
                             immediate ? 4 : 8, now_),
                  0);
    }
    left_.adapter->progress(now_, true);
    ASSERT_EQ(links_[1].waiting(), kMessages);
    links_[1].damage(kDamaged);
    right_.adapter->progress(now_, false);
    expect_success(right_.poll(), kDamaged);
    EXPECT_EQ(right_.segment->counters().bad_icrc, 1u);
    EXPECT_EQ(right_.segment->counters().received, kMessages);
    for (int i = 0; i < 10; i++) settle();
    expect_success(right_.poll(), kWithoutReceive - kDamaged);
    for (unsigned i = kWithoutReceive; i < kMessages; i++) post_receive(i);
    for (int i = 0; i < 1000 && left_.cq.waiting() < kMessages; i++) {
        now_ = std::max(now_ + kMicrosecond, std::min(left_.adapter->next_deadline(), now_ + kSecond));
        left_.adapter->progress(now_, true);
        right_.adapter->progress(now_, true);
    }
    expect_success(right_.poll(), kMessages - kWithoutReceive);
    expect_success(left_.poll(), kMessages);
    for (unsigned i = 0; i < kMessages; i++) EXPECT_EQ(right_.memory[100 * i], 'a' + i) << i;
    left_.qp = first[0], right_.qp = first[1];
    left_.adapter->destroy_qp(second[0], now_);
    right_.adapter->destroy_qp(second[1], now_);
}

TEST_F(TogetherTest, ABurstOfFragmentsIsDropped) {
    links_[1].merges = true;
    wire::Path path;
    path.source = Gid::from_ipv4(0x0a000001);
    path.destination = Gid::from_ipv4(0x0a000002);
    unsigned sent = 0;
    for (const std::size_t size : {1u, 5u, 11u, 12u, 15u})
        for (unsigned count = 1; count <= 20; count++) {
            for (unsigned i = 0; i < count; i++, sent++)
                links_[1].deliver({path, std::vector<std::uint8_t>(size, 4)});  // SEND ONLY
            right_.adapter->progress(now_, false);
        }
    EXPECT_EQ(right_.segment->counters().runts, sent);
}

TEST_F(TogetherTest, WhatIsForManyQueuePairsArrives) {
    links_[1].is_ring = true;
    constexpr unsigned kMore = 63;
    std::vector<transport::QueuePair*> more[2];
    transport::QueuePair* const first[] = {left_.qp, right_.qp};
    for (unsigned i = 0; i < kMore; i++) {
        for (Endpoint* end : {&left_, &right_}) more[end == &right_].push_back(end->qp = end->create());
        left_.connect(right_, now_);
        right_.connect(left_, now_);
    }
    for (const unsigned each : {1u, 2u}) {
        for (unsigned i = 0; i < kMore * each; i++) {
            left_.qp = more[0][i / each], right_.qp = more[1][i / each];
            ASSERT_EQ(right_.post_receive(i, 1, now_), 0);
            ASSERT_EQ(left_.post(Operation::send, 0, 1, now_), 0);
        }
        left_.adapter->progress(now_, true);
        right_.adapter->progress(now_, false);
        expect_success(right_.poll(), kMore * each);
        EXPECT_EQ(links_[1].taken_together, each == 1 ? 0 : kMore * each);
        settle();
        expect_success(left_.poll(), kMore * each);
    }
    left_.qp = first[0], right_.qp = first[1];
    for (transport::QueuePair* qp : more[0]) left_.adapter->destroy_qp(qp, now_);
    for (transport::QueuePair* qp : more[1]) right_.adapter->destroy_qp(qp, now_);
}

}  // namespace
}  // namespace verbena::adapter
