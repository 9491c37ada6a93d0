#include "adapter/processor_share.h"

#include <gtest/gtest.h>

namespace verbena::adapter {
namespace {

constexpr Duration kMs = kMillisecond;

TEST(ProcessorShareTest, WhoWaitsAQuarterAsLongAsItRunsHasASmallShare) {
    ProcessorShare share;
    Time now = kSecond;
    EXPECT_EQ(share.judge({10 * kMs, 40 * kMs}, now), std::nullopt);  // how it began does not count
    EXPECT_EQ(share.judge({14 * kMs, 40 * kMs}, now += 4 * kMs), false);
    EXPECT_EQ(share.judge({15 * kMs, 43 * kMs}, now += 4 * kMs), true);
    EXPECT_EQ(share.judge({16 * kMs, 43 * kMs}, now += kMs), true) << "it has it for this moment only";
    EXPECT_EQ(share.judge({30 * kMs, 43 * kMs}, now += 10 * kMs), false);
}

TEST(ProcessorShareTest, ALittleTimeSaysNothing) {
    ProcessorShare share;
    Time now = kSecond;
    share.judge({kMs, 0}, now);
    EXPECT_EQ(share.judge({2 * kMs, 3 * kMs}, now += 4 * kMs), true);
    EXPECT_EQ(share.judge({2 * kMs + 50 * kMicrosecond, 3 * kMs}, now += kMs), std::nullopt);
    EXPECT_EQ(share.judge({2 * kMs + 150 * kMicrosecond, 3 * kMs}, now += kMs), true);  // with the little
}

// Something runs for a moment each 10 ms.
TEST(ProcessorShareTest, AShortWaitIsNoHabit) {
    ProcessorShare share;
    Time now = kSecond;
    ProcessorTimes times{kMs, 0};
    share.judge(times, now);
    for (unsigned n = 0; n < 400; n++) {
        times.ran += 250 * kMicrosecond;
        now += 250 * kMicrosecond;
        if (n % 40 == 3) {
            times.waited += 400 * kMicrosecond;
            now += 400 * kMicrosecond;
        }
        ASSERT_EQ(share.judge(times, now), false) << n;
    }
}

// Who was asleep does not know who wants the processor now.
TEST(ProcessorShareTest, WhatWasBeforeASilenceIsForgotten) {
    ProcessorShare share;
    share.judge({kMs, 0}, kSecond);
    EXPECT_EQ(share.judge({3 * kMs, 6 * kMs}, kSecond + 8 * kMs), true);
    EXPECT_EQ(share.judge({4 * kMs, 6 * kMs}, kSecond + 9 * kMs + ProcessorShare::kForgotten), false);
}

TEST(ProcessorShareTest, IsAskedNowAndThen) {
    ProcessorShare share;
    EXPECT_TRUE(share.is_due(kSecond));
    EXPECT_EQ(share.is_small(kSecond), std::nullopt);
    EXPECT_FALSE(share.is_due(kSecond + 100 * kMicrosecond));
    EXPECT_TRUE(share.is_due(kSecond + kMs));
}

}  // namespace
}  // namespace verbena::adapter
