#include "adapter/processor_share.h"

#include <gtest/gtest.h>

namespace verbena::adapter {
namespace {

constexpr Duration kMs = kMillisecond;

TEST(ProcessorShareTest, WhoWaitsHalfAsLongAsItRunsHasASmallShare) {
    ProcessorShare share;
    EXPECT_FALSE(share.judge({10 * kMs, 40 * kMs}));  // how it began does not count
    EXPECT_FALSE(share.judge({20 * kMs, 44 * kMs}));
    EXPECT_TRUE(share.judge({30 * kMs, 50 * kMs}));
    EXPECT_FALSE(share.judge({40 * kMs, 51 * kMs}));  // since then
}

TEST(ProcessorShareTest, ALittleTimeChangesNothing) {
    ProcessorShare share;
    share.judge({kMs, 0});
    EXPECT_TRUE(share.judge({10 * kMs, 10 * kMs}));
    EXPECT_TRUE(share.judge({10 * kMs + 100 * kMicrosecond, 10 * kMs}));
    EXPECT_FALSE(share.judge({10 * kMs + 300 * kMicrosecond, 10 * kMs}));  // together with the little
    EXPECT_FALSE(share.judge({10 * kMs + 300 * kMicrosecond, 10 * kMs + 100 * kMicrosecond}));
}

TEST(ProcessorShareTest, IsAskedNowAndThen) {
    ProcessorShare share;
    EXPECT_TRUE(share.is_due(kSecond));
    share.is_small(kSecond);
    EXPECT_FALSE(share.is_due(kSecond + 100 * kMicrosecond));
    EXPECT_TRUE(share.is_due(kSecond + kMs));
}

}  // namespace
}  // namespace verbena::adapter
