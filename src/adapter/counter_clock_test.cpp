#include "adapter/counter_clock.h"

#include <gtest/gtest.h>

#include <array>
#include <utility>

#include "adapter/clock.h"

namespace verbena::adapter {
namespace {

// A counter of 3.2 ticks a nanosecond; reading the system's clock takes 30 ns.
struct Machine {
    static bool usable() {
        looked++;
        return is_usable;
    }
    static std::uint64_t ticks() { return static_cast<std::uint64_t>(real * 16 / 5) + jump; }
    static Time time() {
        asked++;
        real += 10;
        const Time time = real;
        real += 20 + std::exchange(interruption, 0);
        if (jitter > 0) real += asked * 7919 % jitter;
        return time;
    }
    static inline Time real, interruption;  // `interruption`: between the next reading and what follows
    static inline Duration jitter;          // up to so much, at each reading
    static inline std::uint64_t jump;
    static inline unsigned asked, looked;
    static inline bool is_usable;
};

struct CounterClockTest : ::testing::Test {
    CounterClockTest() {
        Machine::real = 5 * kSecond;
        Machine::interruption = 0;
        Machine::jitter = 0;
        Machine::looked = 0;
        Machine::jump = 12345;
        Machine::asked = 0;
        Machine::is_usable = true;
    }
    Time after(Duration time) {
        Machine::real += time;
        return clock.now();
    }
    // For so long, in steps of several lengths: never ahead, never back.
    void watch(Duration duration) {
        constexpr std::array<Duration, 5> kSteps{97, 430, 2100, 51, 15'000};
        const Time end = Machine::real + duration;
        for (unsigned i = 0; Machine::real < end; i++) {
            const Time time = after(kSteps[i % kSteps.size()]);
            ASSERT_LE(time, Machine::real);
            ASSERT_GE(time, last);
            ahead_by_system = Machine::real - time;
            last = time;
        }
    }
    // By less than a microsecond, and seldom asking.
    void expect_trust() {
        Machine::asked = 0;
        watch(20 * kMillisecond);
        EXPECT_LT(ahead_by_system, kMicrosecond);
        EXPECT_LE(Machine::asked, 25u);
    }
    CounterClock<Machine> clock;
    Time last = 0;
    Duration ahead_by_system = 0;
};

TEST_F(CounterClockTest, AsksOnceAMillisecondAndIsNeverAhead) {
    watch(5 * kMillisecond);
    expect_trust();
    EXPECT_GE(Machine::asked, 15u);
}

TEST_F(CounterClockTest, ACounterThatCannotBeUsed) {
    Machine::is_usable = false;
    after(0);
    Machine::asked = 0;
    for (unsigned i = 0; i < 10; i++) {
        const Time time = after(kMillisecond);
        EXPECT_EQ(time, Machine::real - 20);
    }
    EXPECT_EQ(Machine::asked, 10u);
}

TEST_F(CounterClockTest, LongSilences) {
    watch(5 * kMillisecond);
    for (Duration silence : {2 * kMillisecond, 3 * kSecond, 1000 * kSecond}) {
        Machine::real += silence;
        watch(5 * kMillisecond);
        expect_trust();
    }
}

// A machine that was moved, or slept: what the counter says since is not believed until it agrees with
// itself.
TEST_F(CounterClockTest, ACounterThatJumps) {
    watch(5 * kMillisecond);
    for (std::uint64_t jump : {std::uint64_t{1} << 40, std::uint64_t{0}, std::uint64_t{3'000'000'000}}) {
        Machine::jump = jump;
        Machine::real += 2 * kMillisecond;
        watch(5 * kMillisecond);
        expect_trust();
    }
}

TEST_F(CounterClockTest, ACounterThatJumpsBeforeItIsTrusted) {
    after(0);
    Machine::jump += std::uint64_t{1} << 36;
    watch(5 * kMillisecond);
    expect_trust();
}

TEST_F(CounterClockTest, InterruptedReadings) {
    for (Duration interruption : {2 * kMicrosecond, 100 * kMicrosecond, 300 * kMicrosecond,
                                  600 * kMicrosecond, kMillisecond, 4 * kMillisecond, 2 * kSecond})
        for (Duration before : {Duration{0}, kMillisecond / 2, kMillisecond, 7 * kMillisecond}) {
            SCOPED_TRACE(::testing::Message() << interruption << " after " << before);
            watch(before);
            Machine::interruption = interruption;
            watch(2 * kMillisecond);
            watch(5 * kMillisecond);
            expect_trust();
        }
}

// As in an emulator.
TEST_F(CounterClockTest, ReadingsThatTakeLong) {
    Machine::jitter = 3 * kMicrosecond;
    watch(200 * kMillisecond);
    Machine::asked = Machine::looked = 0;
    watch(kSecond);
    EXPECT_LT(ahead_by_system, 2 * Machine::jitter);
    EXPECT_LE(Machine::asked, 1100u);
    EXPECT_LE(Machine::looked, 1u);
}

TEST(Clock, GoesOn) {
    const Time before = now();
    Time last = before;
    for (unsigned i = 0; i < 100'000; i++) {
        const Time time = now();
        ASSERT_GE(time, last);
        last = time;
    }
    EXPECT_GT(last, before);
}

}  // namespace
}  // namespace verbena::adapter
