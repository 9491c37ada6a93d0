#include "adapter/processor_share.h"

#include <gtest/gtest.h>

namespace verbena::adapter {
namespace {

constexpr Duration kMs = kMillisecond;

class ProcessorShareJudged : public ::testing::Test {
   protected:
    ProcessorShareJudged() { share_.judge(times_, now_); }
    std::optional<bool> judge(Duration ran, Duration waited) {
        times_.ran += ran;
        times_.waited += waited;
        return share_.judge(times_, now_ += ran + waited);
    }

    ProcessorShare share_;
    ProcessorTimes times_{10 * kMs, 40 * kMs};  // how it began does not count
    Time now_ = kSecond;
};

TEST_F(ProcessorShareJudged, WhoWaitsAQuarterAsLongAsItRunsHasASmallShare) {
    EXPECT_EQ(judge(2 * kMs, 0), false);
    EXPECT_EQ(judge(kMs, 2 * kMs), true);
    EXPECT_EQ(judge(kMs, 0), true) << "it has it for this moment only";
    for (unsigned n = 0; n < 6; n++) judge(2 * kMs, 0);
    EXPECT_EQ(judge(2 * kMs, 0), false);
}

TEST_F(ProcessorShareJudged, ALittleTimeSaysNothing) {
    EXPECT_EQ(judge(kMs, 2 * kMs), true);
    EXPECT_EQ(judge(50 * kMicrosecond, 0), std::nullopt);
    EXPECT_EQ(judge(100 * kMicrosecond, 0), true) << "together with the little";
}

// Something runs for a moment each 10 ms.
TEST_F(ProcessorShareJudged, AShortWaitIsNoHabit) {
    for (unsigned n = 0; n < 400; n++)
        ASSERT_EQ(judge(250 * kMicrosecond, n % 40 == 3 ? 400 * kMicrosecond : 0), false) << n;
}

// Who was asleep, or was not asked while others had the processor, does not know who wants it now.
TEST_F(ProcessorShareJudged, WhatWasBeforeASilenceOrWithinIsForgotten) {
    EXPECT_EQ(judge(kMs, 2 * kMs), true);
    EXPECT_EQ(judge(kMs, 3600 * kSecond), false);
    EXPECT_EQ(judge(kMs, 0), false);
    EXPECT_EQ(judge(kMs, 2 * kMs), true);
}

TEST(ProcessorShareTest, IsAskedNowAndThen) {
    ProcessorShare share;
    EXPECT_TRUE(share.is_due(kSecond));
    EXPECT_NE(share.is_small(kSecond), true);
    EXPECT_FALSE(share.is_due(kSecond + 100 * kMicrosecond));
    EXPECT_TRUE(share.is_due(kSecond + kMs));
}

}  // namespace
}  // namespace verbena::adapter
