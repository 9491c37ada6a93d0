#include "adapter/patience.h"

#include <gtest/gtest.h>

namespace verbena::adapter {
namespace {

using Next = Patience::Next;
constexpr Duration kOthers = 4 * kMillisecond;  // their turn
constexpr Duration kNap = 100 * kMicrosecond;

struct PatienceTest : ::testing::Test {
    // Polls in vain until it is for something else, and what that is.
    Next next() {
        polls = 1;
        Next next;
        while ((next = patience.in_vain()) == Next::poll) polls++;
        return next;
    }
    void yielded(Duration away, bool helped = false) { patience.yielded(away, helped, now += away); }
    unsigned naps() {
        unsigned naps = 0;
        for (; next() == Next::nap; naps++) {
            patience.found();
            now += kNap;
        }
        return naps;
    }
    Time now = 5 * kSecond;
    unsigned polls = 0;
    Patience patience{false};
};

TEST_F(PatienceTest, YieldsWhileNothingComes) {
    EXPECT_EQ(next(), Next::yield);
    EXPECT_EQ(polls, Patience::kYieldAfter);
    yielded(kSwitch / 2);
    EXPECT_EQ(next(), Next::yield);
    EXPECT_EQ(polls, 1u);
    patience.found();
    EXPECT_EQ(next(), Next::yield);
    EXPECT_EQ(polls, Patience::kYieldAfter);
}

TEST_F(PatienceTest, NapsWhileOthersRunAgainAndAgain) {
    next();
    yielded(kOthers);
    EXPECT_EQ(naps(), 0u);
    yielded(kOthers);
    patience.found();
    EXPECT_EQ(next(), Next::nap);
    EXPECT_EQ(polls, Patience::kNapAfter);
    EXPECT_EQ(naps(), Patience::kFewestNaps - 1);
    for (unsigned wanted = 2 * Patience::kFewestNaps; wanted <= Patience::kMostNaps; wanted *= 2) {
        yielded(kOthers);
        EXPECT_EQ(naps(), wanted);
    }
    yielded(kOthers);
    EXPECT_EQ(naps(), Patience::kMostNaps);
    yielded(kSwitch / 2);
    EXPECT_EQ(naps(), 0u);
}

TEST_F(PatienceTest, NapsWhereTurnsAreLong) {
    for (unsigned i = 0; i < 2; i++) yielded(2 * Patience::kOften);
    EXPECT_EQ(naps(), Patience::kFewestNaps);
}

TEST_F(PatienceTest, DoesNotNapForWhoRunsSeldom) {
    for (unsigned i = 0; i < 5; i++) {
        yielded(kOthers);
        EXPECT_EQ(naps(), 0u);
        now += Patience::kOften;
    }
}

TEST_F(PatienceTest, DoesNotNapForItsOwnHelper) {
    for (unsigned i = 0; i < 5; i++) {
        yielded(2 * kLongYield, true);
        EXPECT_EQ(naps(), 0u);
    }
    for (unsigned i = 0; i < 2; i++) yielded(kOthers, true);  // so long does the helper not take
    EXPECT_EQ(naps(), Patience::kFewestNaps);
}

TEST_F(PatienceTest, WhoSleepsForEventsDoesNotWaitByItsLastPoll) {
    patience = Patience(true);
    patience.found();
    for (int event = 0; event < 3; event++) {
        patience.will_sleep();
        patience.found();
        EXPECT_EQ(patience.in_vain(), Next::poll);
    }
    EXPECT_EQ(patience.in_vain(), Next::yield);
}

TEST_F(PatienceTest, ButByEachWhereThereWasNothing) {
    patience = Patience(true);
    patience.found();
    patience.will_sleep();
    EXPECT_EQ(patience.in_vain(), Next::poll);
    for (int arming = 0; arming < 3; arming++) {
        patience.will_sleep();
        EXPECT_EQ(patience.in_vain(), Next::yield);
    }
}

TEST_F(PatienceTest, BoundToOneProcessor) {
    patience = Patience(true);
    EXPECT_TRUE(patience.yields_at_once());
    for (unsigned wanted = 1; wanted < Patience::kYieldAfter; wanted *= 2) {
        patience.found();
        EXPECT_EQ(next(), Next::yield);
        EXPECT_EQ(polls, wanted);
        yielded(kSwitch / 2);  // nobody is there
    }
    EXPECT_FALSE(patience.yields_at_once());
    yielded(2 * kSwitch);
    EXPECT_TRUE(patience.yields_at_once());
}

}  // namespace
}  // namespace verbena::adapter
