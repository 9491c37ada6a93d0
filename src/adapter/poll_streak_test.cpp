#include "adapter/poll_streak.h"

#include <gtest/gtest.h>

namespace verbena::adapter {
namespace {

constexpr unsigned kFewest = PollStreak::kFewest, kMost = PollStreak::kMost;

struct PollStreakTest : ::testing::Test {
    // Polls until the helper is not needed; how many.
    unsigned polls(Duration apart, unsigned most = 2 * kMost) {
        for (unsigned n = 1; n < most; n++)
            if (streak.poll(now += apart)) return n;
        return most;
    }
    Time now = 5 * kSecond;
    PollStreak streak;
};

TEST_F(PollStreakTest, SteadyPolls) {
    EXPECT_EQ(polls(kMicrosecond), kFewest + 1);
    EXPECT_EQ(polls(PollStreak::kGap), kFewest + 1);
    EXPECT_EQ(polls(PollStreak::kGap + 1, 1000), 1000u);
}

TEST_F(PollStreakTest, OneLongGapAmongManyPolls) {
    for (unsigned n = 0; n < kFewest / 2; n++) EXPECT_FALSE(streak.poll(now += kMicrosecond));
    now += kMillisecond;
    EXPECT_EQ(polls(kMicrosecond), kFewest / 2 + 1);
    for (unsigned n = 0; n < kFewest / 2; n++) EXPECT_FALSE(streak.poll(now += kMicrosecond));
    now += 100 * kMillisecond;  // begins anew
    EXPECT_EQ(polls(kMicrosecond), kFewest + 1);
}

TEST_F(PollStreakTest, EndsWhenToldSo) {
    for (unsigned n = 0; n < kFewest; n++) EXPECT_FALSE(streak.poll(now += kMicrosecond));
    streak.end();
    EXPECT_EQ(polls(kMicrosecond), kFewest + 1);
}

TEST_F(PollStreakTest, ErrorsMakeItLonger) {
    streak.is_over(false);  // nothing waited
    EXPECT_EQ(polls(kMicrosecond), kFewest + 1);
    for (unsigned wanted = 2 * kFewest; wanted < kMost; wanted *= 2) {
        streak.is_over(true);
        EXPECT_EQ(polls(kMicrosecond), wanted + 1);
    }
    for (unsigned n = 0; n < 3; n++) streak.is_over(true);
    EXPECT_EQ(polls(kMicrosecond), kMost + 1);
}

TEST_F(PollStreakTest, WhereAPollTakesLongTimeIsWhatCounts) {
    for (unsigned n = 0; n < 10; n++) streak.is_over(true);
    EXPECT_EQ(polls(50 * kMicrosecond), PollStreak::kLongest / (50 * kMicrosecond) + 1);
}

TEST_F(PollStreakTest, SuccessMakesItShorter) {
    for (unsigned i = 0; i < 2; i++) streak.is_over(true);
    for (unsigned n = 1; n < 32; n++) streak.went_on(PollStreak::kLong / 32);
    EXPECT_EQ(polls(kMicrosecond), 4 * kFewest + 1);
    streak.went_on(PollStreak::kLong / 32);
    EXPECT_EQ(polls(kMicrosecond), 2 * kFewest + 1);
    streak.went_on(3 * PollStreak::kLong + PollStreak::kLong / 2);
    EXPECT_EQ(polls(kMicrosecond), kFewest + 1);
    streak.is_over(true);  // what was before does not count
    streak.went_on(PollStreak::kLong - 1);
    EXPECT_EQ(polls(kMicrosecond), 2 * kFewest + 1);
}

TEST_F(PollStreakTest, NapsDoNotEndIt) {
    unsigned n = 1;
    for (; n < kMost && !streak.poll(now += kMicrosecond); n++) {
        now += 2 * PollStreak::kGap;
        streak.napped(now - 2 * PollStreak::kGap, now);
    }
    EXPECT_EQ(n, kFewest + 1);
}

TEST_F(PollStreakTest, PostingCountsAsPolls) {
    const Duration post = 200 * kMicrosecond;
    streak.posted(now, now + post);
    EXPECT_EQ(polls(kMicrosecond), kFewest + 1) << "of a streak that had not begun";
    streak.poll(now += kMicrosecond);
    unsigned n = 0;
    for (; n < kFewest; n++) {
        streak.posted(now, now + post);
        if (streak.poll(now += post)) break;
    }
    EXPECT_EQ(n, kFewest * PollStreak::kPosting / post);
}

}  // namespace
}  // namespace verbena::adapter
