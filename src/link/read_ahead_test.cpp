#include "link/read_ahead.h"

#include <gtest/gtest.h>

#include <map>

namespace verbena::link {
namespace {

// What was asked for of a producer that has written so many slots.
struct Producer {
    void fetch(std::uint64_t n) const { fetched[n]++; }
    void fetch_head() const { head_fetched++; }
    std::uint64_t head() const {
        looks++;
        return written;
    }

    std::uint64_t written = 0;
    mutable std::map<std::uint64_t, int> fetched;
    mutable int head_fetched = 0, looks = 0;
};

TEST(ReadAhead, FarOnlyAsFarAsIsWritten) {
    ReadAhead ahead;
    Producer producer;
    for (std::uint64_t n = 0; n < 10'000; n++) {
        producer.written = std::max(producer.written, n + 1 + n % 50);
        ahead.found(n, producer);
        const std::uint64_t farthest = producer.fetched.rbegin()->first;
        ASSERT_LT(farthest, std::max(producer.written, n + 2)) << n;
    }
}

TEST(ReadAhead, BehindAFastProducerEachSlotOnceAndInTime) {
    ReadAhead ahead;
    Producer producer;
    producer.written = 100'000;
    constexpr std::uint64_t kBegin = 100, kEnd = 10'000;
    for (std::uint64_t n = 0; n < kEnd; n++) {
        ahead.found(n, producer);
        if (n < kBegin) continue;
        ASSERT_TRUE(producer.fetched.contains(n + ReadAhead::kFar)) << n;
        ASSERT_EQ(producer.fetched[n], 1) << n;
    }
    EXPECT_EQ(producer.looks, 1);
}

TEST(ReadAhead, KnowsWhatTheHeadToldOf) {
    ReadAhead ahead;
    Producer producer;
    producer.written = 200;
    EXPECT_FALSE(ahead.knows_of(1));
    for (std::uint64_t n = 0; n < 100; n++) ahead.found(n, producer);
    EXPECT_TRUE(ahead.knows_of(199));
    EXPECT_FALSE(ahead.knows_of(200));
}

TEST(ReadAhead, TheHeadIsLookedAtRarelyAndAskedForBefore) {
    ReadAhead ahead;
    Producer producer;
    constexpr int kSlots = 3'200;
    for (std::uint64_t n = 0; n < kSlots; n++) {
        producer.written = n + 2;
        ahead.found(n, producer);
        ASSERT_LE(producer.looks, producer.head_fetched) << n;
    }
    EXPECT_GT(producer.looks, 10);
    EXPECT_LE(producer.looks, kSlots / static_cast<int>(ReadAhead::kLookEvery));
}

TEST(ReadAhead, OneAtATimeTheHeadIsLeftAlone) {
    ReadAhead ahead;
    Producer producer;
    for (std::uint64_t n = 0; n < 1'000; n++) {
        ahead.found_nothing(n);
        producer.written = n + 1;
        ahead.found(n, producer);
        ASSERT_TRUE(producer.fetched.contains(n + 1)) << n;
    }
    EXPECT_EQ(producer.head_fetched, 0);
}

TEST(ReadAhead, AHeadThatLiesIsSurvived) {
    for (const std::uint64_t lie : {std::uint64_t{0}, std::uint64_t{5}, ~std::uint64_t{0}}) {
        ReadAhead ahead;
        Producer producer;
        producer.written = lie;
        for (std::uint64_t n = 0; n < 1'000; n++) ahead.found(n, producer);
        EXPECT_LE(producer.fetched.size(), 1'000 + ReadAhead::kFar) << lie;
    }
}

}  // namespace
}  // namespace verbena::link
