#include "adapter/pace.h"

#include <gtest/gtest.h>

namespace verbena::adapter {
namespace {

constexpr std::uint32_t kMiB = 1 << 20;
constexpr Duration kUs = kMicrosecond;

class PaceTest : public ::testing::Test {
   protected:
    bool faster(std::uint32_t length = kMiB, bool otherwise = true) {
        return pace_.together_is_faster(length, otherwise, now_);
    }
    void learn_packets(Duration took, std::uint32_t length = kMiB) {
        for (unsigned n = 0; n < Pace::kUntilKnown; n++) pace_.together(length, length, took);
    }
    // Asks for so long, and measures what it is told to do; how often that were packets.
    unsigned go_on(Duration length, Duration executed, Duration by_packets) {
        unsigned packets = 0;
        for (const Time end = now_ + length; now_ < end; now_ += kMillisecond) {
            if (faster()) {
                packets++;
                pace_.together(kMiB, kMiB, by_packets);
            } else {
                pace_.alone(kMiB, kMiB, executed);
            }
        }
        return packets;
    }

    Pace pace_{Pace::Costs::more_together};
    Time now_ = kSecond;
};

TEST_F(PaceTest, KnowsNothingAtFirst) {
    EXPECT_TRUE(faster(kMiB, true));
    EXPECT_FALSE(faster(kMiB, false));
    pace_.alone(kMiB, kMiB, 50 * kUs);
    EXPECT_TRUE(faster(kMiB, true)) << "packets are to be measured, too";
    EXPECT_FALSE(faster(kMiB, false));
}

TEST_F(PaceTest, TakesTheFasterOne) {
    pace_.alone(kMiB, kMiB, 50 * kUs);
    learn_packets(70 * kUs);
    EXPECT_FALSE(faster());
    for (int i = 0; i < 20; i++) pace_.together(kMiB, 4 * kMiB, 4 * 30 * kUs);
    EXPECT_TRUE(faster());
}

TEST_F(PaceTest, TheFirstMeasurementOfPacketsSaysLittle) {
    pace_.alone(kMiB, kMiB, 50 * kUs);
    pace_.together(kMiB, kMiB, 3000 * kUs);
    EXPECT_TRUE(faster());
    for (unsigned n = 1; n < Pace::kUntilKnown; n++) pace_.together(kMiB, kMiB, 30 * kUs);
    EXPECT_TRUE(faster());
}

TEST_F(PaceTest, PacketsMustBeClearlyFaster) {
    pace_.alone(kMiB, kMiB, 50 * kUs);
    learn_packets(46 * kUs);
    EXPECT_FALSE(faster());
}

TEST_F(PaceTest, EachLengthIsMeasuredByItself) {
    for (std::uint32_t length : {kMiB, 64u << 10}) {
        pace_.alone(length, length, 50 * kUs);
        learn_packets((length == kMiB ? 70 : 30) * kUs, length);
    }
    EXPECT_FALSE(faster(kMiB));
    EXPECT_FALSE(faster(kMiB + 100));
    EXPECT_TRUE(faster(64 << 10));
    EXPECT_TRUE(faster(100 << 10));
}

TEST_F(PaceTest, TheSlowerOneIsTriedEverLessOften) {
    go_on(10 * kMillisecond, 50 * kUs, 70 * kUs);
    const unsigned first = go_on(500 * kMillisecond, 50 * kUs, 70 * kUs);
    EXPECT_GE(first, Pace::kInTrial);
    EXPECT_LE(first, 3 * Pace::kInTrial);
    const unsigned later = go_on(10 * kSecond, 50 * kUs, 70 * kUs);
    EXPECT_GE(later, 3 * Pace::kInTrial);
    EXPECT_LE(later, 8 * Pace::kInTrial);
}

TEST_F(PaceTest, WhatHasBecomeFasterIsFound) {
    go_on(2 * kSecond, 50 * kUs, 70 * kUs);
    EXPECT_FALSE(faster());
    go_on(20 * kSecond, 50 * kUs, 20 * kUs);
    EXPECT_GE(go_on(kSecond, 50 * kUs, 20 * kUs), 900u);
    go_on(20 * kSecond, 10 * kUs, 20 * kUs);
    EXPECT_LE(go_on(kSecond, 10 * kUs, 20 * kUs), 100u);
}

// Acknowledgements that come in heaps: what passed in a while says nothing, but what passed in several does.
TEST_F(PaceTest, MeasurementsCountByTheirBytes) {
    for (const Duration alone : {130 * kUs, 90 * kUs}) {
        Pace pace(Pace::Costs::more_together);
        for (unsigned n = 0; n < 50; n++) {  // 100 us each
            pace.together(kMiB, 19 * kMiB, 850 * kUs);
            EXPECT_TRUE(n < 5 || pace.together_is_faster(kMiB, true, now_) == (alone == 130 * kUs)) << n;
            pace.together(kMiB, kMiB, 1150 * kUs);
            pace.alone(kMiB, kMiB, alone);
        }
    }
}

// Short streams are over before the usual time has passed.
TEST_F(PaceTest, TheFirstTrialComesSoon) {
    pace_.alone(kMiB, kMiB, 60 * kUs);
    ASSERT_TRUE(faster());
    now_ += Pace::kSoon;
    ASSERT_FALSE(faster());
    for (unsigned n = 0; n < Pace::kSingleInTrial; n++) pace_.alone(kMiB, kMiB, 20 * kUs);
    EXPECT_TRUE(faster()) << "packets have not been measured";
    learn_packets(30 * kUs);
    EXPECT_FALSE(faster());
}

// That of packets as well, though it costs the target something.
TEST_F(PaceTest, TheFirstTrialOfPacketsComesSoonToo) {
    pace_.alone(kMiB, kMiB, 60 * kUs);
    ASSERT_FALSE(faster(kMiB, false));
    now_ += Pace::kSoon - 1;
    ASSERT_FALSE(faster(kMiB, false));
    now_++;
    EXPECT_TRUE(faster(kMiB, false));
}

// Of two who begin at the same moment, but for some nanoseconds.
TEST_F(PaceTest, TrialsComeSoonerByChance) {
    now_ += kMicrosecond / 2;
    pace_.alone(kMiB, kMiB, 60 * kUs);
    ASSERT_FALSE(faster(kMiB, false));
    const Time trial = now_ + Pace::kSoon - Pace::kSoon / 8;
    now_ = trial - 1;
    EXPECT_FALSE(faster(kMiB, false));
    now_ = trial;
    EXPECT_TRUE(faster(kMiB, false));
}

TEST_F(PaceTest, ATrialThatHasMeasuredIsNotRepeatedSoon) {
    struct Case {
        bool measures;
        Duration executed, wait;
    };
    for (const auto& [measures, executed, wait] :
         {Case{true, 40 * kUs, Pace::kShortest}, Case{true, 60 * kUs, Pace::kClear},
          Case{false, 60 * kUs, Pace::kShortest}}) {
        Pace pace(Pace::Costs::more_together);
        const auto faster = [&] { return pace.together_is_faster(kMiB, true, now_); };
        pace.alone(kMiB, kMiB, executed);
        for (unsigned n = 0; n < Pace::kUntilKnown; n++) pace.together(kMiB, kMiB, 30 * kUs);
        ASSERT_TRUE(faster());
        now_ += Pace::kSoon;
        ASSERT_FALSE(faster());
        for (unsigned n = 0; measures && n < Pace::kSingleInTrial; n++) pace.alone(kMiB, kMiB, executed);
        if (!measures) now_ += Pace::kShortestTrial;
        ASSERT_TRUE(faster());
        now_ += wait - 1;
        EXPECT_TRUE(faster());
        now_ += 1;
        EXPECT_FALSE(faster());
    }
}

TEST_F(PaceTest, TheFirstMeasurementOfATrialSaysNothing) {
    learn_packets(50 * kUs);
    pace_.alone(kMiB, kMiB, 60 * kUs);
    ASSERT_TRUE(faster());
    for (unsigned trial = 0; trial < 5; trial++) {
        while (faster()) now_ += kMillisecond;
        pace_.alone(kMiB, kMiB, 2 * kUs);  // as if it were very fast
        EXPECT_FALSE(faster()) << "the trial goes on";
        for (unsigned n = 1; n < Pace::kSingleInTrial; n++) pace_.alone(kMiB, kMiB, 60 * kUs);
        EXPECT_TRUE(faster());
    }
}

TEST(PaceOfSends, ATrialOfWhatIsClearlySlowerIsShort) {
    for (const Duration other : {60 * kUs, 40 * kUs}) {
        Pace pace(Pace::Costs::alike);
        Time now = kSecond;
        const auto copies = [&] { return pace.together_is_faster(kMiB, false, now); };
        for (unsigned n = 0; n < Pace::kUntilKnown; n++) pace.together(kMiB, kMiB, other);
        pace.alone(kMiB, kMiB, 30 * kUs);
        ASSERT_FALSE(copies());
        now += Pace::kShortest;
        ASSERT_TRUE(copies());
        const std::uint32_t enough = other == 60 * kUs ? Pace::kClearInTrial : Pace::kInTrial;
        for (unsigned n = 0; n < enough; n++) {
            EXPECT_TRUE(copies()) << n;
            pace.together(kMiB, kMiB, other);
        }
        EXPECT_FALSE(copies());
    }
}

// The first messages are slow by one way, as pages are still made: it is tried again when they are there.
TEST(PaceOfSends, WhatWasDisturbedAtFirstIsTriedAgainSoon) {
    Pace pace(Pace::Costs::alike);
    Time now = kSecond;
    const auto copies = [&] { return pace.together_is_faster(kMiB, false, now); };
    ASSERT_FALSE(copies());
    pace.alone(kMiB, kMiB, 150 * kUs);
    now += Pace::kSoon;
    while (copies() && now < kSecond + Pace::kShortest) {
        pace.together(kMiB, kMiB, 70 * kUs);
        now += 100 * kUs;
    }
    const Duration copied = now - kSecond - Pace::kSoon;
    EXPECT_GE(copied, Pace::kDoubted) << "in spite of a trial, since it seemed to be faster";
    EXPECT_LE(copied, 2 * Pace::kDoubted);
    for (unsigned n = 0; n <= Pace::kInTrial && !copies(); n++) pace.alone(kMiB, kMiB, 50 * kUs);
    EXPECT_FALSE(copies());
    now += kMillisecond;
    EXPECT_FALSE(copies());
}

// ... as soon, and after as many measurements as that takes, if the way in use has not been measured yet.
TEST(PaceOfSends, TheFirstTrialIsDoubted) {
    Pace pace(Pace::Costs::alike);
    Time now = kSecond;
    const auto copies = [&] { return pace.together_is_faster(kMiB, false, now); };
    ASSERT_FALSE(copies());
    now += Pace::kSoon;
    for (unsigned n = 0; n < Pace::kInTrial; n++) {
        ASSERT_TRUE(copies()) << n;
        pace.together(kMiB, kMiB, 800 * kUs);
    }
    EXPECT_FALSE(copies());
    pace.alone(kMiB, kMiB, 120 * kUs);
    now += Pace::kDoubted;
    for (unsigned n = 0; n < Pace::kInTrial; n++) {
        ASSERT_TRUE(copies()) << n;
        pace.together(kMiB, kMiB, 50 * kUs);
    }
    EXPECT_TRUE(copies());
}

// What the trial itself has under way is no reason to stay with what it tries.
TEST(PaceOfWrites, TheFirstTrialIsDoubtedToo) {
    Pace pace(Pace::Costs::more_together);
    Time now = kSecond;
    pace.alone(kMiB, kMiB, 80 * kUs);
    ASSERT_FALSE(pace.together_is_faster(kMiB, false, now));
    now += Pace::kSoon;
    for (unsigned n = 0; n < Pace::kInTrial; n++) {
        ASSERT_TRUE(pace.together_is_faster(kMiB, n > 0, now)) << n;
        pace.together(kMiB, kMiB, 800 * kUs);
    }
    EXPECT_FALSE(pace.together_is_faster(kMiB, true, now));
    now += Pace::kDoubted;
    EXPECT_TRUE(pace.together_is_faster(kMiB, false, now));
}

// It gets faster for a while; and costs both no more than one alone.
TEST(PaceOfHalves, AreTriedForLongerAndKeptWhileTheyAreNoSlower) {
    Pace pace(Pace::Costs::more_together, kMiB);
    Time now = kSecond;
    pace.alone(kMiB, kMiB, 50 * kUs);
    ASSERT_FALSE(pace.together_is_faster(kMiB, false, now));
    now += Pace::kSoon;
    for (unsigned n = 0; n < Pace::kHalvedInTrial; n++) {
        ASSERT_TRUE(pace.together_is_faster(kMiB, false, now)) << n;
        pace.together(kMiB, kMiB, (n < 4 ? 70 : 30) * kUs);
    }
    ASSERT_TRUE(pace.together_is_faster(kMiB, false, now));
    unsigned together = 0;
    for (unsigned n = 0; n < 1000; n++, now += kMillisecond)
        if (pace.together_is_faster(kMiB, true, now)) {
            together++;
            pace.together(kMiB, kMiB, 50 * kUs);
        } else {
            pace.alone(kMiB, kMiB, 50 * kUs);
        }
    EXPECT_GT(together, 900u);
}

TEST(PaceOfSends, KeepsItsWayUnlessTheOtherIsClearlyFaster) {
    for (const bool copied : {true, false}) {
        Pace pace(Pace::Costs::alike);
        Time now = kSecond;
        const auto go_on = [&](Duration alone, Duration together) {
            unsigned copies = 0;
            for (unsigned n = 0; n < 1000; n++, now += kMillisecond)
                if (pace.together_is_faster(kMiB, copied, now)) {
                    copies++;
                    pace.together(kMiB, kMiB, together);
                } else {
                    pace.alone(kMiB, kMiB, alone);
                }
            return copies;
        };
        const unsigned few = 50;
        const unsigned as_it_began = go_on(50 * kUs, 52 * kUs);
        EXPECT_LT(copied ? 1000 - as_it_began : as_it_began, few);
        go_on(30 * kUs, 52 * kUs);
        EXPECT_LT(go_on(30 * kUs, 52 * kUs), few);
        EXPECT_LT(go_on(52 * kUs, 50 * kUs), few);
        go_on(52 * kUs, 30 * kUs);
        go_on(52 * kUs, 30 * kUs);
        EXPECT_GT(go_on(52 * kUs, 30 * kUs), 1000 - few);
    }
}

TEST_F(PaceTest, ATrialThatMeasuresNothingEnds) {
    pace_.alone(kMiB, kMiB, 50 * kUs);
    learn_packets(70 * kUs);
    unsigned packets = 0;
    for (const Time end = now_ + kSecond; now_ < end; now_ += kMillisecond) packets += faster();
    EXPECT_GE(packets, 2u);
    EXPECT_LE(packets, 30u);
}

}  // namespace
}  // namespace verbena::adapter
