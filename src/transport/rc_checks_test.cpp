// What requester and responder check beyond the tables of rc_errors_test.cpp.
#include <gtest/gtest.h>

#include "transport/rc_harness.h"

namespace verbena::transport::testing {
namespace {

using completion::Status;

TEST(ReceiverChecks, SecondFirstInsideAMessage) {
    Harness h;
    h.start();
    h.post_receive(1, 7, {h.side[1].sge(0, 4096)});
    wire::Headers headers;
    headers.bth.opcode = wire::Opcode::rc_send_first;
    headers.bth.psn = h.start_psn[0];
    h.inject(1, headers, std::vector<std::uint8_t>(1024));
    headers.bth.psn++;
    h.inject(1, headers, std::vector<std::uint8_t>(1024));
    const auto received = h.receives(1);
    ASSERT_EQ(received.size(), 1u);
    EXPECT_EQ(received[0].status, Status::work_request_flushed);
    EXPECT_EQ(h.side[1].qp->state(), QpState::error);
}

// IBA 9.7.4.1.7: a READ or atomic more than the responder has resources for, while the first is unanswered.
TEST(ReceiverChecks, MoreReadsAndAtomicsThanTheResponderKeeps) {
    for (const Operation operation : {Operation::rdma_read, Operation::fetch_add}) {
        Harness h;
        h.attributes[1].max_destination_rd_atomic = 2;
        h.start();
        SendRequest request = h.request(operation);
        request.compare_add = 1;
        for (request.wr_id = 1; request.wr_id <= 4; request.wr_id++)
            ASSERT_EQ(h.post(0, request, {h.side[0].sge(0, 8)}), 0);
        h.run();

        const auto answers = h.packets(1);
        ASSERT_EQ(answers.size(), 3u);
        EXPECT_EQ(answers[2].headers.bth.opcode, wire::Opcode::rc_ack);
        EXPECT_EQ(answers[2].headers.aeth.syndrome, 0x61);
        EXPECT_EQ(answers[2].headers.bth.psn, h.start_psn[0] + 2);
        EXPECT_EQ(answers[2].headers.aeth.msn, 2u);
        const auto sent = h.sends(0);
        ASSERT_EQ(sent.size(), 4u);
        EXPECT_EQ(sent[0].status, Status::success);
        EXPECT_EQ(sent[1].status, Status::success);
        EXPECT_EQ(sent[2].status, Status::remote_invalid_request);
        EXPECT_EQ(sent[3].status, Status::work_request_flushed);
        EXPECT_EQ(h.side[1].qp->state(), QpState::error);
        EXPECT_EQ(h.side[1].events, std::vector<QpEvent>{QpEvent::request_error});
        std::uint64_t value;
        std::memcpy(&value, h.side[1].memory.data(), sizeof value);
        EXPECT_EQ(value, operation == Operation::fetch_add ? 2u : 0u);
    }
}

TEST(ReceiverChecks, WrongPeerPkeyOrServiceIsDropped) {
    Harness h;
    h.start();
    wire::Headers headers;
    headers.bth.opcode = wire::Opcode::rc_write_only;
    headers.bth.psn = h.start_psn[0];
    headers.reth = {h.side[1].address(), h.side[1].keys.rkey, 1};
    const std::uint8_t byte = 0x55;
    wire::Path stranger = h.side[0].path;
    stranger.source = Gid::from_ipv4(0x0a000099);
    wire::Path elsewhere = h.side[0].path;
    elsewhere.destination = Gid::from_ipv4(0x0a000099);
    QueuePair& qp = *h.side[1].qp;
    qp.receive({headers, {&byte, 1}}, stranger, h.now);
    qp.receive({headers, {&byte, 1}}, elsewhere, h.now);
    wire::Headers other = headers;
    other.bth.pkey = 0x8001;
    qp.receive({other, {&byte, 1}}, h.side[0].path, h.now);
    other = headers;
    other.bth.opcode = wire::Opcode::uc_write_only;
    qp.receive({other, {&byte, 1}}, h.side[0].path, h.now);
    EXPECT_EQ(qp.counters().dropped, 4u);
    EXPECT_EQ(h.side[1].memory[0], 0);
    headers.bth.pkey = 0x7fff;  // a limited member
    qp.receive({headers, {&byte, 1}}, h.side[0].path, h.now);
    EXPECT_EQ(h.side[1].memory[0], 0x55);
}

// ibv_modify_qp() with fewer rights: nothing is written any more when it returns.
TEST(ReceiverChecks, TheRightToWriteMayEndInAMessage) {
    for (const bool runs : {false, true}) {
        Harness h;
        h.runs = runs;
        for (auto& side : h.side) side.run = runs ? 8 : 0;
        h.start();
        h.fill(0, 0, 1 << 20, 1);
        std::vector<std::uint8_t> left;
        h.after_step = [&] {
            if (!left.empty() || h.side[1].memory[100'000] == 0) return;
            h.attributes[1].access = memory::kRemoteRead;
            ASSERT_EQ(h.modify(1, QpState::rts, kAttrAccessFlags), 0);
            left.assign(h.side[1].memory.begin(), h.side[1].memory.end());
        };
        ASSERT_EQ(h.post(0, h.request(Operation::rdma_write), {h.side[0].sge(0, 1 << 20)}), 0);
        h.run();
        const auto sent = h.sends(0);
        ASSERT_EQ(sent.size(), 1u);
        EXPECT_EQ(sent[0].status, Status::remote_invalid_request);
        ASSERT_FALSE(left.empty());
        EXPECT_EQ(std::memcmp(left.data(), h.side[1].memory.data(), left.size()), 0) << runs;
    }
}

TEST(RequesterChecks, LocalKeyAndBounds) {
    Harness h;
    h.start();
    SendRequest r;
    r.operation = Operation::send;
    h.post_receive(1, 7, {h.side[1].sge(0, 4096)});
    r.wr_id = 1;
    ASSERT_EQ(h.post(0, r, {h.side[0].sge(0, 100)}), 0);
    r.wr_id = 2;
    ASSERT_EQ(h.post(0, r, {h.side[0].sge(h.memory_size - 50, 100)}), 0);
    r.wr_id = 3;
    ASSERT_EQ(h.post(0, r, {h.side[0].sge(0, 100)}), 0);
    h.run();
    const auto sent = h.sends(0);
    ASSERT_EQ(sent.size(), 2u);  // the first is not signaled and succeeds
    EXPECT_EQ(sent[0].wr_id, 2u);
    EXPECT_EQ(sent[0].status, Status::local_protection_error);
    EXPECT_EQ(sent[0].vendor_error, 0x0103u);
    EXPECT_EQ(sent[1].status, Status::work_request_flushed);
    EXPECT_EQ(h.receives(1).size(), 1u);
    EXPECT_EQ(h.side[0].qp->state(), QpState::error);
}

TEST(RequesterChecks, ReadIntoMemoryWithoutLocalWrite) {
    Harness h;
    h.access = memory::kRemoteRead;
    h.start();
    ASSERT_EQ(h.post(0, h.request(Operation::rdma_read), {h.side[0].sge(0, 100)}), 0);
    h.run();
    const auto sent = h.sends(0);
    ASSERT_EQ(sent.size(), 1u);
    EXPECT_EQ(sent[0].status, Status::local_protection_error);
    EXPECT_EQ(sent[0].vendor_error, 0x0104u);
    EXPECT_TRUE(h.packets(0).empty());
}

TEST(RequesterChecks, PostRefusals) {
    Harness h;
    h.capabilities = {2, 2, 2, 2, 64};
    h.attributes[0].max_rd_atomic = 0;
    h.make(0);
    h.make(1);
    SendRequest r;
    r.operation = Operation::send;
    EXPECT_EQ(h.post(0, r, {}), EINVAL);  // RESET
    h.to_init(0);
    EXPECT_EQ(h.post(0, r, {}), EINVAL);
    h.to_rtr(0);
    EXPECT_EQ(h.post(0, r, {}), EINVAL);
    h.to_rts(0);
    const Sge s = h.side[0].sge(0, 65);
    EXPECT_EQ(h.post(0, r, {s, s, s}), EINVAL);
    r.flags = kInline;
    EXPECT_EQ(h.post(0, r, {s}), EINVAL);
    r.flags = 0;
    Sge huge = s;
    huge.length = 0x80000000;
    EXPECT_EQ(h.post(0, r, {huge, s}), EINVAL);
    r.operation = Operation::rdma_read;
    EXPECT_EQ(h.post(0, r, {s}), EINVAL);  // max_rd_atomic 0
    r.operation = Operation::fetch_add;
    EXPECT_EQ(h.post(0, r, {s}), EINVAL);
    r.operation = Operation::tso;
    EXPECT_EQ(h.post(0, r, {}), EOPNOTSUPP);
    r.operation = static_cast<Operation>(77);
    EXPECT_EQ(h.post(0, r, {}), EINVAL);
    r.operation = Operation::send;
    EXPECT_EQ(h.post(0, r, {s}), 0);
    EXPECT_EQ(h.post(0, r, {s}), 0);
    EXPECT_EQ(h.post(0, r, {s}), ENOMEM);
}

TEST(RequesterChecks, AtomicShape) {
    Harness h;
    h.start();
    SendRequest r = h.request(Operation::compare_swap, 1, 4);
    EXPECT_EQ(h.post(0, r, {h.side[0].sge(0, 8)}), EINVAL);
    r.remote_address = h.side[1].address(8);
    EXPECT_EQ(h.post(0, r, {h.side[0].sge(0, 16)}), EINVAL);
    EXPECT_EQ(h.post(0, r, {h.side[0].sge(0, 4), h.side[0].sge(4, 4)}), EINVAL);
    EXPECT_EQ(h.post(0, r, {h.side[0].sge(0, 8)}), 0);
}

TEST(RequesterChecks, BadResponses) {
    for (const bool wrong_length : {false, true}) {
        Harness h;
        h.start();
        ASSERT_EQ(h.post(0, h.request(Operation::rdma_read), {h.side[0].sge(0, 64)}), 0);
        h.transmit(0, false);
        wire::Headers headers;
        headers.bth.psn = h.start_psn[0];
        headers.bth.opcode = wrong_length ? wire::Opcode::rc_read_response_only : wire::Opcode::rc_atomic_ack;
        h.inject(0, headers, std::vector<std::uint8_t>(wrong_length ? 63 : 0));
        const auto sent = h.sends(0);
        ASSERT_EQ(sent.size(), 1u);
        EXPECT_EQ(sent[0].status, Status::bad_response);
        EXPECT_EQ(sent[0].vendor_error, wrong_length ? 0x0222u : 0x0221u);
    }
}

// Only the message that is next: what becomes of one that comes again, or behind a gap, or is in progress
// does not depend on receives.
TEST(ReceiverChecks, AMessageIsEarlyWhileItsReceiveIsNotPosted) {
    Harness h;
    h.start();
    const auto is_early = [&](wire::Opcode opcode, unsigned ahead) {
        std::array<std::uint8_t, wire::kBthLength> bytes{};
        wire::Bth bth;
        bth.opcode = opcode;
        bth.psn = wire::psn_add(h.start_psn[0], ahead);
        wire::emit_bth(bth, bytes.data());
        return h.side[1].qp->is_early(wire::BthWords(bytes.data()));
    };
    EXPECT_FALSE(is_early(wire::Opcode::rc_send_only, 0)) << "the program has nothing to take";
    h.post_receive(1, 1, {h.side[1].sge(0, 64)});
    ASSERT_EQ(h.post(0, h.request(Operation::send), {h.side[0].sge(0, 64)}), 0);
    h.run();
    h.start_psn[0]++;
    EXPECT_TRUE(is_early(wire::Opcode::rc_send_only, 0));
    EXPECT_TRUE(is_early(wire::Opcode::rc_send_first, 0));
    EXPECT_FALSE(is_early(wire::Opcode::rc_send_only, 1));
    EXPECT_FALSE(is_early(wire::Opcode::rc_send_middle, 0));
    EXPECT_FALSE(is_early(wire::Opcode::rc_write_only, 0));
    EXPECT_FALSE(is_early(wire::Opcode::rc_ack, 0));
    h.post_receive(1, 2, {h.side[1].sge(0, 64)});
    EXPECT_FALSE(is_early(wire::Opcode::rc_send_only, 0));
}

}  // namespace
}  // namespace verbena::transport::testing
