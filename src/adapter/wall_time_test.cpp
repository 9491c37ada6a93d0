#include "adapter/wall_time.h"

#include <gtest/gtest.h>

#include <utility>

namespace verbena::adapter {
namespace {

// Reading either clock takes 30 ns, and sometimes longer.
struct Clocks {
    static Time now() { return real += 30; }
    static Time wall() {
        real += 30 + std::exchange(interruption, 0);
        return real + set_by;
    }
    static inline Time real, set_by;
    static inline Duration interruption;
};

struct WallTimeTest : ::testing::Test {
    WallTimeTest() {
        Clocks::real = 5 * kSecond;
        Clocks::set_by = kEpoch;
        Clocks::interruption = 0;
    }
    static constexpr Time kEpoch = 1'700'000'000 * kSecond;
    static constexpr Duration kLittle = 100;
    WallTime<Clocks> wall;
};

TEST_F(WallTimeTest, IsWhatTheWallClockShowed) {
    const Time then = Clocks::real - 3 * kSecond;
    EXPECT_LE(std::abs(wall.at(then) - (then + kEpoch)), kLittle);
}

TEST_F(WallTimeTest, ATimeToldAgainIsTheSame) {
    const Time then = Clocks::real, told = wall.at(then);
    for (int i = 0; i < 1000; i++) {
        if (i % 7 == 0) Clocks::interruption = i * kMicrosecond;
        Clocks::real += 10 * kMillisecond;
        ASSERT_EQ(wall.at(then), told);
        ASSERT_EQ(wall.at(then + 1), told + 1);
    }
}

TEST_F(WallTimeTest, AnInterruptionAtTheFirstReadingDoesNotCount) {
    Clocks::interruption = kSecond;
    const Time then = Clocks::real;
    EXPECT_LE(std::abs(wall.at(then) - (then + kEpoch)), kLittle);
}

TEST_F(WallTimeTest, FollowsAClockThatIsSet) {
    const Time then = Clocks::real;
    wall.at(then);
    for (const Duration by : {-kSecond, 3600 * kSecond, 2 * kMillisecond}) {
        Clocks::set_by += by;
        Clocks::real += WallTime<Clocks>::kLookEvery;
        EXPECT_LE(std::abs(wall.at(then) - (then + Clocks::set_by)), kLittle) << by;
    }
}

}  // namespace
}  // namespace verbena::adapter
