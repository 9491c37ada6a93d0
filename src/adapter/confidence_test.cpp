#include "adapter/confidence.h"

#include <gtest/gtest.h>

namespace verbena::adapter {
namespace {

constexpr Duration kMs = kMillisecond;

TEST(ConfidenceTest, IsThereAtFirst) {
    Confidence c;
    EXPECT_TRUE(c.justified(false, kSecond));
    EXPECT_TRUE(c.justified(false, kSecond + 1));
}

TEST(ConfidenceTest, WhoSharesItsProcessorGetsSomeForAMomentNowAndThen) {
    Confidence c;
    Time now = kSecond;
    for (Duration wait = Confidence::kShortest; wait <= Confidence::kLongest; wait *= 2) {
        EXPECT_TRUE(c.justified(true, now));
        EXPECT_TRUE(c.justified(true, now + Confidence::kMoment));
        now += kMs;
        EXPECT_FALSE(c.justified(true, now));
        EXPECT_FALSE(c.justified(true, now + wait - kMs));
        EXPECT_FALSE(c.justified(false, now + wait - kMs)) << "not asked again yet";
        now += wait;
    }
    EXPECT_TRUE(c.justified(true, now));
    EXPECT_FALSE(c.justified(true, now + kMs));
    EXPECT_TRUE(c.justified(false, now + kMs + Confidence::kLongest)) << "no longer than that";
}

TEST(ConfidenceTest, WhoLetThemWaitGetsNoneForAWhile) {
    Confidence c;
    c.disappointed(kSecond);
    EXPECT_FALSE(c.justified(false, kSecond + Confidence::kShortest - kMs));
    EXPECT_TRUE(c.justified(false, kSecond + Confidence::kShortest));
    c.disappointed(2 * kSecond - 1);
    EXPECT_FALSE(c.justified(false, 2 * kSecond + Confidence::kShortest)) << "twice as long";
}

// However long the last wait was.
TEST(ConfidenceTest, DisturbancesNowAndThenDoNotAddUp) {
    Confidence c;
    Time now = kSecond;
    for (Duration wait = Confidence::kShortest; wait < Confidence::kLongest; wait *= 2) {
        c.disappointed(now);
        EXPECT_TRUE(c.justified(false, now += wait));
    }
    for (unsigned n = 0; n < 10; n++) {
        EXPECT_TRUE(c.justified(false, now += Confidence::kVeryWell + kMs));
        c.disappointed(now);
        EXPECT_FALSE(c.justified(false, now + Confidence::kShortest - 1));
        EXPECT_TRUE(c.justified(false, now += Confidence::kShortest));
    }
}

TEST(ConfidenceTest, ComesBackWhenAllWasWellForLong) {
    Time now = kSecond;
    for (const Time well : {Duration{0}, Confidence::kWell - kMs, Confidence::kWell + kMs}) {
        const bool forgotten = well > Confidence::kWell;
        Confidence c;
        c.disappointed(now);
        now += Confidence::kShortest + well;
        EXPECT_TRUE(c.justified(false, now));
        c.disappointed(now);
        EXPECT_EQ(c.justified(false, now + Confidence::kShortest), forgotten);
        now += kSecond;
    }
}

}  // namespace
}  // namespace verbena::adapter
