// UC (IBA 9.8.2): what arrives, what a loss costs, what completes and when.
#include <gtest/gtest.h>

#include <map>

#include "transport/rc_harness.h"
#include "wire/psn.h"

namespace verbena::transport::testing {
namespace {

using completion::Status;

struct Uc : ::testing::Test, Harness {
    Uc() {
        service = Service::uc;
        signal_all = true;
        start();
    }
    SendRequest request(Operation operation, std::uint64_t id = 1) const {
        SendRequest r = Harness::request(operation, id, 4096);
        r.immediate_or_key = 0x11223344;
        return r;
    }
    void lose(std::function<bool(const Sent&)> which) {
        filter = [which](const Sent& s) { return which(s) ? kDrop : kDeliver; };
    }
    std::uint32_t psn(std::uint32_t n) const { return (start_psn[0] + n) & wire::kPsnMask; }
};

TEST_F(Uc, SendsOfEverySizeArriveAndNothingComesBack) {
    for (const std::uint32_t length : {0u, 1u, 1023u, 1024u, 1025u, 10'000u, 200'000u}) {
        fill(0, 0, length, length);
        post_receive(1, length, {side[1].sge(0, 1 << 18)});
        ASSERT_EQ(post(0, request(Operation::send_with_immediate), {side[0].sge(0, length)}), 0);
        run();
        const auto received = receives(1);
        ASSERT_EQ(received.size(), 1u);
        EXPECT_EQ(received[0].wr_id, length);
        EXPECT_EQ(received[0].byte_length, length);
        EXPECT_EQ(received[0].immediate, 0x11223344u);
        EXPECT_TRUE(equal(0, 0, length));
        const auto sent = sends(0);
        ASSERT_EQ(sent.size(), 1u);
        EXPECT_EQ(sent[0].status, Status::success);
    }
    EXPECT_TRUE(packets(1).empty());
    for (const Sent& s : packets(0)) EXPECT_FALSE(s.headers.bth.ack_request);
}

TEST_F(Uc, WritesPlaceAndConsumeAReceiveOnlyWithImmediate) {
    fill(0, 0, 5000, 1);
    post_receive(1, 7, {});
    ASSERT_EQ(post(0, request(Operation::rdma_write), {side[0].sge(0, 5000)}), 0);
    run();
    EXPECT_TRUE(receives(1).empty());
    EXPECT_TRUE(equal(0, 4096, 5000));
    fill(0, 0, 5000, 2);
    ASSERT_EQ(post(0, request(Operation::rdma_write_with_immediate), {side[0].sge(0, 5000)}), 0);
    run();
    const auto received = receives(1);
    ASSERT_EQ(received.size(), 1u);
    EXPECT_EQ(received[0].opcode, completion::Opcode::receive_rdma_with_immediate);
    EXPECT_EQ(received[0].byte_length, 5000u);
    EXPECT_TRUE(equal(0, 4096, 5000));
    EXPECT_EQ(sends(0).size(), 2u);
}

// A send completes when it has left, whatever becomes of it.
TEST_F(Uc, CompletesThoughNothingArrives) {
    lose([](const Sent&) { return true; });
    for (std::uint64_t id = 0; id < 40; id++)
        ASSERT_EQ(post(0, request(Operation::send, id), {side[0].sge(0, 3000)}), 0);
    run();
    const auto sent = sends(0);
    ASSERT_EQ(sent.size(), 40u);
    for (std::uint64_t id = 0; id < 40; id++) EXPECT_EQ(sent[id].wr_id, id);
    EXPECT_EQ(side[0].qp->state(), QpState::rts);
    EXPECT_EQ(packets(0).size(), 120u);
}

// Not in the transmit() that gave the packets to the sink: the memory must not change before the flush.
TEST_F(Uc, CompletesAfterTheFlush) {
    ASSERT_EQ(post(0, request(Operation::send), {side[0].sge(0, 100)}), 0);
    memory::Section section(side[0].sections);
    EXPECT_TRUE(side[0].qp->transmit(side[0], now, 16, false));
    EXPECT_TRUE(sends(0).empty());
    const Time later = side[0].qp->next_deadline();
    ASSERT_LT(later, now + kMillisecond);
    side[0].qp->advance(later);
    EXPECT_EQ(sends(0).size(), 1u);
}

// Nothing else slows a sender down whose receiver does not keep up.
TEST_F(Uc, PausesWhileTheLinkIsFull) {
    ASSERT_EQ(post(0, request(Operation::rdma_write), {side[0].sge(0, 100'000)}), 0);
    memory::Section section(side[0].sections);
    const auto step = [&] {
        const std::size_t before = packets(0).size();
        side[0].qp->transmit(side[0], now, 1000, false);
        now = side[0].qp->next_deadline();
        side[0].qp->advance(now);
        return packets(0).size() - before;
    };
    EXPECT_GT(step(), 0u);
    step();  // what completes
    side[0].full = true;
    for (int i = 0; i < 10; i++) EXPECT_EQ(step(), 0u);
    side[0].full = false;
    std::size_t more = 0;
    for (int i = 0; i < 10 && more == 0; i++) more = step();
    EXPECT_GT(more, 0u);
}

// Or with what comes first: the answer.
TEST_F(Uc, CompletesWhenAPacketComes) {
    ASSERT_EQ(post(0, request(Operation::send), {side[0].sge(0, 100)}), 0);
    {
        memory::Section section(side[0].sections);
        side[0].qp->transmit(side[0], now, 16, false);
    }
    wire::Headers answer;
    answer.bth.opcode = wire::Opcode::uc_send_only;
    inject(0, answer);
    EXPECT_EQ(sends(0).size(), 1u);
}

// Whichever packet of three is lost: that message is gone, its receive serves the next one.
TEST_F(Uc, ALossCostsOneMessage) {
    for (std::uint32_t lost = 0; lost < 3; lost++) {
        const std::uint32_t first = lost * 6;
        lose([&](const Sent& s) { return s.headers.bth.psn == psn(first + lost); });
        post_receive(1, lost, {side[1].sge(0, 4096)});
        fill(0, 0, 3000, lost);
        ASSERT_EQ(post(0, request(Operation::send), {side[0].sge(0, 3000)}), 0);
        run();
        EXPECT_TRUE(receives(1).empty());
        fill(0, 0, 3000, lost + 10);
        ASSERT_EQ(post(0, request(Operation::send), {side[0].sge(0, 3000)}), 0);
        run();
        const auto received = receives(1);
        ASSERT_EQ(received.size(), 1u);
        EXPECT_EQ(received[0].wr_id, lost);
        EXPECT_TRUE(equal(0, 0, 3000));
    }
}

TEST_F(Uc, NoReceiveDropsTheMessageSilently) {
    ASSERT_EQ(post(0, request(Operation::send), {side[0].sge(0, 3000)}), 0);
    ASSERT_EQ(post(0, request(Operation::rdma_write_with_immediate), {side[0].sge(0, 10)}), 0);
    run();
    post_receive(1, 5, {side[1].sge(0, 4096)});
    ASSERT_EQ(post(0, request(Operation::send), {side[0].sge(0, 30)}), 0);
    run();
    EXPECT_EQ(receives(1).size(), 1u);
    EXPECT_EQ(side[1].qp->state(), QpState::rts);
    EXPECT_TRUE(packets(1).empty());
}

TEST_F(Uc, ATooShortReceiveServesTheNextMessage) {
    post_receive(1, 5, {side[1].sge(0, 100)});
    ASSERT_EQ(post(0, request(Operation::send), {side[0].sge(0, 3000)}), 0);
    run();
    EXPECT_TRUE(receives(1).empty());
    ASSERT_EQ(post(0, request(Operation::send), {side[0].sge(0, 100)}), 0);
    run();
    const auto received = receives(1);
    ASSERT_EQ(received.size(), 1u);
    EXPECT_EQ(received[0].status, Status::success);
    EXPECT_EQ(received[0].byte_length, 100u);
}

TEST_F(Uc, ABadRemoteKeyDropsTheWriteSilently) {
    fill(0, 0, 100, 1);
    SendRequest bad = request(Operation::rdma_write);
    bad.rkey ^= 0x100;
    ASSERT_EQ(post(0, bad, {side[0].sge(0, 100)}), 0);
    SendRequest outside = request(Operation::rdma_write);
    outside.remote_address = side[1].address(memory_size - 50);
    ASSERT_EQ(post(0, outside, {side[0].sge(0, 100)}), 0);
    run();
    EXPECT_FALSE(equal(0, 4096, 100));
    EXPECT_EQ(side[1].qp->state(), QpState::rts);
    EXPECT_TRUE(side[1].events.empty());
    EXPECT_EQ(sends(0).size(), 2u);
    for (std::size_t i = 0; i < kGuard; i++) EXPECT_EQ(side[1].memory[memory_size + i], 0);
}

TEST_F(Uc, ABadReceiveElementIsOurOwnError) {
    Sge wrong = side[1].sge(0, 100);
    wrong.lkey ^= 0x100;
    post_receive(1, 5, {wrong});
    post_receive(1, 6, {side[1].sge(0, 100)});
    ASSERT_EQ(post(0, request(Operation::send), {side[0].sge(0, 100)}), 0);
    run();
    const auto received = receives(1);
    ASSERT_EQ(received.size(), 2u);
    EXPECT_EQ(received[0].status, Status::local_protection_error);
    EXPECT_EQ(received[1].status, Status::work_request_flushed);
    EXPECT_EQ(side[1].qp->state(), QpState::error);
    EXPECT_EQ(side[0].qp->state(), QpState::rts);
}

// IBA 10.3.1.6: the send queue error state; the program returns to RTS itself.
TEST_F(Uc, AFailedSendStopsTheSendQueueOnly) {
    Sge wrong = side[0].sge(0, 100);
    wrong.lkey ^= 0x100;
    ASSERT_EQ(post(0, request(Operation::send, 1), {side[0].sge(0, 100)}), 0);
    ASSERT_EQ(post(0, request(Operation::send, 2), {wrong}), 0);
    ASSERT_EQ(post(0, request(Operation::send, 3), {side[0].sge(0, 100)}), 0);
    run();
    EXPECT_EQ(side[0].qp->state(), QpState::sqe);
    ASSERT_EQ(post(0, request(Operation::send, 4), {side[0].sge(0, 100)}), 0);
    const auto sent = sends(0);
    ASSERT_EQ(sent.size(), 4u);
    EXPECT_EQ(sent[0].status, Status::success);
    EXPECT_EQ(sent[1].status, Status::local_protection_error);
    EXPECT_EQ(sent[2].status, Status::work_request_flushed);
    EXPECT_EQ(sent[3].status, Status::work_request_flushed);

    post_receive(0, 9, {side[0].sge(0, 100)});
    ASSERT_EQ(post(1, request(Operation::send), {side[1].sge(0, 100)}), 0);
    run();
    EXPECT_EQ(receives(0).size(), 1u);

    ASSERT_EQ(modify(0, QpState::rts), 0);
    post_receive(1, 10, {side[1].sge(0, 100)});
    ASSERT_EQ(post(0, request(Operation::send, 5), {side[0].sge(0, 100)}), 0);
    run();
    EXPECT_EQ(sends(0).size(), 1u);
    EXPECT_EQ(receives(1).size(), 1u);
}

// Bursts with pauses: a receiver's socket buffer holds some 25 packets of 4 KiB, or 90 of 1 KiB.
TEST_F(Uc, DoesNotFlood) {
    ASSERT_EQ(post(0, request(Operation::rdma_write), {side[0].sge(0, 200'000)}), 0);
    run();
    std::map<Time, int> at;
    for (const Sent& s : packets(0)) at[s.at]++;
    EXPECT_EQ(packets(0).size(), 196u);
    EXPECT_GE(at.size(), 5u);
    for (const auto& [time, count] : at) EXPECT_LE(count, 48);
}

TEST_F(Uc, DrainsAndFlushes) {
    ASSERT_EQ(modify(0, QpState::sqd, kAttrState | kAttrSqdAsyncNotify), 0);
    ASSERT_EQ(post(0, request(Operation::send), {side[0].sge(0, 100)}), 0);
    run();
    EXPECT_TRUE(packets(0).empty());
    EXPECT_EQ(side[0].events, std::vector{QpEvent::send_queue_drained});
    ASSERT_EQ(modify(0, QpState::error), 0);
    const auto sent = sends(0);
    ASSERT_EQ(sent.size(), 1u);
    EXPECT_EQ(sent[0].status, Status::work_request_flushed);
}

// A message begins where one is in progress: the first is lost, the second arrives.
TEST_F(Uc, AFirstPacketEndsWhatWasInProgress) {
    post_receive(1, 5, {side[1].sge(0, 4096)});
    wire::Headers first;
    first.bth.opcode = wire::Opcode::uc_send_first;
    first.bth.psn = psn(0);
    inject(1, first, std::vector<std::uint8_t>(1024, 1));
    wire::Headers only;
    only.bth.opcode = wire::Opcode::uc_send_only;
    only.bth.psn = psn(1);
    inject(1, only, {9, 9, 9, 9});
    const auto received = receives(1);
    ASSERT_EQ(received.size(), 1u);
    EXPECT_EQ(received[0].byte_length, 4u);
    EXPECT_EQ(side[1].memory[0], 9);
    EXPECT_EQ(side[1].memory[5], 1);
}

// No Verbena sends that; a hostile process of the same user may.
TEST_F(Uc, APayloadThatLiesElsewhereIsDropped) {
    struct Nothing final : wire::Elsewhere {
        std::size_t length() const override { return 100; }
        std::uint64_t placed() const override { return 0; }
        bool fetch(std::uint32_t, std::span<const iovec>) override { return false; }
        void decline() override {}
    } nothing;
    post_receive(1, 5, {side[1].sge(0, 4096)});
    for (const wire::Opcode opcode : {wire::Opcode::uc_send_only, wire::Opcode::uc_write_only}) {
        wire::Packet packet;
        packet.headers.bth.opcode = opcode;
        packet.headers.bth.psn = psn(0);
        packet.headers.bth.destination_qp = 0x1001;
        packet.headers.reth = {side[1].address(), side[1].keys.rkey, 100};
        packet.elsewhere = &nothing;
        memory::Section section(side[1].sections);
        side[1].qp->receive(packet, side[0].path, now);
    }
    EXPECT_EQ(side[1].qp->counters().dropped, 2u);
    EXPECT_TRUE(receives(1).empty());
    EXPECT_EQ(side[1].qp->state(), QpState::rts);
    ASSERT_EQ(post(0, request(Operation::send), {side[0].sge(0, 100)}), 0);
    run();
    EXPECT_EQ(receives(1).size(), 1u);
}

TEST_F(Uc, PacketsOfAnotherServiceAreDropped) {
    post_receive(1, 5, {side[1].sge(0, 4096)});
    wire::Headers only;
    only.bth.opcode = wire::Opcode::rc_send_only;
    only.bth.psn = psn(0);
    inject(1, only, {9, 9, 9, 9});
    EXPECT_TRUE(receives(1).empty());
}

}  // namespace
}  // namespace verbena::transport::testing
