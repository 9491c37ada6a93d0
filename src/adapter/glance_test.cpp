// A poll between two looks, of an adapter with the link of one host.
#include <gtest/gtest.h>

#include "adapter/test_endpoint.h"
#include "link/local_link_harness.h"

namespace verbena::adapter {
namespace {

using link::testing::End;
using link::testing::kLoopback;
using testing::Endpoint;
using transport::Operation;

Time told;  // by the clock
unsigned asked;
Time clock_of_test() {
    asked++;
    return told;
}

class GlanceTest : public ::testing::Test {
   protected:
    // As in the middle of a conversation.
    GlanceTest() {
        link::testing::introduce(ends_[0], ends_[1]);
        left_.connect(right_, now_);
        right_.connect(left_, now_);
        told = now_;
        asked = 0;
        for (int i = 0; i < 2; i++) {
            send(left_, right_);
            send(right_, left_);
        }
        for (Endpoint* each : {&left_, &right_}) each->adapter->progress(now_, true);
        for (Endpoint* each : {&left_, &right_}) each->poll();
    }
    void send(Endpoint& from, Endpoint& to) {
        EXPECT_EQ(to.post_receive(100, 100, now_), 0);
        EXPECT_EQ(from.post(Operation::send, 0, 8, now_), 0);
        to.adapter->progress(now_, true);
        to.adapter->progress(now_, true);
        from.adapter->progress(now_, true);
    }
    // What a glance of the right side found.
    unsigned glance(bool in_turn = false) {
        unsigned done = 0;
        return right_.adapter->glance(clock_of_test, done, in_turn) ? done : 0;
    }

    Time now_ = kSecond;
    End ends_[2] = {End{3}, End{4}};
    Endpoint left_{*ends_[0].link, 3u << link::kBlockBits, kLoopback};
    Endpoint right_{*ends_[1].link, 4u << link::kBlockBits, kLoopback};
};

TEST_F(GlanceTest, AMessageCompletesWithoutAskingForTheTime) {
    EXPECT_EQ(glance(), 0u);
    std::memcpy(left_.memory.data(), "glanced", 8);
    ASSERT_EQ(right_.post_receive(200, 100, now_), 0);
    ASSERT_EQ(left_.post(Operation::send, 0, 8, now_ + 5), 0);
    EXPECT_EQ(glance(), 1u);
    const auto completions = right_.poll();
    ASSERT_EQ(completions.size(), 1u);
    EXPECT_EQ(completions[0].status, completion::Status::success);
    EXPECT_EQ(completions[0].timestamp, static_cast<std::uint64_t>(now_)) << "of the last look";
    EXPECT_STREQ(reinterpret_cast<const char*>(right_.memory.data() + 200), "glanced");
    EXPECT_EQ(asked, 0u);
}

TEST_F(GlanceTest, ItIsAcknowledgedByTheNextLook) {
    ASSERT_EQ(right_.post_receive(200, 100, now_), 0);
    ASSERT_EQ(left_.post(Operation::send, 0, 8, now_), 0);
    EXPECT_EQ(glance(), 1u);
    for (int i = 0; i < 2; i++) right_.adapter->progress(now_ + kMillisecond, true);
    left_.adapter->progress(now_ + kMillisecond, true);
    EXPECT_EQ(left_.poll().size(), 1u);
}

TEST_F(GlanceTest, WhereCompletionsTellTheirTimeItIsAskedFor) {
    right_.adapter->tell_time();
    told = now_ + 7;
    ASSERT_EQ(right_.post_receive(200, 100, now_), 0);
    ASSERT_EQ(left_.post(Operation::send, 0, 8, now_), 0);
    EXPECT_EQ(glance(), 1u);
    const auto completions = right_.poll();
    ASSERT_EQ(completions.size(), 1u);
    EXPECT_EQ(completions[0].timestamp, static_cast<std::uint64_t>(told));
    EXPECT_EQ(asked, 1u);
}

// The helper's takes all that there is, with what it asks besides.
TEST_F(GlanceTest, WhoStandsInLooks) {
    ASSERT_EQ(right_.post_receive(200, 100, now_), 0);
    ASSERT_EQ(left_.post(Operation::send, 0, 8, now_), 0);
    EXPECT_EQ(glance(true), 1u);
    EXPECT_EQ(asked, 1u);
    EXPECT_EQ(right_.poll().size(), 1u);
}

// A message that finds no receive goes the long way.
TEST_F(GlanceTest, WhatIsNotStraightIsLeftToALook) {
    ASSERT_EQ(left_.post(Operation::send, 0, 8, now_), 0);
    EXPECT_EQ(glance(), 1u);
    EXPECT_EQ(asked, 1u);
    EXPECT_EQ(right_.poll().size(), 0u);
}

}  // namespace
}  // namespace verbena::adapter
