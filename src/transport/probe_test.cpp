// What probes find out: a peer that was slow is not taken for a wire that lost something, nor the other way
// round.
#include "transport/probe.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "transport/rc_harness.h"
#include "transport/retransmission.h"

namespace verbena::transport::testing {
namespace {

using Says = Probe::Says;

// Packets 10 to 19 have been sent, 10 and 11 are repeated.
Probe probed(bool data = false) {
    Probe probe;
    probe.sent(10, 12, 20, data);
    return probe;
}

TEST(Probe, WhatEndsWithTheRepeatedPacketWasLost) {
    Probe probe = probed();
    EXPECT_EQ(probe.progressed(11), Says::nothing);
    EXPECT_EQ(probe.progressed(12), Says::lost);
    EXPECT_EQ(probe.progressed(13), Says::nothing) << "said once";
}

TEST(Probe, WhatGoesFurtherIsAllOrGoesOn) {
    Probe all = probed();
    EXPECT_EQ(all.progressed(13), Says::unclear);
    EXPECT_TRUE(all.silent());
    Probe slow = probed();
    EXPECT_EQ(slow.progressed(13), Says::unclear);
    EXPECT_EQ(slow.progressed(14), Says::over);
    EXPECT_EQ(slow.progressed(15), Says::nothing);
    EXPECT_FALSE(slow.silent());
}

TEST(Probe, AllOfItMayBeEither) {
    EXPECT_EQ(probed().progressed(20), Says::over);
    Probe only;
    only.sent(10, 11, 11, true);
    EXPECT_EQ(only.progressed(11), Says::over);
}

TEST(Probe, DataThatGoesOnWasSlow) {
    Probe probe = probed(true);
    EXPECT_EQ(probe.progressed(11), Says::nothing);
    EXPECT_EQ(probe.progressed(12), Says::unclear);
    EXPECT_TRUE(probe.doubts(11));
    EXPECT_EQ(probe.progressed(13), Says::slow);
    EXPECT_FALSE(probe.silent());
}

TEST(Probe, DataThatEndsWasLost) {
    Probe probe = probed(true);
    EXPECT_FALSE(probe.silent()) << "no answer at all: it is repeated again";
    EXPECT_EQ(probe.progressed(12), Says::unclear);
    EXPECT_TRUE(probe.silent());
    EXPECT_FALSE(probe.silent());
    EXPECT_EQ(probe.progressed(13), Says::nothing);
}

TEST(Probe, WhereGapsAreNoticedNothingIsWaitedFor) {
    for (const bool data : {false, true}) {
        Probe probe;
        probe.gap();
        probe.sent(10, 12, 20, data);
        EXPECT_EQ(probe.progressed(data ? 12 : 13), Says::lost);
        probe.sent(13, 14, 20, data);
        EXPECT_EQ(probe.progressed(data ? 14 : 15), Says::unclear) << "none was since";
    }
}

TEST(Probe, ALostProbeForgetsNoGap) {
    Probe probe;
    probe.gap();
    probe.sent(10, 12, 20, false);
    probe.sent(10, 12, 20, false);
    EXPECT_EQ(probe.progressed(13), Says::lost);
}

TEST(Probe, DoubtsWhatWasSentTwice) {
    Probe probe = probed();
    EXPECT_FALSE(probe.doubts(9));
    EXPECT_TRUE(probe.doubts(10));
    EXPECT_TRUE(probe.doubts(11));
    EXPECT_FALSE(probe.doubts(12));
    probe.forget();
    EXPECT_FALSE(probe.doubts(10));
    EXPECT_EQ(probe.progressed(12), Says::nothing);
}

TEST(Probe, NumbersWrap) {
    Probe probe;
    probe.sent(0xfffffe, 0, 8, false);
    EXPECT_TRUE(probe.doubts(0xffffff));
    EXPECT_FALSE(probe.doubts(0));
    EXPECT_EQ(probe.progressed(0xffffff), Says::nothing);
    EXPECT_EQ(probe.progressed(1), Says::unclear);
}

// Side 1 does nothing until `wakes`, and then takes up to ten packets every 100 us, as they came.
struct Slow {
    FlowTable flows;
    Harness h;
    Time wakes = 0;
    unsigned taken = 0;

    Slow() {
        h.flows = &flows;
        h.start();
        h.fill(0, 0, 32768, 1);
        h.filter = [this](const Sent& s) {
            return s.from == 0 && s.at < wakes ? Fate{wakes - s.at + taken++ / 10 * 100 * kMicrosecond}
                                               : kDeliver;
        };
        ask(1, Operation::rdma_write);  // measures the round trip
        EXPECT_EQ(h.sends(0).size(), 1u);
    }
    void ask(unsigned count, Operation operation) {
        for (unsigned n = 0; n < count; n++)
            EXPECT_EQ(h.post(0, h.request(operation, n, n * 4096), {h.side[0].sge(n * 4096, 4096)}), 0);
        h.run(100 * kMillisecond);
    }
    void pause(Duration duration) {
        wakes = h.now + duration;
        taken = 0;
    }
    std::uint32_t window() { return flows.find(h.side[0].path.destination, 0x1001)->window(); }
    QpCounters counters(int i) const { return h.side[i].qp->counters(); }

    // All that is sent twice is what probes repeat, and the window is not taken from.
    void is_waited_for(unsigned count, Operation operation) {
        pause(5 * kMillisecond);
        const std::uint32_t before = window();
        ask(count, operation);
        EXPECT_GE(window(), before);
        EXPECT_EQ(h.sends(0).size(), count);
        EXPECT_GE(counters(0).probes, 1u);
        EXPECT_EQ(counters(0).retransmitted, counters(0).probes);
        EXPECT_EQ(counters(1).duplicates, counters(0).probes);
    }
};

TEST(ProbeOfASlowPeer, WritesAreNotSentAgain) {
    Slow slow;
    slow.is_waited_for(8, Operation::rdma_write);
    EXPECT_TRUE(slow.h.equal(0, 0, 32768));
}

TEST(ProbeOfASlowPeer, ReadsAreNotAskedForAgain) {
    Slow slow;
    slow.is_waited_for(4, Operation::rdma_read);
}

TEST(ProbeOfASlowPeer, ThePauseIsExpectedAfterwards) {
    Slow slow;
    slow.is_waited_for(4, Operation::rdma_read);
    const auto probes = slow.counters(0).probes;
    slow.pause(5 * kMillisecond);
    slow.ask(4, Operation::rdma_read);
    EXPECT_EQ(slow.counters(0).probes, probes);
}

TEST(ProbeOfALoss, ReadsBehindTheProbedOneAreAskedForSoon) {
    Slow slow;
    Harness& h = slow.h;
    h.log.clear();
    h.filter = [n = 0](const Sent& s) mutable { return s.from == 0 && n++ < 3 ? kDrop : kDeliver; };
    slow.ask(3, Operation::rdma_read);
    ASSERT_EQ(h.sends(0).size(), 3u);
    const auto requests = h.packets(0);
    ASSERT_EQ(requests.size(), 6u);
    EXPECT_EQ(slow.counters(0).probes, 1u);
    EXPECT_EQ(requests[4].at - requests[3].at - 2 * kOneWay, kDoubt);
}

// What is posted while that is waited for does not put it off.
TEST(ProbeOfALoss, IsFoundWhileMoreIsPosted) {
    Slow slow;
    Harness& h = slow.h;
    h.log.clear();
    Time answered = 0;
    h.filter = [&, n = 0](const Sent& s) mutable {
        if (s.from == 1) answered = answered ? answered : s.at + kOneWay;
        return s.from == 0 && n++ < 2 ? kDrop : kDeliver;
    };
    h.after_step = [&, posted = 0u]() mutable {
        if (!answered || h.now < answered || posted == 20) return;
        // Without a word of what comes behind a gap, as from a peer that has refused it once.
        h.filter = [&](const Sent& s) { return s.from == 0 && s.at < answered + kDoubt ? kDrop : kDeliver; };
        h.post(0, h.request(Operation::rdma_write, 100 + posted++), {h.side[0].sge(0, 64)});
    };
    slow.ask(2, Operation::rdma_read);
    const auto all = h.packets(0);
    const auto again =
        std::find_if(all.begin(), all.end(), [&](const Sent& s) { return s.at >= answered + kDoubt; });
    ASSERT_NE(again, all.end());
    EXPECT_EQ(again->at, answered + kDoubt);
    EXPECT_EQ(again->headers.bth.opcode, wire::Opcode::rc_read_request);
}

// 10..11 of 10..20 is repeated because of a NAK.
Probe repaired() {
    Probe probe;
    probe.gap();
    probe.repair();
    EXPECT_TRUE(probe.repairs());
    EXPECT_FALSE(probe.sent(10, 11, 20, false));
    EXPECT_FALSE(probe.repairs());
    return probe;
}

TEST(Repair, TellsWhetherThePeerKeepsWhatLiesBehindAGap) {
    Probe kept = repaired();
    EXPECT_EQ(kept.progressed(15), Says::over);
    EXPECT_TRUE(kept.may_repair());
    EXPECT_FALSE(kept.sent(15, 16, 20, false));
    EXPECT_EQ(kept.progressed(18), Says::over) << "after a silence, too";

    Probe dropped = repaired();
    EXPECT_EQ(dropped.progressed(11), Says::lost);
    EXPECT_TRUE(dropped.may_repair()) << "the next one may have been lost as well";
    dropped.repair();
    dropped.sent(11, 12, 20, false);
    EXPECT_EQ(dropped.progressed(12), Says::lost);
    EXPECT_FALSE(dropped.may_repair());
    dropped.peer_keeps();
    EXPECT_TRUE(dropped.may_repair());
}

TEST(Repair, IsNoProbeWithoutAnAnswer) {
    Probe probe = repaired();
    EXPECT_FALSE(probe.sent(10, 11, 20, false)) << "the first after a silence";
    EXPECT_TRUE(probe.sent(10, 11, 20, false));
}

TEST(Repair, IsOverBeforeItLeaves) {
    Probe probe;
    probe.repair();
    probe.progressed(12);
    EXPECT_FALSE(probe.repairs());
}

}  // namespace
}  // namespace verbena::transport::testing
