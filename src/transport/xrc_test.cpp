// XRC (annex A14): requests name the receive queue, whose protection domain and completion queue count.
#include <gtest/gtest.h>

#include <cerrno>

#include "transport/rc_harness.h"

namespace verbena::transport::testing {
namespace {

using completion::Status;

struct Xrc : ::testing::Test, Harness {
    Xrc() {
        service = Service::xrc_send;
        signal_all = true;
        start();
    }
    SendRequest request(Operation operation, std::uint32_t queue = kXrcQueue) const {
        SendRequest r = Harness::request(operation, 1, 4096);
        r.immediate_or_key = 0x11223344;
        r.remote_srq = queue;
        return r;
    }
    void arrives(int at, wire::Opcode opcode, std::uint32_t psn, const std::vector<std::uint8_t>& payload) {
        wire::Headers headers;
        headers.bth.opcode = opcode;
        headers.bth.psn = psn;
        headers.xrceth.srqn = kXrcQueue;
        inject(at, headers, payload);
    }
    Status outcome() {
        const auto sent = sends(0);
        EXPECT_FALSE(sent.empty());
        return sent.empty() ? Status::general_error : sent[0].status;
    }
};

TEST_F(Xrc, SendsCompleteToTheQueueTheyName) {
    for (const std::uint32_t length : {0u, 1u, 1024u, 5000u}) {
        fill(0, 0, length, length);
        post_receive(1, length, {side[1].sge(0, 8192)});
        ASSERT_EQ(post(0, request(Operation::send_with_immediate), {side[0].sge(0, length)}), 0);
        run();
        const auto received = receives(1);
        ASSERT_EQ(received.size(), 1u);
        EXPECT_EQ(received[0].wr_id, length);
        EXPECT_EQ(received[0].byte_length, length);
        EXPECT_EQ(received[0].qp_number, side[1].qp->number());
        EXPECT_EQ(outcome(), Status::success);
        EXPECT_TRUE(equal(0, 0, length));
    }
    for (const Sent& s : packets(0)) EXPECT_EQ(s.headers.xrceth.srqn, kXrcQueue);
    for (const Sent& s : log) EXPECT_EQ(wire::info(s.headers.bth.opcode).service, wire::Service::xrc);
}

TEST_F(Xrc, WritesReadsAndAtomicsWork) {
    fill(0, 0, 5000, 1);
    ASSERT_EQ(post(0, request(Operation::rdma_write), {side[0].sge(0, 5000)}), 0);
    run();
    EXPECT_EQ(outcome(), Status::success);
    EXPECT_TRUE(equal(0, 4096, 5000));
    ASSERT_EQ(post(0, request(Operation::rdma_read), {side[0].sge(16384, 5000)}), 0);
    run();
    EXPECT_EQ(outcome(), Status::success);
    EXPECT_TRUE(equal(16384, 4096, 5000));
    std::uint64_t before = 0, after = 0;
    std::memcpy(&before, side[1].memory.data() + 4096, 8);
    SendRequest add = request(Operation::fetch_add);
    add.compare_add = 5;
    ASSERT_EQ(post(0, add, {side[0].sge(0, 8)}), 0);
    run();
    EXPECT_EQ(outcome(), Status::success);
    std::memcpy(&after, side[1].memory.data() + 4096, 8);
    EXPECT_EQ(after, before + 5);
    std::memcpy(&after, side[0].memory.data(), 8);
    EXPECT_EQ(after, before);
}

TEST_F(Xrc, LossesAreRepaired) {
    unsigned n = 0;
    filter = [&n](const Sent&) { return ++n % 5 == 0 ? kDrop : kDeliver; };
    fill(0, 0, 100'000, 3);
    post_receive(1, 9, {side[1].sge(200'000, 100'000)});
    ASSERT_EQ(post(0, request(Operation::send), {side[0].sge(0, 100'000)}), 0);
    run();
    EXPECT_EQ(outcome(), Status::success);
    EXPECT_EQ(receives(1).size(), 1u);
    EXPECT_TRUE(equal(0, 200'000, 100'000));
}

TEST_F(Xrc, WaitsForAReceive) {
    ASSERT_EQ(post(0, request(Operation::send), {side[0].sge(0, 100)}), 0);
    run(100 * kMicrosecond);
    std::array<std::uint32_t, ReceiveQueue::kMaxWaiters> waiters;
    ASSERT_EQ(side[1].receives->post({5, {}}), 0);
    ASSERT_EQ(side[1].receives->take_waiters(waiters), 1u);
    EXPECT_EQ(waiters[0], side[1].qp->number());
    std::uint64_t id;
    ASSERT_TRUE(side[1].receives->take_id(id));
    post_receive(1, 6, {side[1].sge(0, 100)});
    run();
    EXPECT_EQ(outcome(), Status::success);
    EXPECT_EQ(receives(1).size(), 1u);
}

TEST_F(Xrc, AnUnknownQueueIsAnInvalidRequest) {
    ASSERT_EQ(post(0, request(Operation::send, 0x78), {side[0].sge(0, 100)}), 0);
    run();
    EXPECT_EQ(outcome(), Status::remote_invalid_request);
    EXPECT_EQ(side[1].qp->state(), QpState::error);
    EXPECT_EQ(side[1].events, std::vector{QpEvent::request_error});
}

TEST_F(Xrc, AQueueOfAnotherDomainIsAnInvalidRequest) {
    xrc_queues.queues[0x78] = std::make_shared<ReceiveQueue>(
        4, 1, SharedQueueSetup{.pd = 1, .cq = &side[1].receive_cq, .xrc_domain = kXrcDomain + 1});
    ASSERT_EQ(post(0, request(Operation::rdma_write, 0x78), {side[0].sge(0, 100)}), 0);
    run();
    EXPECT_EQ(outcome(), Status::remote_invalid_request);
}

TEST_F(Xrc, ABasicSharedQueueIsNoXrcQueue) {
    xrc_queues.queues[0x78] = std::make_shared<ReceiveQueue>(4, 1, SharedQueueSetup{.pd = 1});
    ASSERT_EQ(post(0, request(Operation::send, 0x78), {side[0].sge(0, 100)}), 0);
    run();
    EXPECT_EQ(outcome(), Status::remote_invalid_request);
}

TEST_F(Xrc, RemoteKeysAreOfTheQueuesDomain) {
    xrc_queues.queues[0x78] = std::make_shared<ReceiveQueue>(
        4, 1, SharedQueueSetup{.pd = 2, .cq = &side[1].receive_cq, .xrc_domain = kXrcDomain});
    ASSERT_EQ(post(0, request(Operation::rdma_write, 0x78), {side[0].sge(0, 100)}), 0);
    run();
    EXPECT_EQ(outcome(), Status::remote_access_error);
    EXPECT_EQ(side[1].events, std::vector{QpEvent::access_error});
}

// Its completion queue may be gone: nothing is completed any more.
TEST_F(Xrc, ACloseInTheMiddleOfAMessageIsSilent) {
    post_receive(1, 5, {side[1].sge(0, 8192)});
    arrives(1, wire::Opcode::xrc_send_first, start_psn[0], std::vector<std::uint8_t>(1024, 1));
    side[1].receives->close();
    arrives(1, wire::Opcode::xrc_send_last, start_psn[0] + 1, {1, 2, 3, 4});
    EXPECT_TRUE(receives(1).empty());
}

TEST_F(Xrc, ATargetHasNoSendQueueAndAnInitiatorAnswersNothing) {
    EXPECT_EQ(post(1, request(Operation::send), {side[1].sge(0, 100)}), EINVAL);
    arrives(0, wire::Opcode::xrc_send_only, start_psn[1], {1, 2, 3, 4});
    run();
    EXPECT_TRUE(packets(0).empty());
}

TEST_F(Xrc, ATargetHoldsNoAcknowledgementBack) {
    polls = false;
    const Time began = now;
    post_receive(1, 5, {side[1].sge(0, 100)});
    ASSERT_EQ(post(0, request(Operation::send), {side[0].sge(0, 10)}), 0);
    run();
    ASSERT_EQ(packets(1).size(), 1u);
    EXPECT_EQ(packets(1)[0].at - began, kOneWay);
}

TEST_F(Xrc, ATargetAcknowledgesBeforeItsProgramSeesTheMessage) {
    bool seen_before = false;
    filter = [&](const Sent& s) {
        seen_before |= s.from == 1 && side[1].receive_cq.waiting() > 0;
        return kDeliver;
    };
    after_step = [&] {
        if (packets(1).empty()) seen_before |= side[1].receive_cq.waiting() > 0;
    };
    post_receive(1, 5, {side[1].sge(0, 100)});
    ASSERT_EQ(post(0, request(Operation::send), {side[0].sge(0, 10)}), 0);
    run();
    EXPECT_FALSE(seen_before);
    ASSERT_EQ(packets(1).size(), 1u);
    EXPECT_EQ(receives(1).size(), 1u);
}

TEST_F(Xrc, WhatATargetReceivedBeforeItFailsIsCompletedFirst) {
    for (std::uint64_t id : {5u, 6u}) post_receive(1, id, {side[1].sge(0, 100)});
    arrives(1, wire::Opcode::xrc_send_only, start_psn[0], {1, 2, 3, 4});
    arrives(1, wire::Opcode::xrc_send_only, start_psn[0] + 1, std::vector<std::uint8_t>(200, 1));
    const auto received = receives(1);
    ASSERT_EQ(received.size(), 2u);
    EXPECT_EQ(received[0].wr_id, 5u);
    EXPECT_EQ(received[0].status, Status::success);
    EXPECT_EQ(received[1].wr_id, 6u);
    EXPECT_EQ(received[1].status, Status::local_length_error);
}

// IBA 11.6.3.2: as of a queue pair whose own completion queue has overrun.
TEST_F(Xrc, ATargetWhoseCompletionFindsNoPlaceIsInErrorForGood) {
    ASSERT_EQ(side[1].receive_cq.resize(2), 0);
    for (std::uint64_t id = 1; id <= 4; id++) post_receive(1, id, {side[1].sge(0, 100)});
    for (int message = 1; message <= 2; message++) {
        ASSERT_EQ(post(0, request(Operation::send), {side[0].sge(0, 10)}), 0);
        run();
        EXPECT_EQ(outcome(), Status::success);
        EXPECT_EQ(side[1].qp->state(), QpState::rts);
    }
    ASSERT_EQ(post(0, request(Operation::send), {side[0].sge(0, 10)}), 0);
    run();
    EXPECT_EQ(side[1].qp->state(), QpState::error);
    EXPECT_EQ(side[1].events, std::vector{QpEvent::fatal});
    EXPECT_EQ(outcome(), Status::success) << "its acknowledgement leaves before it completes";
    ASSERT_EQ(post(0, request(Operation::send), {side[0].sge(0, 10)}), 0);
    run();
    EXPECT_EQ(outcome(), Status::retry_exceeded);
    EXPECT_EQ(side[1].events.size(), 1u);
}

// Annex A19: both name the queue, whose protection domain is the target's.
TEST_F(Xrc, FlushesAndWritesAtomically) {
    side[0].memory[0] = 42;
    ASSERT_EQ(post(0, request(Operation::atomic_write), {side[0].sge(0, 8)}), 0);
    run();
    EXPECT_EQ(outcome(), Status::success);
    EXPECT_EQ(side[1].memory[4096], 42);
    EXPECT_EQ(packets(0).back().headers.bth.opcode, wire::Opcode::xrc_atomic_write);
    SendRequest flush = request(Operation::flush);
    flush.range = 64;
    flush.range_access = flush_kind(kFlushGlobal, kFlushRange);
    ASSERT_EQ(post(0, flush), 0);
    run();
    EXPECT_EQ(outcome(), Status::remote_invalid_request) << "the target was not told to allow it";
    EXPECT_EQ(packets(0).back().headers.bth.opcode, wire::Opcode::xrc_flush);
    EXPECT_EQ(packets(0).back().headers.xrceth.srqn, kXrcQueue);
}

TEST_F(Xrc, TheReceiveOfAnUnfinishedMessageGoesBackWhenTheTargetResets) {
    post_receive(1, 5, {side[1].sge(0, 8192)});
    arrives(1, wire::Opcode::xrc_send_first, start_psn[0], std::vector<std::uint8_t>(1024, 1));
    EXPECT_EQ(side[1].receives->waiting(), 0u);
    ASSERT_EQ(modify(1, QpState::reset), 0);
    EXPECT_EQ(side[1].receives->waiting(), 1u);
    EXPECT_TRUE(receives(1).empty());
}

}  // namespace
}  // namespace verbena::transport::testing
