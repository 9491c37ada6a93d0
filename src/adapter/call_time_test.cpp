#include "adapter/call_time.h"

#include <gtest/gtest.h>

namespace verbena::adapter {
namespace {

void calls(CallTime& time, unsigned count, Duration each) {
    for (unsigned call = 0; call < count; call++) time.took(each);
}

TEST(CallTime, IsNotKnownAtFirst) { EXPECT_EQ(CallTime().usually(), 0); }

TEST(CallTime, IsThatOfMostCalls) {
    CallTime time;
    calls(time, 100, 2500);
    EXPECT_EQ(time.usually(), 2500);
}

TEST(CallTime, TheFirstHasPageFaultsAndIsSoonForgotten) {
    CallTime time;
    time.took(200 * kMicrosecond);
    calls(time, 31, 400);
    EXPECT_NEAR(static_cast<double>(time.usually()), 400, 200);
}

TEST(CallTime, OneThatWasInterruptedCountsLittle) {
    CallTime time;
    calls(time, 32, 800);
    time.took(4 * kMillisecond);
    EXPECT_LE(time.usually(), 900);
}

TEST(CallTime, FollowsWhatChanges) {
    CallTime time;
    calls(time, 32, 400);
    calls(time, 64, 3000);
    EXPECT_NEAR(static_cast<double>(time.usually()), 3000, 100);
}

TEST(CallTime, TheFirstCallsAreMeasuredAndThenOneOfSeveral) {
    EXPECT_TRUE(CallTime::is_due(0));
    EXPECT_TRUE(CallTime::is_due(31));
    EXPECT_FALSE(CallTime::is_due(33));
    EXPECT_TRUE(CallTime::is_due(48));
}

}  // namespace
}  // namespace verbena::adapter
