// What the flags of requests mean, when acknowledgements leave, and what the states of the queue pair do.
#include <gtest/gtest.h>

#include "transport/rc_harness.h"
#include "transport/rc_responder.h"

namespace verbena::transport::testing {
namespace {

using completion::Status;
using wire::Opcode;

TEST(Flags, InlineIsCopiedAtThePostAndNeedsNoKey) {
    Harness h;
    h.start();
    h.post_receive(1, 7, {h.side[1].sge(0, 100)});
    std::uint8_t first[3] = {1, 2, 3}, second[2] = {4, 5};
    const Sge a{reinterpret_cast<std::uintptr_t>(first), 3, 0},
        b{reinterpret_cast<std::uintptr_t>(second), 2, 0};
    ASSERT_EQ(h.post(0, h.request(Operation::send, 1, 0, kSignaled | kInline), {a, b}), 0);
    std::memset(first, 9, sizeof first);
    std::memset(second, 9, sizeof second);
    h.run();
    EXPECT_EQ(h.sends(0).at(0).status, Status::success);
    const std::uint8_t expected[] = {1, 2, 3, 4, 5, 0};
    EXPECT_EQ(std::memcmp(h.side[1].memory.data(), expected, 6), 0);
}

TEST(Flags, InlineOfSeveralPackets) {
    Harness h;
    h.capabilities.max_inline_data = 1000;
    h.attributes[0].path_mtu = h.attributes[1].path_mtu = 256;
    h.start();
    h.fill(0, 0, 1000, 1);
    ASSERT_EQ(
        h.post(0, h.request(Operation::rdma_write, 1, 0, kSignaled | kInline), {h.side[0].sge(0, 1000)}), 0);
    h.run();
    EXPECT_TRUE(h.equal(0, 0, 1000));
}

// SEND of the buffer that a READ fills: without the fence the old bytes go out.
TEST(Flags, FenceWaitsForTheRead) {
    for (const bool fence : {false, true}) {
        Harness h;
        h.start();
        h.fill(1, 0, 64, 1);
        h.post_receive(1, 7, {h.side[1].sge(8192, 64)});
        h.filter = [](const Sent& s) {
            return s.headers.bth.opcode == Opcode::rc_read_response_only ? Fate{500 * kMicrosecond}
                                                                         : kDeliver;
        };
        ASSERT_EQ(h.post(0, h.request(Operation::rdma_read, 1), {h.side[0].sge(0, 64)}), 0);
        ASSERT_EQ(h.post(0, h.request(Operation::send, 2, 0, kSignaled | (fence ? kFence : 0)),
                         {h.side[0].sge(0, 64)}),
                  0);
        h.run();
        EXPECT_EQ(h.sends(0).size(), 2u);
        EXPECT_EQ(std::memcmp(h.side[1].memory.data() + 8192, h.side[1].memory.data(), 64) == 0, fence);
    }
}

TEST(Flags, SolicitedTravelsWithTheLastPacketOnly) {
    Harness h;
    h.start();
    h.post_receive(1, 7, {h.side[1].sge(0, 4096)});
    h.post_receive(1, 8, {});
    ASSERT_EQ(h.post(0, h.request(Operation::send, 1, 0, kSolicited), {h.side[0].sge(0, 3000)}), 0);
    ASSERT_EQ(h.post(0, h.request(Operation::rdma_write, 2, 0, kSolicited), {h.side[0].sge(0, 10)}), 0);
    ASSERT_EQ(
        h.post(0, h.request(Operation::rdma_write_with_immediate, 2, 0, kSolicited), {h.side[0].sge(0, 10)}),
        0);
    h.run();
    std::vector<bool> solicited;
    for (const Sent& s : h.packets(0)) solicited.push_back(s.headers.bth.solicited);
    EXPECT_EQ(solicited, (std::vector<bool>{false, false, true, false, true}));
}

TEST(Flags, OnlySignaledRequestsComplete) {
    Harness h;
    h.capabilities.max_send_wr = 4;
    h.start();
    for (unsigned n = 0; n < 3; n++)
        ASSERT_EQ(
            h.post(0, h.request(Operation::rdma_write, n, 0, n == 2 ? kSignaled : 0), {h.side[0].sge(0, 10)}),
            0);
    h.run();
    const auto sent = h.sends(0);
    ASSERT_EQ(sent.size(), 1u);
    EXPECT_EQ(sent[0].wr_id, 2u);
    for (unsigned n = 0; n < 4; n++)  // all places are free again
        ASSERT_EQ(h.post(0, h.request(Operation::rdma_write, n, 0, 0), {h.side[0].sge(0, 10)}), 0);
}

TEST(Flags, InvalidateKillsTheRkeyOnly) {
    Harness h;
    h.start();
    h.post_receive(1, 7, {h.side[1].sge(0, 100)});
    SendRequest r = h.request(Operation::send_with_invalidate);
    r.immediate_or_key = h.side[1].keys.rkey;
    ASSERT_EQ(h.post(0, r, {h.side[0].sge(0, 10)}), 0);
    h.run();
    const auto received = h.receives(1);
    ASSERT_EQ(received.size(), 1u);
    EXPECT_EQ(received[0].flags, completion::kHasInvalidatedKey);
    EXPECT_EQ(received[0].immediate, h.side[1].keys.rkey);
    memory::Section section(h.side[1].sections);
    EXPECT_FALSE(
        h.side[1].regions.remote(h.side[1].keys.rkey, 1, h.side[1].address(), 1, memory::kRemoteWrite, 0));
    EXPECT_TRUE(h.side[1].regions.local(h.side[1].keys.lkey, 1, h.side[1].address(), 1, memory::kLocalWrite));
}

TEST(Acknowledgements, WaitForAPushOrTheirDeadline) {
    Harness h;
    h.polls = false;
    h.start();
    const Time began = h.now;
    ASSERT_EQ(h.post(0, h.request(Operation::rdma_write), {h.side[0].sge(0, 10)}), 0);
    h.run();
    ASSERT_EQ(h.packets(1).size(), 1u);
    EXPECT_EQ(h.packets(1)[0].at - began, kOneWay + kAcknowledgeDelay);
}

TEST(Acknowledgements, OneForMany) {
    Harness h;
    h.polls = false;
    h.start();
    for (unsigned n = 0; n < 10; n++)
        ASSERT_EQ(h.post(0, h.request(Operation::rdma_write, n), {h.side[0].sge(0, 10)}), 0);
    h.run();
    ASSERT_EQ(h.packets(1).size(), 1u);
    EXPECT_EQ(h.packets(1)[0].headers.bth.psn, h.start_psn[0] + 9);
    EXPECT_EQ(h.packets(1)[0].headers.aeth.msn, 10u);
    EXPECT_EQ(h.sends(0).size(), 10u);
}

TEST(Acknowledgements, SixteenAreEnough) {
    Harness h;
    h.polls = false;
    h.start();
    const Time began = h.now;
    for (unsigned n = 0; n < 16; n++)
        ASSERT_EQ(h.post(0, h.request(Operation::rdma_write, n), {h.side[0].sge(0, 10)}), 0);
    h.run();
    ASSERT_EQ(h.packets(1).size(), 1u);
    EXPECT_EQ(h.packets(1)[0].at - began, kOneWay);
}

// A peer that disconnects when our message arrives must find its own requests completed.
TEST(Acknowledgements, GoInFrontOfTheReply) {
    Harness h;
    h.polls = false;
    h.start();
    h.post_receive(0, 7, {h.side[0].sge(0, 10)});
    ASSERT_EQ(h.post(0, h.request(Operation::rdma_write), {h.side[0].sge(0, 10)}), 0);
    h.transmit(0, false);
    h.run(kOneWay);
    ASSERT_TRUE(h.packets(1).empty());
    SendRequest reply;
    reply.operation = Operation::send;
    ASSERT_EQ(h.post(1, reply, {h.side[1].sge(0, 10)}), 0);
    h.transmit(1, false);
    const auto out = h.packets(1);
    ASSERT_EQ(out.size(), 2u);
    EXPECT_EQ(out[0].headers.bth.opcode, Opcode::rc_ack);
    EXPECT_EQ(out[1].headers.bth.opcode, Opcode::rc_send_only);
}

TEST(Acknowledgements, LeaveEvenWhenTheQueuePairGoesToError) {
    Harness h;
    h.polls = false;
    h.start();
    ASSERT_EQ(h.post(0, h.request(Operation::rdma_write), {h.side[0].sge(0, 10)}), 0);
    h.run(kOneWay);
    ASSERT_EQ(h.modify(1, QpState::error), 0);
    h.run();
    EXPECT_EQ(h.sends(0).at(0).status, Status::success);
}

TEST(Acknowledgements, NeverOvertakeReadResponses) {
    Harness h;
    h.start();
    ASSERT_EQ(h.post(0, h.request(Operation::rdma_read, 1), {h.side[0].sge(0, 5000)}), 0);
    ASSERT_EQ(h.post(0, h.request(Operation::rdma_write, 2, 8192), {h.side[0].sge(8192, 10)}), 0);
    h.run();
    const auto out = h.packets(1);
    ASSERT_EQ(out.size(), 6u);
    EXPECT_EQ(out[0].headers.bth.opcode, Opcode::rc_read_response_first);
    EXPECT_EQ(out[4].headers.bth.opcode, Opcode::rc_read_response_last);
    EXPECT_EQ(out[5].headers.bth.opcode, Opcode::rc_ack);
    EXPECT_EQ(out[0].headers.aeth.msn, 1u);
    EXPECT_EQ(out[5].headers.aeth.msn, 2u);
}

TEST(Limits, OutstandingReadsAndAtomics) {
    Harness h;
    h.attributes[0].max_rd_atomic = 2;
    h.start();
    for (unsigned n = 0; n < 5; n++)
        ASSERT_EQ(h.post(0, h.request(n % 2 ? Operation::fetch_add : Operation::rdma_read, n),
                         {h.side[0].sge(0, 8)}),
                  0);
    h.transmit(0, false);
    EXPECT_EQ(h.packets(0).size(), 2u);
    h.run();
    EXPECT_EQ(h.sends(0).size(), 5u);
}

// IBA 9.4.4: a READ that is several requests on the wire is one for its program.
TEST(Limits, OneReadAtATimeIsEnoughForAPeerThatTakesOne) {
    Harness h;
    h.attributes[1].max_destination_rd_atomic = 1;
    h.start();
    h.fill(1, 0, 1 << 20, 3);
    for (unsigned n = 0; n < 3; n++) {
        ASSERT_EQ(h.post(0, h.request(Operation::rdma_read), {h.side[0].sge(0, 1 << 20)}), 0);
        h.run();
        const auto done = h.sends(0);
        ASSERT_EQ(done.size(), 1u);
        ASSERT_EQ(done[0].status, Status::success);
        EXPECT_TRUE(h.equal(0, 0, 1 << 20));
    }
    std::size_t requests = 0;
    for (const Sent& sent : h.packets(0)) requests += sent.headers.bth.opcode == Opcode::rc_read_request;
    EXPECT_GT(requests, 3u);
}

TEST(Limits, AWindowOfBytes) {
    Harness h;
    h.attributes[0].path_mtu = h.attributes[1].path_mtu = 4096;
    h.start();
    ASSERT_EQ(h.post(0, h.request(Operation::rdma_write), {h.side[0].sge(0, 1 << 20)}), 0);
    h.transmit(0, false);
    const std::size_t first = h.packets(0).size();
    EXPECT_LE(first * 4096, 65536u);
    EXPECT_GE(first, 10u);
    EXPECT_TRUE(h.packets(0).back().headers.bth.ack_request);
    h.run();
    EXPECT_EQ(h.sends(0).size(), 1u);
    EXPECT_EQ(h.packets(0).size(), 256u);
}

TEST(Limits, BudgetOfATransmit) {
    Harness h;
    h.start();
    ASSERT_EQ(h.post(0, h.request(Operation::rdma_write), {h.side[0].sge(0, 10240)}), 0);
    EXPECT_FALSE(h.side[0].qp->transmit(h.side[0], h.now, 4, false));
    EXPECT_EQ(h.packets(0).size(), 4u);
    EXPECT_TRUE(h.side[0].qp->transmit(h.side[0], h.now, 6, false));
    EXPECT_EQ(h.packets(0).size(), 10u);
}

TEST(States, ErrorFlushesBothQueuesInOrderAndLaterPostsToo) {
    Harness h;
    h.start();
    h.side[1].asleep = true;
    for (unsigned n = 0; n < 3; n++) {
        ASSERT_EQ(h.post(0, h.request(Operation::rdma_write, n, 0, 0), {h.side[0].sge(0, 10)}), 0);
        h.post_receive(0, 10 + n, {});
    }
    h.transmit(0, false);
    ASSERT_EQ(h.modify(0, QpState::error), 0);
    ASSERT_EQ(h.post(0, h.request(Operation::rdma_read, 3), {h.side[0].sge(0, 10)}), 0);
    h.post_receive(0, 13, {});
    const auto sent = h.sends(0), received = h.receives(0);
    ASSERT_EQ(sent.size(), 4u);
    ASSERT_EQ(received.size(), 4u);
    for (unsigned n = 0; n < 4; n++) {
        EXPECT_EQ(sent[n].wr_id, n);
        EXPECT_EQ(sent[n].status, Status::work_request_flushed);
        EXPECT_EQ(received[n].wr_id, 10 + n);
        EXPECT_EQ(received[n].status, Status::work_request_flushed);
    }
    EXPECT_EQ(h.side[0].qp->next_deadline(), kNever);
}

TEST(States, ResetForgetsEverythingAndConnectsAgain) {
    Harness h;
    h.start();
    h.side[1].asleep = true;
    ASSERT_EQ(h.post(0, h.request(Operation::rdma_write), {h.side[0].sge(0, 10)}), 0);
    h.post_receive(0, 10, {});
    h.run(100 * kMicrosecond);  // the packet is gone: ghosts are the timewait's business
    for (int i = 0; i < 2; i++) {
        ASSERT_EQ(h.modify(i, QpState::error), 0);
        EXPECT_EQ(h.side[i].send_cq.waiting() + h.side[i].receive_cq.waiting(), i == 0 ? 2u : 0u);
        ASSERT_EQ(h.modify(i, QpState::reset), 0);
    }
    EXPECT_EQ(h.sends(0).size() + h.receives(0).size(), 0u);
    Attributes a;
    h.side[0].qp->query(a);
    EXPECT_EQ(a.destination_qp, 0u);
    EXPECT_EQ(a.capabilities.max_send_wr, 64u);
    h.side[1].asleep = false;
    for (int i = 0; i < 2; i++) h.connect(i);
    h.fill(0, 0, 10, 1);
    ASSERT_EQ(h.post(0, h.request(Operation::rdma_write), {h.side[0].sge(0, 10)}), 0);
    h.run();
    EXPECT_EQ(h.sends(0).at(0).status, Status::success);
    EXPECT_TRUE(h.equal(0, 0, 10));
}

TEST(States, DrainFinishesWhatStartedAndHoldsTheRest) {
    Harness h;
    h.attributes[0].path_mtu = h.attributes[1].path_mtu = 4096;
    h.start();
    ASSERT_EQ(h.post(0, h.request(Operation::rdma_write, 1), {h.side[0].sge(0, 200000)}), 0);
    ASSERT_EQ(h.post(0, h.request(Operation::rdma_write, 2), {h.side[0].sge(0, 10)}), 0);
    h.transmit(0, false);
    ASSERT_EQ(h.modify(0, QpState::sqd, kAttrState | kAttrSqdAsyncNotify), 0);
    Attributes a;
    h.side[0].qp->query(a);
    EXPECT_TRUE(a.draining);
    EXPECT_TRUE(h.side[0].events.empty());
    h.run();
    EXPECT_EQ(h.side[0].events, std::vector<QpEvent>{QpEvent::send_queue_drained});
    EXPECT_EQ(h.sends(0).size(), 1u);
    h.side[0].qp->query(a);
    EXPECT_FALSE(a.draining);
    ASSERT_EQ(h.modify(0, QpState::rts, kAttrState), 0);
    ASSERT_EQ(h.modify(0, QpState::sqd, kAttrState), 0);
    EXPECT_EQ(h.side[0].events.size(), 1u) << "it was not asked for this time";
    ASSERT_EQ(h.post(0, h.request(Operation::rdma_write, 3), {h.side[0].sge(0, 10)}), 0);
    h.run();
    EXPECT_EQ(h.sends(0).size(), 0u);
    ASSERT_EQ(h.modify(0, QpState::rts), 0);
    h.run();
    EXPECT_EQ(h.sends(0).size(), 2u);
    EXPECT_EQ(h.side[0].events.size(), 1u);
}

TEST(States, FirstPacketInRtrIsReportedOnce) {
    Harness h;
    for (int i = 0; i < 2; i++) h.make(i);
    h.connect(0);
    h.to_init(1);
    h.to_rtr(1);
    ASSERT_EQ(h.post(0, h.request(Operation::rdma_write), {h.side[0].sge(0, 3000)}), 0);
    h.run();
    EXPECT_EQ(h.sends(0).size(), 1u);
    EXPECT_EQ(h.side[1].events, std::vector<QpEvent>{QpEvent::communication_established});
}

TEST(States, PacketsBeforeRtrAreDropped) {
    Harness h;
    for (int i = 0; i < 2; i++) h.make(i);
    h.connect(0);
    h.to_init(1);
    ASSERT_EQ(h.post(0, h.request(Operation::rdma_write), {h.side[0].sge(0, 30)}), 0);
    h.run(5 * kMillisecond);
    EXPECT_EQ(h.side[1].qp->counters().dropped, 1u);
    h.to_rtr(1);
    h.run();
    EXPECT_EQ(h.sends(0).size(), 1u);
}

TEST(States, SharedReceiveQueueReportsTheLastRequest) {
    Harness h;
    h.shared_receive_queue = true;
    h.start();
    h.post_receive(1, 7, {h.side[1].sge(0, 2000)});
    h.post_receive(1, 8, {});
    wire::Headers headers;
    headers.bth.opcode = Opcode::rc_send_first;
    headers.bth.psn = h.start_psn[0];
    h.inject(1, headers, std::vector<std::uint8_t>(1024));
    ASSERT_EQ(h.modify(1, QpState::error), 0);
    const auto received = h.receives(1);
    ASSERT_EQ(received.size(), 1u);  // the one in progress; 8 stays for the others
    EXPECT_EQ(received[0].wr_id, 7u);
    EXPECT_EQ(h.side[1].events, std::vector<QpEvent>{QpEvent::last_wqe_reached});
    EXPECT_EQ(h.side[1].receives->waiting(), 1u);
}

TEST(States, QueryReturnsWhatModifySet) {
    Harness h;
    h.start();
    Attributes a;
    h.side[0].qp->query(a);
    EXPECT_EQ(a.state, QpState::rts);
    EXPECT_EQ(a.path_mtu, 1024u);
    EXPECT_EQ(a.sq_psn, h.start_psn[0]);
    EXPECT_EQ(a.rq_psn, h.start_psn[1]);
    EXPECT_EQ(a.destination_qp, 0x1001u);
    EXPECT_EQ(a.timeout, 14);
    EXPECT_EQ(a.retry_count, 7);
    EXPECT_EQ(a.rnr_retry, 7);
    EXPECT_EQ(a.min_rnr_timer, 12);
    EXPECT_EQ(a.max_rd_atomic, 4);
    EXPECT_EQ(a.max_destination_rd_atomic, 4);
    EXPECT_EQ(a.access, Harness::defaults().access);
    EXPECT_EQ(a.path, h.side[0].path);
    EXPECT_EQ(a.port, 1);
}

TEST(States, OtherServicesAreNotThereYet) {
    QpSetup setup;
    setup.service = Service::raw_packet;
    EXPECT_EQ(QueuePair::create(setup), nullptr);
    EXPECT_EQ(errno, EOPNOTSUPP);
}

}  // namespace
}  // namespace verbena::transport::testing
