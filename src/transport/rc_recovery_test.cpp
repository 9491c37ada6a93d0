// Loss, duplicates, waiting and giving up: what goes over the wire and when.
#include <gtest/gtest.h>

#include "transport/rc_harness.h"
#include "transport/rc_responder.h"
#include "transport/retransmission.h"

namespace verbena::transport::testing {
namespace {

using completion::Status;
using wire::Opcode;

TEST(Loss, NakNamesTheGapAndItsPacketFollows) {
    Harness h;
    h.start();
    h.fill(0, 0, 4096, 1);
    h.filter = lose(0, Opcode::rc_write_middle, 0);
    ASSERT_EQ(h.post(0, h.request(Operation::rdma_write), {h.side[0].sge(0, 4096)}), 0);
    h.run();
    ASSERT_EQ(h.sends(0).size(), 1u);
    EXPECT_TRUE(h.equal(0, 0, 4096));
    const auto answers = h.packets(1);
    ASSERT_EQ(answers.size(), 2u);
    EXPECT_EQ(answers[0].headers.aeth.syndrome, 0x60);
    EXPECT_EQ(answers[0].headers.bth.psn, h.start_psn[0] + 1);
    EXPECT_EQ(answers[1].headers.aeth.syndrome, 0x1f);
    EXPECT_EQ(answers[1].headers.bth.psn, h.start_psn[0] + 3);
    EXPECT_EQ(answers[1].headers.aeth.msn, 1u);
    // First, middle, middle, last; then what is missing.
    EXPECT_EQ(h.packets(0).size(), 5u);
    EXPECT_EQ(h.side[0].qp->counters().timeouts, 0u);
}

TEST(Loss, RetryCountZeroSurvivesLoss) {
    for (int nth = 0; nth < 8; nth++) {
        Harness h;
        h.attributes[0].retry_count = 0;
        h.attributes[0].timeout = 19;
        h.start();
        h.fill(0, 0, 8192, 1);
        h.filter = [nth, n = 0](const Sent& s) mutable {
            return s.from == 0 && n++ == nth ? kDrop : kDeliver;
        };
        ASSERT_EQ(h.post(0, h.request(Operation::rdma_write), {h.side[0].sge(0, 8192)}), 0);
        h.run();
        const auto sent = h.sends(0);
        ASSERT_EQ(sent.size(), 1u);
        EXPECT_EQ(sent[0].status, Status::success);
        EXPECT_TRUE(h.equal(0, 0, 8192));
    }
}

TEST(Loss, LostAcknowledgementIsProbedFor) {
    Harness h;
    h.attributes[0].retry_count = 0;
    h.start();
    h.post_receive(1, 7, {h.side[1].sge(0, 100)});
    h.filter = lose(1, Opcode::rc_ack);
    const Time began = h.now;
    ASSERT_EQ(h.post(0, h.request(Operation::send), {h.side[0].sge(0, 100)}), 0);
    h.run(30 * kMillisecond);
    ASSERT_EQ(h.sends(0).size(), 1u);
    EXPECT_EQ(h.receives(1).size(), 1u);
    EXPECT_EQ(count(h, 0, Opcode::rc_send_only), 2);
    EXPECT_GE(h.log[2].at - began, kProbeUnmeasured);
    EXPECT_EQ(h.side[1].qp->counters().duplicates, 1u);
    EXPECT_EQ(h.side[0].qp->counters().probes, 1u);
}

TEST(Loss, WholeTailIsRecoveredByOneProbe) {
    Harness h;
    h.start();
    h.fill(0, 0, 8192, 5);
    h.filter = [n = 0](const Sent& s) mutable {
        return s.from == 0 && ++n >= 4 && n <= 8 ? kDrop : kDeliver;
    };
    ASSERT_EQ(h.post(0, h.request(Operation::rdma_write), {h.side[0].sge(0, 8192)}), 0);
    h.run(60 * kMillisecond);
    ASSERT_EQ(h.sends(0).size(), 1u);
    EXPECT_TRUE(h.equal(0, 0, 8192));
    EXPECT_EQ(h.side[0].qp->counters().probes, 1u);
}

TEST(Loss, ReadIsResumedAtTheFirstMissingByte) {
    Harness h;
    h.start();
    h.fill(1, 0, 5000, 3);
    h.filter = lose(1, Opcode::rc_read_response_middle, 1);
    ASSERT_EQ(h.post(0, h.request(Operation::rdma_read), {h.side[0].sge(0, 5000)}), 0);
    h.run();
    ASSERT_EQ(h.sends(0).size(), 1u);
    EXPECT_TRUE(h.equal(0, 0, 5000));
    const auto requests = h.packets(0);
    ASSERT_EQ(requests.size(), 2u);
    EXPECT_EQ(requests[1].headers.bth.psn, h.start_psn[0] + 2);
    EXPECT_EQ(requests[1].headers.reth.virtual_address, h.side[1].address(2048));
    EXPECT_EQ(requests[1].headers.reth.length, 5000u - 2048);
    EXPECT_EQ(h.side[1].qp->counters().duplicates, 1u);
}

TEST(Loss, AcknowledgementPastAReadIsAnImpliedNak) {
    Harness h;
    h.start();
    h.fill(1, 0, 100, 3);
    h.filter = lose(1, Opcode::rc_read_response_only);
    ASSERT_EQ(h.post(0, h.request(Operation::rdma_read, 1), {h.side[0].sge(0, 100)}), 0);
    ASSERT_EQ(h.post(0, h.request(Operation::rdma_write, 2, 8192), {h.side[0].sge(0, 100)}), 0);
    h.run(5 * kMillisecond);
    const auto sent = h.sends(0);
    ASSERT_EQ(sent.size(), 2u);
    EXPECT_EQ(sent[0].wr_id, 1u);
    EXPECT_TRUE(h.equal(0, 0, 100));
    EXPECT_EQ(h.side[0].qp->counters().probes, 0u);
}

TEST(NotReady, RnrNakThenRepetition) {
    Harness h;
    h.start();
    ASSERT_EQ(h.post(0, h.request(Operation::send), {h.side[0].sge(0, 64)}), 0);
    h.run(100 * kMillisecond);
    const auto answers = h.packets(1);
    ASSERT_GE(answers.size(), 3u);
    EXPECT_EQ(answers[0].headers.aeth.syndrome, 0x20 | 12);
    EXPECT_EQ(answers[0].headers.bth.psn, h.start_psn[0]);
    const auto sends = h.packets(0);
    EXPECT_GE(sends[1].at - answers[0].at, rnr_wait(12));
    h.post_receive(1, 7, {h.side[1].sge(0, 64)});
    h.run(100 * kMillisecond);
    EXPECT_EQ(h.sends(0).size(), 1u);
    EXPECT_EQ(h.receives(1).size(), 1u);
}

TEST(NotReady, TellsWhatWaits) {
    Harness h;
    h.start();
    const QueuePair& qp = *h.side[0].qp;
    EXPECT_EQ(qp.standing(), (Standing{.psn = h.start_psn[0]}));
    ASSERT_EQ(h.post(0, h.request(Operation::send, 5), {h.side[0].sge(0, 64)}), 0);
    ASSERT_EQ(h.post(0, h.request(Operation::send, 6), {h.side[0].sge(0, 64)}), 0);
    h.run(100 * kMillisecond);
    const Standing waits{.sends = 2, .signaled = true, .waits = true, .wr_id = 5, .psn = h.start_psn[0]};
    EXPECT_EQ(qp.standing(), waits);
    EXPECT_EQ(h.side[1].qp->standing(), (Standing{.psn = h.start_psn[1]}));
    for (unsigned n = 0; n < 2; n++) h.post_receive(1, n, {h.side[1].sge(0, 64)});
    h.run(100 * kMillisecond);
    EXPECT_EQ(qp.standing(), (Standing{.psn = h.start_psn[0] + 2}));
}

TEST(NotReady, RetriesAreCounted) {
    Harness h;
    h.attributes[0].rnr_retry = 2;
    h.start();
    ASSERT_EQ(h.post(0, h.request(Operation::send), {h.side[0].sge(0, 64)}), 0);
    h.run(1 * kSecond);
    const auto sent = h.sends(0);
    ASSERT_EQ(sent.size(), 1u);
    EXPECT_EQ(sent[0].status, Status::rnr_retry_exceeded);
    EXPECT_EQ(sent[0].vendor_error, 0x0202u);
    EXPECT_EQ(count(h, 0, Opcode::rc_send_only), 3);
    EXPECT_EQ(h.side[1].qp->state(), QpState::rts);
}

TEST(NotReady, AReceiveThatComesALittleLateCostsNothing) {
    Harness h;
    h.attributes[0].rnr_retry = h.attributes[0].retry_count = 0;
    h.attributes[1].min_rnr_timer = 0;  // 655 ms
    h.start();
    const Time began = h.now;
    h.fill(0, 0, 64, 1);
    ASSERT_EQ(h.post(0, h.request(Operation::send), {h.side[0].sge(0, 64)}), 0);
    h.run(kReceiverPatience - kReceiverPatienceStep);
    EXPECT_EQ(h.packets(1).size(), 0u);
    h.post_receive(1, 7, {h.side[1].sge(0, 64)});
    h.run(1 * kMillisecond);
    ASSERT_EQ(h.sends(0).size(), 1u);
    EXPECT_EQ(h.sends(0)[0].status, Status::success);
    EXPECT_TRUE(h.equal(0, 0, 64));
    EXPECT_LT(h.receives(1).at(0).timestamp, static_cast<std::uint64_t>(began + 2 * kReceiverPatience));
    EXPECT_EQ(h.side[1].qp->counters().rnr_naks_sent, 0u);
}

// What comes behind is dropped, so the requester has to come back: soon, since the receive is there.
TEST(NotReady, AReceiveThatComesALittleLateForSeveralMessagesCostsNoFullTimer) {
    Harness h;
    h.attributes[1].min_rnr_timer = 0;  // 655 ms
    h.start();
    for (unsigned n = 0; n < 3; n++)
        ASSERT_EQ(h.post(0, h.request(Operation::send, n), {h.side[0].sge(n * 64, 64)}), 0);
    h.run(300 * kMicrosecond);
    for (unsigned n = 0; n < 3; n++) h.post_receive(1, n, {h.side[1].sge(n * 64, 64)});
    h.run(1 * kMillisecond);
    EXPECT_EQ(h.sends(0).size(), 3u);
    EXPECT_EQ(h.receives(1).size(), 3u);
    EXPECT_EQ(h.packets(1)[0].headers.aeth.syndrome, 0x21);
}

TEST(NotReady, WriteWithImmediateWritesOnce) {
    Harness h;
    h.start();
    h.fill(0, 0, 3000, 1);
    ASSERT_EQ(h.post(0, h.request(Operation::rdma_write_with_immediate), {h.side[0].sge(0, 3000)}), 0);
    h.run(10 * kMillisecond);
    h.post_receive(1, 7, {});
    h.run();
    ASSERT_EQ(h.sends(0).size(), 1u);
    const auto received = h.receives(1);
    ASSERT_EQ(received.size(), 1u);
    EXPECT_EQ(received[0].byte_length, 3000u);
    EXPECT_TRUE(h.equal(0, 0, 3000));
    EXPECT_EQ(count(h, 0, Opcode::rc_write_first), 1);
}

TEST(Timeout, RetriesThenGivesUp) {
    Harness h;
    h.attributes[0].timeout = 12;  // 16.8 ms; the floor is more
    h.attributes[0].retry_count = 3;
    h.start();
    h.filter = [](const Sent&) { return kDrop; };
    const Time began = h.now;
    ASSERT_EQ(h.post(0, h.request(Operation::send), {h.side[0].sge(0, 64)}), 0);
    h.run();
    const auto sent = h.sends(0);
    ASSERT_EQ(sent.size(), 1u);
    EXPECT_EQ(sent[0].status, Status::retry_exceeded);
    EXPECT_EQ(sent[0].vendor_error, 0x0201u);
    EXPECT_EQ(static_cast<Time>(sent[0].timestamp) - began, 4 * kAcknowledgeTimeoutFloor);
    EXPECT_EQ(h.side[0].qp->counters().timeouts, 4u);
    EXPECT_EQ(h.side[0].qp->state(), QpState::error);
    EXPECT_EQ(h.side[0].qp->next_deadline(), kNever);
}

TEST(Timeout, ZeroWaitsForEver) {
    Harness h;
    h.attributes[0].timeout = 0;
    h.attributes[0].retry_count = 0;
    h.start();
    h.side[1].asleep = true;
    ASSERT_EQ(h.post(0, h.request(Operation::rdma_write), {h.side[0].sge(0, 64)}), 0);
    h.run(100 * kSecond);
    EXPECT_EQ(h.side[0].qp->state(), QpState::rts);
    h.side[1].asleep = false;
    h.run(3 * kSecond);
    EXPECT_EQ(h.sends(0).size(), 1u);
}

TEST(Timeout, APeerThatStandsStillFor300MillisecondsIsSurvivedWithRetryZero) {
    Harness h;
    h.attributes[0].timeout = 19;
    h.attributes[0].retry_count = 0;
    h.start();
    h.side[1].asleep = true;
    ASSERT_EQ(h.post(0, h.request(Operation::rdma_write), {h.side[0].sge(0, 64)}), 0);
    h.run(300 * kMillisecond);
    EXPECT_LT(h.packets(0).size(), 12u);
    h.side[1].asleep = false;
    h.run();
    ASSERT_EQ(h.sends(0).size(), 1u);
}

TEST(Timeout, ProgressReloadsTheCounter) {
    Harness h;
    h.attributes[0].retry_count = 1;
    h.attributes[0].timeout = 10;
    h.start();
    // Each message is lost for longer than the floor.
    Time blocked_until = h.now + kAcknowledgeTimeoutFloor + 6 * kMillisecond;
    h.filter = [&](const Sent& s) { return s.at < blocked_until ? kDrop : kDeliver; };
    for (unsigned n = 0; n < 4; n++) {
        ASSERT_EQ(h.post(0, h.request(Operation::rdma_write, n), {h.side[0].sge(0, 64)}), 0);
        h.run(4 * kAcknowledgeTimeoutFloor);
        ASSERT_EQ(h.sends(0).at(0).status, Status::success) << n;
        blocked_until = h.now + kAcknowledgeTimeoutFloor + 6 * kMillisecond;
    }
    EXPECT_EQ(h.side[0].qp->counters().timeouts, 4u);
}

TEST(Timers, RnrTable) {
    EXPECT_EQ(rnr_wait(0), 655'360 * kMicrosecond);
    EXPECT_EQ(rnr_wait(1), 10 * kMicrosecond);
    EXPECT_EQ(rnr_wait(12), 640 * kMicrosecond);
    EXPECT_EQ(rnr_wait(14), 1'280 * kMicrosecond);
    EXPECT_EQ(rnr_wait(31), 491'520 * kMicrosecond);
    for (std::uint8_t i = 2; i < 32; i++) EXPECT_GT(rnr_wait(i), rnr_wait(i - 1));
}

TEST(Timers, AnIdlePairHasNone) {
    Harness h;
    h.start();
    ASSERT_EQ(h.post(0, h.request(Operation::rdma_write), {h.side[0].sge(0, 64)}), 0);
    h.run();
    EXPECT_EQ(h.side[0].qp->next_deadline(), kNever);
    EXPECT_EQ(h.side[1].qp->next_deadline(), kNever);
}

// A peer that says when to ask again is there: only silence from then on counts.
TEST(RetransmissionCounters, AnRnrNakReloadsTheTimeouts) {
    Retransmission r;
    r.configure(14, 1, kRnrRetryForEver);
    r.sent(Time{0});
    EXPECT_TRUE(r.take_retry());
    EXPECT_TRUE(r.take_rnr_retry());
    EXPECT_TRUE(r.take_retry());
    EXPECT_FALSE(r.take_retry());
}

}  // namespace
}  // namespace verbena::transport::testing
