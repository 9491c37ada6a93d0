#include "adapter/watchdog.h"

#include <gtest/gtest.h>
#include <poll.h>

#include "adapter/clock.h"

namespace verbena::adapter {
namespace {

constexpr Duration kRest = Watchdog::kRest, kPatience = Watchdog::kPatience, kMoment = Watchdog::kMoment;
constexpr Duration kChance = Watchdog::kChance, kLongest = Watchdog::kLongest;
constexpr Duration kHour = 3600 * kSecond;

// Who polls, as a test says.
struct Told {
    static inline Duration has_run = -1;
    static inline bool wants_to = false;

    static void begins() {}
    static void goes_on() {}
    static Duration ran() { return has_run; }
    static bool is_runnable() { return wants_to; }
};

struct WatchdogTest : ::testing::Test {
    void SetUp() override {
        Told::has_run = -1;
        Told::wants_to = false;
        ASSERT_TRUE(dog.open());
    }
    static bool is_readable(int fd, int timeout) {  // ms
        pollfd one{fd, POLLIN, 0};
        return poll(&one, 1, timeout) == 1;
    }
    bool rings() const { return is_readable(dog.fd(), kLong); }  // what has to come is waited for
    bool has_rung() const { return is_readable(dog.fd(), 0); }
    static constexpr int kLong = 10'000;
    WatchdogOf<Told> dog;
};

TEST_F(WatchdogTest, PollsPutItOffOnceInARest) {
    const Time due = now() + kHour;
    dog.start(due);
    EXPECT_FALSE(dog.feed(due - kRest - 1)) << "too soon";
    EXPECT_FALSE(dog.is_over(due - 1));
    EXPECT_TRUE(dog.feed(due - kRest));
    EXPECT_FALSE(dog.feed(due - kRest)) << "it has been";
    EXPECT_FALSE(dog.is_over(due));
    EXPECT_FALSE(dog.is_over(due - kRest + kPatience - 1));
    EXPECT_FALSE(dog.is_over(due - kRest + kPatience)) << "the first time";
    EXPECT_FALSE(dog.is_over(due - kRest + kPatience + kMoment - 1));
    EXPECT_TRUE(dog.is_over(due - kRest + kPatience + kMoment));
    EXPECT_FALSE(has_rung());
}

TEST_F(WatchdogTest, RingsWhenNobodyPolls) {
    dog.start(now() - 1);
    EXPECT_TRUE(rings());
    EXPECT_FALSE(dog.is_over(now()));
    EXPECT_TRUE(rings()) << "again";
    EXPECT_TRUE(dog.is_over(now() + kMoment)) << "our clock may be late by a microsecond";
    EXPECT_FALSE(has_rung()) << "twice";
}

// Whoever comes as soon as there is a processor again has not been away.
TEST_F(WatchdogTest, AMomentIsLeftToWhoWasKeptFromTheProcessor) {
    const Time due = now() + kHour, back = due + 5 * kPatience;
    dog.start(due);
    EXPECT_FALSE(dog.is_over(back));
    EXPECT_TRUE(dog.feed(back + kMoment / 2));
    EXPECT_FALSE(dog.is_over(back + kMoment));
    EXPECT_FALSE(dog.is_over(back + kMoment / 2 + kPatience)) << "the first time since";
    EXPECT_TRUE(dog.is_over(back + kMoment / 2 + kPatience + kMoment));

    dog.start(due);
    EXPECT_FALSE(dog.is_over(due)) << "anew";
}

// Who has a processor now and then gets as many moments as it takes to have had enough of it.
TEST_F(WatchdogTest, WhoIsKeptFromTheProcessorIsWaitedFor) {
    const Time due = now() + kHour;
    Told::has_run = kSecond;
    Told::wants_to = true;
    dog.start(due);
    Time time = due;
    EXPECT_FALSE(dog.is_over(time));
    EXPECT_FALSE(dog.is_over(time += kMoment)) << "it did not run";
    Told::has_run += kChance / 2;
    EXPECT_FALSE(dog.is_over(time += kMoment));
    Told::has_run += kChance / 2 - 1;
    EXPECT_FALSE(dog.is_over(time += kMoment)) << "not enough";
    Told::has_run += 1;
    EXPECT_TRUE(dog.is_over(time += kMoment)) << "it had its chance";

    dog.start(due);
    EXPECT_FALSE(dog.is_over(time = due)) << "anew";
    EXPECT_FALSE(dog.is_over(time += kMoment));
    Told::wants_to = false;
    EXPECT_TRUE(dog.is_over(time += kMoment)) << "it sleeps";
}

TEST_F(WatchdogTest, NobodyIsWaitedForForLong) {
    const Time due = now() + kHour;
    Told::has_run = kSecond;
    Told::wants_to = true;
    dog.start(due);
    EXPECT_FALSE(dog.is_over(due));
    for (Time time = due + kMoment; time < due + kLongest; time += kMoment) EXPECT_FALSE(dog.is_over(time));
    EXPECT_TRUE(dog.is_over(due + kLongest));
}

TEST_F(WatchdogTest, WhoHasGoneIsNotWaitedFor) {
    const Time due = now() + kHour;
    Told::wants_to = true;
    dog.start(due);
    EXPECT_FALSE(dog.is_over(due));
    EXPECT_TRUE(dog.is_over(due + kMoment));
}

// It rings while somebody polls.
TEST_F(WatchdogTest, IsSetAnewForWhoComesLate) {
    dog.start(now() - 1);
    EXPECT_TRUE(rings());
    EXPECT_TRUE(dog.feed(now() + kHour));
    EXPECT_FALSE(dog.is_over(now()));
    EXPECT_FALSE(has_rung());
    EXPECT_TRUE(dog.feed(now() + 2 * kHour)) << "an hour later";
}

TEST_F(WatchdogTest, StartsAgain) {
    dog.start(now() + kHour);
    dog.start(now() - 1);
    EXPECT_TRUE(rings());
    EXPECT_FALSE(dog.is_over(now()));
    EXPECT_TRUE(rings());
    EXPECT_TRUE(dog.is_over(now() + kMoment));
    dog.start(now() + kHour);
    EXPECT_FALSE(has_rung());
    EXPECT_FALSE(dog.is_over(now()));
}

// The program has closed what it did not know: who waits is woken all the same.
TEST_F(WatchdogTest, RingsThoughItsNumberIsGone) {
    const int kept = dup(dog.fd());  // as a thread in poll(2) keeps it
    dog.start(now() + 50 * kMillisecond);
    close(dog.fd());
    dog.feed(now() + kHour);
    EXPECT_TRUE(is_readable(kept, kLong));
    EXPECT_EQ(dup2(kept, dog.fd()), dog.fd());  // for its destructor
    close(kept);
}

}  // namespace
}  // namespace verbena::adapter
