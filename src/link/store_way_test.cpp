#include "link/store_way.h"

#include <gtest/gtest.h>

namespace verbena::link {
namespace {

constexpr std::size_t kLength = 16 << 10;

class StoreWayTest : public ::testing::Test {
   protected:
    // How many of so many go plainly.
    unsigned plain(unsigned count, std::uint64_t streamed_takes, std::uint64_t plain_takes) {
        unsigned plain = 0;
        for (; count > 0; count--) {
            const bool streams = way_.streams();
            way_.took(streams, kLength, streams ? streamed_takes : plain_takes);
            plain += !streams;
        }
        return plain;
    }

    StoreWay way_;
};

TEST_F(StoreWayTest, PastTheCacheWherePlainStoresWait) {
    plain(1000, 1000, 5000);
    EXPECT_LE(plain(10 * Trial::kMost, 1000, 5000), 10u);
}

TEST_F(StoreWayTest, PlainlyWhereTheyDoNot) {
    plain(10, 1000, 1300);
    EXPECT_GE(plain(1000, 1000, 1300), 980u);
}

TEST_F(StoreWayTest, ChangesWithTheMachine) {
    plain(10 * Trial::kMost, 1000, 5000);
    plain(Trial::kMost + 1, 1000, 1300);
    EXPECT_GE(plain(1000, 1000, 1300), 980u);
    plain(Trial::kMost, 1000, 5000);
    EXPECT_LE(plain(10 * Trial::kMost, 1000, 5000), 10u);
}

// Whoever was interrupted, or met fresh pages, was not slow.
TEST_F(StoreWayTest, OneThatTookLongSaysLittle) {
    way_.took(true, kLength, 1000000);
    plain(20, 1000, 1300);
    EXPECT_GE(plain(1000, 1000, 1300), 980u);
    way_.took(false, kLength, 1000000);
    EXPECT_GE(plain(1000, 1000, 1300), 960u);
}

TEST_F(StoreWayTest, HoweverManyOfTheOthersTakeLongAtFirst) {
    for (unsigned n = 0; n < 8; n++) way_.took(true, kLength, 1000000);
    plain(2000, 1000, 5000);
    EXPECT_LE(plain(10 * Trial::kMost, 1000, 5000), 10u);
}

// A source that no cache holds makes both slower.
TEST_F(StoreWayTest, IsComparedWithWhatTheOtherTakesNow) {
    plain(100, 1000, 1300);
    plain(10 * Trial::kFewest, 4000, 5000);
    EXPECT_GE(plain(1000, 4000, 5000), 980u);
}

}  // namespace
}  // namespace verbena::link
