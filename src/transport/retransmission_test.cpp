#include "transport/retransmission.h"

#include <gtest/gtest.h>

namespace verbena::transport {
namespace {

using Due = Retransmission::Due;

// Counters and timers with the floor's timeout and three retries.
Retransmission outstanding_since(Time now) {
    Retransmission r;
    r.configure(1, 3, 0);
    r.sent(now);
    return r;
}

// Skips the probes before it.
Due timeout_at(Retransmission& r, Time now) {
    Due due = r.due(now);
    return due == Due::probe ? r.due(now) : due;
}

TEST(Retransmission, EachTimeoutCostsARetry) {
    Retransmission r = outstanding_since(0);
    Time now = 0;
    for (int i = 0; i < 3; i++) {
        now += kAcknowledgeTimeoutFloor;
        EXPECT_EQ(timeout_at(r, now), Due::timeout);
        EXPECT_TRUE(r.take_retry());
    }
    EXPECT_EQ(timeout_at(r, now + kAcknowledgeTimeoutFloor), Due::timeout);
    EXPECT_FALSE(r.take_retry());
}

TEST(Retransmission, ATimeoutNoticedLateCostsNone) {
    Retransmission r = outstanding_since(0);
    EXPECT_EQ(timeout_at(r, kAcknowledgeTimeoutFloor * 5 / 4), Due::timeout);  // not late yet
    EXPECT_EQ(timeout_at(r, 4 * kAcknowledgeTimeoutFloor), Due::late_timeout);
    EXPECT_EQ(timeout_at(r, 5 * kAcknowledgeTimeoutFloor), Due::timeout);
}

TEST(Retransmission, LateTimeoutsEnd) {
    Retransmission r = outstanding_since(0);
    Time now = 0;
    for (unsigned i = 0; i < kLateTimeouts; i++) EXPECT_EQ(timeout_at(r, now += kSecond), Due::late_timeout);
    EXPECT_EQ(timeout_at(r, now += kSecond), Due::timeout);
    r.progress(now, true);
    EXPECT_EQ(timeout_at(r, now += kSecond), Due::late_timeout);
}

TEST(Retransmission, CopiesThatFollowOneAnotherDoNotAskForTheTime) {
    static unsigned asked = 0;
    const auto clock = [] { return LazyTime([]() -> Time { return asked++; }); };
    Retransmission r;
    r.configure(14, 7, 7);
    EXPECT_TRUE(r.sent(clock(), true));
    const Time deadline = r.next_deadline();
    EXPECT_FALSE(r.sent(clock(), true));
    EXPECT_EQ(asked, 1u);
    EXPECT_EQ(r.next_deadline(), deadline);
    EXPECT_FALSE(r.sent(clock(), false)) << "later, if at all";  // the wire may lose it, and it was the last
    EXPECT_EQ(asked, 2u);
    EXPECT_NE(r.next_deadline(), deadline);
}

// Once it is known that the peer answers.
TEST(Retransmission, WhatWasCopiedIsAskedAboutLate) {
    Retransmission r;
    r.configure(1, 3, 0);
    r.sent(Time{0}, true);
    EXPECT_EQ(r.next_deadline(), kProbeUnmeasured);
    r.measured(kMicrosecond);
    r.progress(0, false);
    r.sent(Time{0}, true);
    EXPECT_EQ(r.next_deadline(), kProbeCopied);
    r.progress(kMicrosecond, true);  // what is outstanding was copied, too
    EXPECT_EQ(r.next_deadline(), kMicrosecond + kProbeCopied);
    r.sent(Time{0});
    EXPECT_EQ(r.next_deadline(), kProbeFloor);
}

TEST(Retransmission, NothingIsDueAfterTheLastAcknowledgement) {
    Retransmission r = outstanding_since(0);
    r.progress(1, false);
    EXPECT_EQ(r.next_deadline(), kNever);
    EXPECT_EQ(r.due(kSecond), Due::nothing);
}

}  // namespace
}  // namespace verbena::transport
