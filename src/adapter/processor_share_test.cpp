#include "adapter/processor_share.h"

#include <gtest/gtest.h>

namespace verbena::adapter {
namespace {

constexpr Duration kMs = kMillisecond;

TEST(ProcessorShareTest, WhoWaitsAQuarterAsLongAsItRunsHasASmallShare) {
    ProcessorShare share;
    EXPECT_EQ(share.judge({10 * kMs, 40 * kMs}), std::nullopt);  // how it began does not count
    EXPECT_EQ(share.judge({20 * kMs, 42 * kMs}), false);
    EXPECT_EQ(share.judge({30 * kMs, 45 * kMs}), true);
    EXPECT_EQ(share.judge({40 * kMs, 46 * kMs}), false);  // since then
}

TEST(ProcessorShareTest, ALittleTimeSaysNothing) {
    ProcessorShare share;
    share.judge({kMs, 0});
    EXPECT_EQ(share.judge({10 * kMs, 10 * kMs}), true);
    EXPECT_EQ(share.judge({10 * kMs + 50 * kMicrosecond, 10 * kMs}), std::nullopt);
    EXPECT_EQ(share.judge({10 * kMs + 150 * kMicrosecond, 10 * kMs}), false);  // together with the little
    EXPECT_EQ(share.judge({10 * kMs + 200 * kMicrosecond, 12 * kMs}), std::nullopt);  // one wait is no habit
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
