#include "transport/congestion.h"

#include <gtest/gtest.h>

namespace verbena::transport {
namespace {

TEST(Congestion, OnePacketMayAlwaysGo) {
    Congestion c;
    EXPECT_TRUE(c.allows(0, 10'000'000));
    EXPECT_FALSE(c.allows(1, 10'000'000));
    EXPECT_TRUE(c.allows(c.window() - 100, 100));
    EXPECT_FALSE(c.allows(c.window() - 100, 101));
}

TEST(Congestion, DoublesInARoundTripWhileItIsUsed) {
    Congestion c;
    const auto start = c.window();
    c.acknowledged(start, start);
    EXPECT_EQ(c.window(), 2 * start);
    for (int i = 0; i < 100; i++) c.acknowledged(c.window(), c.window());
    EXPECT_EQ(c.window(), Congestion::kMaximumWindow);
}

TEST(Congestion, DoesNotGrowUnused) {
    Congestion c;
    const auto start = c.window();
    for (int i = 0; i < 100; i++) c.acknowledged(start / 4, start / 4);
    EXPECT_EQ(c.window(), start);
}

TEST(Congestion, HalvesAndThenGrowsSlowly) {
    Congestion c;
    for (int i = 0; i < 10; i++) c.acknowledged(c.window(), c.window());
    const auto before = c.window();
    c.lost();
    EXPECT_EQ(c.window(), before / 2);
    c.acknowledged(c.window(), c.window());
    EXPECT_LT(c.window(), before / 2 + 10'000);
    EXPECT_GT(c.window(), before / 2);
    for (int i = 0; i < 20; i++) c.lost();
    EXPECT_EQ(c.window(), Congestion::kMinimumWindow);
    c.reset();
    c.collapsed();
    EXPECT_EQ(c.window(), Congestion::kMinimumWindow);
    c.acknowledged(c.window(), c.window());
    EXPECT_EQ(c.window(), 2 * Congestion::kMinimumWindow);
}

}  // namespace
}  // namespace verbena::transport
