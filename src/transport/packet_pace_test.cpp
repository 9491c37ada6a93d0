#include "transport/packet_pace.h"

#include <gtest/gtest.h>

namespace verbena::transport {
namespace {

constexpr std::uint32_t kLength = 256 << 10;
constexpr Duration kEach = 50 * kMicrosecond;
constexpr unsigned kRounds = PacketPace::kLeastRounds;

class PacketPaceTest : public ::testing::Test {
   protected:
    // So many are acknowledged, each by itself; the last of them leaves nothing out, or more.
    std::optional<PacketPace::Sample> pass(unsigned count, bool goes_on = false) {
        std::optional<PacketPace::Sample> sample;
        for (; count > 0; count--) {
            now_ += kEach;
            pace_.passed(now_);
            sample = pace_.take(now_, goes_on || count > 1);
        }
        return sample;
    }

    PacketPace pace_;
    Time now_ = kSecond;
};

TEST_F(PacketPaceTest, IsThatOfTheOthersBehindTheFirst) {
    pace_.begins(kLength, PacketPace::Way::packets, now_);
    now_ += kSecond;  // the peer wakes up
    const auto sample = pass(5);
    ASSERT_TRUE(sample);
    EXPECT_EQ(sample->length, kLength);
    EXPECT_EQ(sample->bytes, 4 * kLength);
    EXPECT_EQ(sample->took, 4 * kEach);
}

TEST_F(PacketPaceTest, WhatWasAcknowledgedWithTheFirstSaysNothing) {
    pace_.begins(kLength, PacketPace::Way::packets, now_);
    for (unsigned n = 0; n < 8; n++) pace_.passed(now_);
    EXPECT_FALSE(pace_.take(now_, false));
}

TEST_F(PacketPaceTest, ALittleSaysNothing) {
    pace_.begins(kLength, PacketPace::Way::packets, now_);
    EXPECT_FALSE(pass(2));
}

TEST_F(PacketPaceTest, IsToldWhileMoreIsOut) {
    pace_.begins(kLength, PacketPace::Way::packets, now_);
    const unsigned least = PacketPace::kLeast / kEach;
    EXPECT_FALSE(pass(1 + least, true));
    const auto sample = pass(1, true);
    ASSERT_TRUE(sample);
    EXPECT_EQ(sample->bytes, least * kLength);
    EXPECT_EQ(sample->took, PacketPace::kLeast);
    const auto second = pass(least, true);
    ASSERT_TRUE(second);
    EXPECT_EQ(second->took, PacketPace::kLeast) << "that from the last answer on";
}

TEST_F(PacketPaceTest, OfALittleItTakesLonger) {
    pace_.begins(kLength, PacketPace::Way::packets, now_);
    pass(1, true);
    now_ += PacketPace::kLeast;
    EXPECT_FALSE(pass(2, true));
    const auto sample = pass(1, true);
    ASSERT_TRUE(sample);
    EXPECT_EQ(sample->bytes, 2 * kLength);
    EXPECT_EQ(sample->took, PacketPace::kLeast + 2 * kEach);
}

// Of a busy sender: each heap counts whole, over the time since the one before.
TEST_F(PacketPaceTest, AHeapIsNotDivided) {
    constexpr unsigned kHeap = 32;  // of 8 MiB
    pace_.begins(kLength, PacketPace::Way::packets, now_);
    unsigned samples = 0;
    for (unsigned heap = 0; heap < 5; heap++, now_ += kMillisecond)
        for (unsigned n = 0; n < kHeap; n++) {
            pace_.passed(now_);
            const auto sample = pace_.take(now_, true);
            if (!sample) continue;
            samples++;
            EXPECT_EQ(sample->bytes, kHeap * kLength);
            EXPECT_EQ(sample->took, kMillisecond);
        }
    EXPECT_EQ(samples, 3u);
}

TEST_F(PacketPaceTest, AnotherWayIsMeasuredAnew) {
    pace_.begins(kLength, PacketPace::Way::copied, now_);
    pass(4, true);
    pace_.begins(kLength, PacketPace::Way::fetched, now_);
    EXPECT_FALSE(pace_.measures(kLength, PacketPace::Way::copied)) << "what is still out of those";
    now_ += kSecond;
    const auto sample = pass(5);
    ASSERT_TRUE(sample);
    EXPECT_EQ(sample->way, PacketPace::Way::fetched);
    EXPECT_EQ(sample->took, 4 * kEach);
}

// A sender whose copying takes the time: each is acknowledged before the next has left.
TEST_F(PacketPaceTest, OneRightBehindTheOtherIsMeasured) {
    std::optional<PacketPace::Sample> sample;
    for (unsigned n = 0; n <= kRounds; n++) {
        EXPECT_FALSE(sample);
        EXPECT_FALSE(pace_.measures(kLength, PacketPace::Way::copied));
        now_ += kEach / 4;
        pace_.begins(kLength, PacketPace::Way::copied, now_);
        sample = pass(1);
    }
    ASSERT_TRUE(sample);
    EXPECT_TRUE(sample->rounds);
    EXPECT_EQ(sample->bytes, kRounds * kLength);
    EXPECT_EQ(sample->took, kRounds * (kEach + kEach / 4));
}

// However long what came before the pause took.
TEST_F(PacketPaceTest, APauseIsNoPartOfAStream) {
    pace_.begins(kLength, PacketPace::Way::copied, now_);
    pass(1000, true);
    pass(1);
    now_ += 5 * kEach;
    pace_.begins(kLength, PacketPace::Way::copied, now_);
    const auto sample = pass(4);
    ASSERT_TRUE(sample);
    EXPECT_EQ(sample->bytes, 3 * kLength);
    EXPECT_EQ(sample->took, 3 * kEach);
}

// The peer answers each, which takes it longer; and each is acknowledged in parts.
TEST_F(PacketPaceTest, RoundsAreMeasuredWhole) {
    constexpr unsigned kParts = 4;
    std::optional<PacketPace::Sample> sample;
    for (unsigned n = 0; n <= kRounds; n++) {
        EXPECT_FALSE(sample);
        now_ += 2 * kEach;
        pace_.begins(kLength, PacketPace::Way::fetched, now_);
        for (unsigned part = 1; part < kParts; part++) {
            now_ += kEach / kParts;
            EXPECT_FALSE(pace_.take(now_, true));
        }
        now_ += kEach / kParts;
        pace_.passed(now_);
        sample = pace_.take(now_, false);
    }
    ASSERT_TRUE(sample);
    EXPECT_TRUE(sample->rounds);
    EXPECT_EQ(sample->bytes, kRounds * kLength);
    EXPECT_EQ(sample->took, kRounds * 3 * kEach);
}

// They would not be compared with each other.
TEST_F(PacketPaceTest, AStreamThatPausesNowAndThenIsNoRounds) {
    std::optional<PacketPace::Sample> sample;
    for (unsigned burst = 0; burst < 2; burst++) {
        now_ += kEach;
        pace_.begins(kLength, PacketPace::Way::copied, now_);
        sample = pass(40);
    }
    ASSERT_TRUE(sample);
    EXPECT_FALSE(sample->rounds);
}

TEST_F(PacketPaceTest, WhatComesLaterIsNot) {
    for (unsigned n = 0; n < 10; n++) {
        now_ += 5 * kEach;
        pace_.begins(kLength, PacketPace::Way::copied, now_);
        EXPECT_FALSE(pass(1));
    }
}

TEST_F(PacketPaceTest, WhatIsInterruptedIsForgotten) {
    pace_.begins(kLength, PacketPace::Way::packets, now_);
    pass(4, true);
    pace_.ends();
    EXPECT_FALSE(pace_.measures(kLength, PacketPace::Way::packets));
    EXPECT_FALSE(pace_.take(now_ + kEach, false));
}

}  // namespace
}  // namespace verbena::transport
