#include "transport/wave.h"

#include <gtest/gtest.h>

namespace verbena::transport {
namespace {

class WaveTest : public ::testing::Test {
   protected:
    bool carries(bool many = false, const void* queue = nullptr) {
        return wave.carries(queue ? queue : &own, many, now += kMicrosecond, [&] {
            asked++;
            return served;
        });
    }
    // So many queue pairs, one after the other, have one under way.
    void begin(unsigned count, const void* queue = nullptr) {
        for (unsigned n = 0; n < count; n++) wave.begins(queue ? queue : &own, &queue_pairs[n]);
    }
    void later() { now += Wave::kLasts; }

    Wave wave;
    Time now = kSecond;
    bool served = true;
    unsigned asked = 0;
    int own = 0, other = 0;  // completion queues
    int queue_pairs[8] = {};
};

TEST_F(WaveTest, OneAfterTheOtherIsNone) {
    for (unsigned n = 0; n < 20; n++) {
        EXPECT_FALSE(carries());
        begin(1);
        wave.has(&own, 1);
        wave.ends(&queue_pairs[0], now);
    }
    EXPECT_EQ(asked, 0u);
}

TEST_F(WaveTest, ManyAreOneAndThoseThatFollowSoon) {
    EXPECT_TRUE(carries(true));
    EXPECT_TRUE(carries());
    later();
    EXPECT_FALSE(carries());
}

TEST_F(WaveTest, GoesOnWhileSeveralQueuePairsHaveOne) {
    EXPECT_TRUE(carries(true));
    for (unsigned n = 0; n < 5; n++) {
        begin(Wave::kWide + 1);
        later();
        EXPECT_TRUE(carries());
    }
}

TEST_F(WaveTest, EndsWhenEachWaitsForTheOneBefore) {
    EXPECT_TRUE(carries(true));
    begin(Wave::kWide);
    wave.ends(&queue_pairs[Wave::kWide - 1], now);
    begin(Wave::kWide - 1);
    later();
    EXPECT_FALSE(carries());
}

TEST_F(WaveTest, GoesOnWhileOneQueuePairHasSeveral) {
    EXPECT_TRUE(carries(true));
    wave.has(&own, Wave::kWide);
    later();
    EXPECT_TRUE(carries());
    wave.has(&own, Wave::kWide - 1);
    later();
    EXPECT_FALSE(carries());
}

// What there was at once by then tells nothing long after.
TEST_F(WaveTest, IsOverSoonAfterItsEnd) {
    EXPECT_TRUE(carries(true));
    wave.has(&own, Wave::kWide);
    begin(Wave::kWide + 1);
    for (int& queue_pair : queue_pairs) wave.ends(&queue_pair, now);
    EXPECT_TRUE(carries());
    later();
    EXPECT_FALSE(carries());
}

TEST_F(WaveTest, WhatCompletesElsewhereIsNoPart) {
    EXPECT_TRUE(carries(true));
    EXPECT_FALSE(carries(false, &other));
    begin(Wave::kWide + 1, &other);
    wave.has(&other, Wave::kWide);
    later();
    EXPECT_FALSE(carries());
    EXPECT_TRUE(carries(true, &other)) << "many by itself";
    EXPECT_TRUE(carries(false, &other));
}

TEST_F(WaveTest, ThePeerIsNotAskedForWithEach) {
    served = false;
    EXPECT_FALSE(carries(true));
    served = true;
    EXPECT_FALSE(carries());
    EXPECT_EQ(asked, 1u);
    now += Wave::kServed;
    EXPECT_TRUE(carries());
    EXPECT_TRUE(carries());
    EXPECT_EQ(asked, 2u);
}

// While it is wide and the peer takes it in, most of them need not know the time.
TEST_F(WaveTest, MostOfItIsNotTimed) {
    EXPECT_FALSE(wave.goes_on(&own)) << "there is none";
    EXPECT_TRUE(carries(true));
    EXPECT_FALSE(wave.goes_on(&own)) << "not wide yet";
    begin(Wave::kWide + 1);
    for (unsigned n = 1; n <= 3 * Wave::kTimed; n++)
        EXPECT_EQ(wave.goes_on(&own), n % Wave::kTimed != 0) << n;
    EXPECT_FALSE(wave.goes_on(&other));
    wave.ends(&queue_pairs[Wave::kWide], now);
    EXPECT_FALSE(wave.goes_on(&own)) << "the newest has ended";
}

TEST_F(WaveTest, IsTimedWhereThePeerDoesNotTakeItIn) {
    served = false;
    EXPECT_FALSE(carries(true));
    begin(Wave::kWide + 1);
    EXPECT_FALSE(wave.goes_on(&own));
}

TEST_F(WaveTest, CountsThoseThatFollowAtOnce) {
    const auto at_once = [](Duration since) { return since <= kMicrosecond; };
    for (unsigned n = 0; n < 3; n++) EXPECT_EQ(wave.follows(now += kMicrosecond, at_once), n);
    EXPECT_EQ(wave.follows(now += 2 * kMicrosecond, at_once), 0u);
}

}  // namespace
}  // namespace verbena::transport
