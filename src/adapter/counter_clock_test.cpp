#include "adapter/counter_clock.h"

#include <gtest/gtest.h>

#include "adapter/clock.h"

namespace verbena::adapter {
namespace {

// A counter of 3.2 ticks a nanosecond, whose system clock is asked so often.
struct Machine {
    static bool usable() { return is_usable; }
    static std::uint64_t ticks() { return static_cast<std::uint64_t>(real * 16 / 5) + jump; }
    static Time time() {
        asked++;
        real += interrupted;
        return real - interrupted;
    }
    static inline Time real, interrupted;  // `interrupted`: between the two readings
    static inline std::uint64_t jump;
    static inline unsigned asked;
    static inline bool is_usable;
};

struct CounterClockTest : testing::Test {
    CounterClockTest() {
        Machine::real = 5 * kSecond;
        Machine::interrupted = 0;
        Machine::jump = 12345;
        Machine::asked = 0;
        Machine::is_usable = true;
    }
    Time after(Duration time) {
        Machine::real += time;
        return clock.now();
    }
    // Until it trusts the counter.
    void measure() {
        for (unsigned i = 0; i < 4; i++) after(kMillisecond);
        Machine::asked = 0;
    }
    CounterClock<Machine> clock;
};

TEST_F(CounterClockTest, AsksOnceAMillisecondAndIsNeverAhead) {
    measure();
    Time last = 0;
    for (unsigned i = 0; i < 100'000; i++) {
        const Time time = after(97);
        ASSERT_LE(time, Machine::real);
        ASSERT_LT(Machine::real - time, kMicrosecond / 2);
        ASSERT_GE(time, last);
        last = time;
    }
    EXPECT_GE(Machine::asked, 9u);
    EXPECT_LE(Machine::asked, 11u);
}

TEST_F(CounterClockTest, ACounterThatCannotBeUsed) {
    Machine::is_usable = false;
    for (unsigned i = 0; i < 10; i++) EXPECT_EQ(after(kMillisecond), Machine::real);
    EXPECT_EQ(Machine::asked, 10u);
}

TEST_F(CounterClockTest, LongSilences) {
    measure();
    for (Duration silence : {2 * kMillisecond, 3 * kSecond, 1000 * kSecond}) {
        EXPECT_EQ(after(silence), Machine::real);
        const Time time = after(10 * kMicrosecond);
        EXPECT_LE(time, Machine::real);
        EXPECT_LT(Machine::real - time, kMicrosecond / 2);
    }
}

// A machine that was moved, or slept: what the counter says since is not believed.
TEST_F(CounterClockTest, ACounterThatJumps) {
    measure();
    for (std::uint64_t jump : {std::uint64_t{1} << 40, std::uint64_t{0}, std::uint64_t{3'000'000}}) {
        Machine::jump = jump;
        Machine::real += 2 * kMillisecond;
        for (unsigned i = 0; i < 1000; i++) ASSERT_LE(after(5 * kMicrosecond), Machine::real);
        ASSERT_LT(Machine::real - clock.now(), kMicrosecond / 2);
    }
}

TEST_F(CounterClockTest, InterruptedReadings) {
    measure();
    Machine::interrupted = 40 * kMicrosecond;
    Time last = 0;
    for (unsigned i = 0; i < 10'000; i++) {
        const Time time = after(3 * kMicrosecond);
        ASSERT_LE(time, Machine::real);
        ASSERT_GE(time, last);
        ASSERT_LT(Machine::real - time, 50 * kMicrosecond);
        last = time;
    }
}

TEST(Clock, IsTheSystemsMonotonicOne) {
    const auto system = [] {
        timespec t;
        clock_gettime(CLOCK_MONOTONIC, &t);
        return Time{t.tv_sec} * kSecond + t.tv_nsec;
    };
    for (const Time end = system() + 5 * kMillisecond; system() < end;) {
        const Time before = system(), time = now(), after = system();
        ASSERT_GE(time, before - kMicrosecond);
        ASSERT_LE(time, after);
    }
}

}  // namespace
}  // namespace verbena::adapter
