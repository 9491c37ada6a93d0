// One row for each way in which a request can fail: what goes over the wire, the completion on both sides,
// the value of vendor_err, the asynchronous event and the states (IBA 9.7.4.1, 9.9.3).
#include <gtest/gtest.h>

#include "transport/rc_harness.h"

namespace verbena::transport::testing {
namespace {

using completion::Status;

struct Row {
    const char* name;
    std::function<void(Harness&)> prepare;               // before the queue pairs exist
    std::function<void(Harness&, SendRequest&)> change;  // of a 64-byte request with everything right
    Operation operation;
    std::uint32_t length;
    std::uint32_t receive_length;  // 0: none posted
    std::uint8_t nak;
    Status requester;
    VendorError requester_vendor;
    Status responder;  // success: no receive completes
    VendorError responder_vendor;
    QpEvent event;  // fatal: none
    bool responder_fails;
};

void access_local_only(Harness& h) { h.attributes[1].access = 0; }
void region_local_only(Harness& h) { h.access = memory::kLocalWrite; }
void bad_rkey(Harness&, SendRequest& r) { r.rkey = 0xdead01; }
void lkey_as_rkey(Harness& h, SendRequest& r) { r.rkey = h.side[1].keys.lkey; }
void past_end(Harness& h, SendRequest& r) { r.remote_address = h.side[1].address(h.memory_size - 32); }
void before_start(Harness& h, SendRequest& r) { r.remote_address = h.side[1].address() - 8; }

const Row kRows[] = {
    {"send_longer_than_receive",
     {},
     {},
     Operation::send,
     512,
     64,
     0x61,
     Status::remote_invalid_request,
     VendorError::nak_invalid_request,
     Status::local_length_error,
     VendorError::receive_too_small,
     QpEvent::fatal,
     true},
    {"write_bad_rkey",
     {},
     bad_rkey,
     Operation::rdma_write,
     64,
     0,
     0x62,
     Status::remote_access_error,
     VendorError::nak_remote_access,
     Status::success,
     VendorError::none,
     QpEvent::access_error,
     true},
    {"write_lkey_as_rkey",
     {},
     lkey_as_rkey,
     Operation::rdma_write,
     64,
     0,
     0x62,
     Status::remote_access_error,
     VendorError::nak_remote_access,
     Status::success,
     VendorError::none,
     QpEvent::access_error,
     true},
    {"write_past_end",
     {},
     past_end,
     Operation::rdma_write,
     64,
     0,
     0x62,
     Status::remote_access_error,
     VendorError::nak_remote_access,
     Status::success,
     VendorError::none,
     QpEvent::access_error,
     true},
    {"write_before_start",
     {},
     before_start,
     Operation::rdma_write,
     64,
     0,
     0x62,
     Status::remote_access_error,
     VendorError::nak_remote_access,
     Status::success,
     VendorError::none,
     QpEvent::access_error,
     true},
    {"write_not_allowed_by_qp",
     access_local_only,
     {},
     Operation::rdma_write,
     64,
     0,
     0x61,
     Status::remote_invalid_request,
     VendorError::nak_invalid_request,
     Status::success,
     VendorError::none,
     QpEvent::request_error,
     true},
    {"write_not_allowed_by_region",
     region_local_only,
     {},
     Operation::rdma_write,
     64,
     0,
     0x62,
     Status::remote_access_error,
     VendorError::nak_remote_access,
     Status::success,
     VendorError::none,
     QpEvent::access_error,
     true},
    {"read_bad_rkey",
     {},
     bad_rkey,
     Operation::rdma_read,
     64,
     0,
     0x62,
     Status::remote_access_error,
     VendorError::nak_remote_access,
     Status::success,
     VendorError::none,
     QpEvent::access_error,
     true},
    {"read_not_allowed_by_qp",
     access_local_only,
     {},
     Operation::rdma_read,
     64,
     0,
     0x61,
     Status::remote_invalid_request,
     VendorError::nak_invalid_request,
     Status::success,
     VendorError::none,
     QpEvent::request_error,
     true},
    {"read_not_allowed_by_region",
     region_local_only,
     {},
     Operation::rdma_read,
     64,
     0,
     0x62,
     Status::remote_access_error,
     VendorError::nak_remote_access,
     Status::success,
     VendorError::none,
     QpEvent::access_error,
     true},
    {"atomic_bad_rkey",
     {},
     bad_rkey,
     Operation::fetch_add,
     8,
     0,
     0x62,
     Status::remote_access_error,
     VendorError::nak_remote_access,
     Status::success,
     VendorError::none,
     QpEvent::access_error,
     true},
    {"atomic_not_allowed_by_qp",
     access_local_only,
     {},
     Operation::compare_swap,
     8,
     0,
     0x61,
     Status::remote_invalid_request,
     VendorError::nak_invalid_request,
     Status::success,
     VendorError::none,
     QpEvent::request_error,
     true},
    {"invalidate_unknown_key",
     {},
     [](Harness&, SendRequest& r) { r.immediate_or_key = 0x123401; },
     Operation::send_with_invalidate,
     64,
     64,
     0x62,
     Status::remote_access_error,
     VendorError::nak_remote_access,
     Status::memory_window_bind_error,
     VendorError::invalidate_failed,
     QpEvent::fatal,
     true},
    {"receive_bad_lkey",
     [](Harness& h) { h.capabilities.max_receive_sge = 1; },
     {},
     Operation::send,
     64,
     1,
     0x63,
     Status::remote_operation_error,
     VendorError::nak_remote_operational,
     Status::local_protection_error,
     VendorError::receive_lkey_unknown,
     QpEvent::fatal,
     true},
    {"read_with_depth_0_at_responder",
     [](Harness& h) { h.attributes[1].max_destination_rd_atomic = 0; },
     {},
     Operation::rdma_read,
     64,
     0,
     0x61,
     Status::remote_invalid_request,
     VendorError::nak_invalid_request,
     Status::success,
     VendorError::none,
     QpEvent::request_error,
     true},
};

class Errors : public ::testing::TestWithParam<Row> {};

TEST_P(Errors, Row) {
    const Row& row = GetParam();
    Harness h;
    if (row.prepare) row.prepare(h);
    h.start();
    if (row.receive_length == 1)
        h.post_receive(1, 7, {{h.side[1].address(), 4096, 0x777700}});
    else if (row.receive_length != 0)
        h.post_receive(1, 7, {h.side[1].sge(0, row.receive_length)});
    if (row.receive_length != 0) h.post_receive(1, 8, {});
    SendRequest r = h.request(row.operation);
    if (row.change) row.change(h, r);
    ASSERT_EQ(h.post(0, r, {h.side[0].sge(0, row.length)}), 0);
    r.wr_id = 2;
    ASSERT_EQ(h.post(0, r, {h.side[0].sge(0, row.length)}), 0);
    h.run();

    const auto answers = h.packets(1);
    ASSERT_GE(answers.size(), 1u);
    EXPECT_EQ(answers[0].headers.bth.opcode, wire::Opcode::rc_ack);
    EXPECT_EQ(answers[0].headers.aeth.syndrome, row.nak);
    EXPECT_EQ(answers[0].headers.bth.psn, h.start_psn[0]);
    EXPECT_EQ(answers[0].headers.aeth.msn, 0u);

    const auto sent = h.sends(0);
    ASSERT_EQ(sent.size(), 2u);
    EXPECT_EQ(sent[0].wr_id, 1u);
    EXPECT_EQ(sent[0].status, row.requester);
    EXPECT_EQ(sent[0].vendor_error, static_cast<std::uint32_t>(row.requester_vendor));
    EXPECT_EQ(sent[1].status, Status::work_request_flushed);
    EXPECT_EQ(h.side[0].qp->state(), QpState::error);
    EXPECT_EQ(h.side[1].qp->state(), row.responder_fails ? QpState::error : QpState::rts);

    const auto received = h.receives(1);
    if (row.responder == Status::success) {
        EXPECT_EQ(received.size(), 0u);
    } else {
        ASSERT_EQ(received.size(), 2u);
        EXPECT_EQ(received[0].wr_id, 7u);
        EXPECT_EQ(received[0].status, row.responder);
        EXPECT_EQ(received[0].vendor_error, static_cast<std::uint32_t>(row.responder_vendor));
        EXPECT_EQ(received[1].wr_id, 8u);
        EXPECT_EQ(received[1].status, Status::work_request_flushed);
    }
    if (row.event == QpEvent::fatal)
        EXPECT_TRUE(h.side[1].events.empty());
    else
        EXPECT_EQ(h.side[1].events, std::vector<QpEvent>{row.event});
}

INSTANTIATE_TEST_SUITE_P(All, Errors, ::testing::ValuesIn(kRows),
                         [](const auto& test) { return test.param.name; });

// Requests that the test forges, since our requester never sends them.
struct Forged {
    const char* name;
    wire::Opcode opcode;
    std::size_t length;
    std::uint32_t reth_length;
    std::uint64_t offset;
    std::uint8_t nak;
    VendorError cause;
};

class ForgedRequests : public ::testing::TestWithParam<Forged> {};

TEST_P(ForgedRequests, AreRefused) {
    const Forged& row = GetParam();
    Harness h;
    h.start();
    wire::Headers headers;
    headers.bth.opcode = row.opcode;
    headers.bth.psn = h.start_psn[0];
    headers.reth = {h.side[1].address(row.offset), h.side[1].keys.rkey, row.reth_length};
    headers.atomic_eth = {h.side[1].address(row.offset), h.side[1].keys.rkey, 1, 0};
    h.inject(1, headers, std::vector<std::uint8_t>(row.length, 0x55));
    EXPECT_EQ(h.side[1].qp->state(), QpState::error);
    h.transmit(1, false);
    const auto answers = h.packets(1);
    ASSERT_EQ(answers.size(), 1u);
    EXPECT_EQ(answers[0].headers.aeth.syndrome, row.nak);
    EXPECT_EQ(answers[0].headers.bth.psn, h.start_psn[0]);
    for (std::size_t i = 0; i < 8192; i++) ASSERT_EQ(h.side[1].memory[i], 0);
}

const Forged kForged[] = {
    {"middle_without_first", wire::Opcode::rc_send_middle, 1024, 0, 0, 0x61,
     VendorError::opcode_out_of_sequence},
    {"last_without_first", wire::Opcode::rc_write_last, 10, 0, 0, 0x61, VendorError::opcode_out_of_sequence},
    {"short_first", wire::Opcode::rc_write_first, 1000, 3000, 0, 0x61, VendorError::packet_wrong_length},
    {"long_only", wire::Opcode::rc_write_only, 1025, 1025, 0, 0x61, VendorError::packet_wrong_length},
    {"only_shorter_than_reth", wire::Opcode::rc_write_only, 10, 11, 0, 0x61,
     VendorError::write_length_mismatch},
    {"only_longer_than_reth", wire::Opcode::rc_write_only, 12, 11, 0, 0x61,
     VendorError::write_length_mismatch},
    {"first_that_is_all", wire::Opcode::rc_write_first, 1024, 1024, 0, 0x61,
     VendorError::write_length_mismatch},
    {"unaligned_atomic", wire::Opcode::rc_fetch_add, 0, 0, 4, 0x61, VendorError::atomic_unaligned},
    {"too_long_read", wire::Opcode::rc_read_request, 0, 0x80000001, 0, 0x61, VendorError::message_too_long},
    {"flush_of_no_type", wire::Opcode::rc_flush, 0, 0, 0, 0x61, VendorError::flush_malformed},
    {"short_atomic_write", wire::Opcode::rc_atomic_write, 4, 8, 0, 0x61, VendorError::write_length_mismatch},
    {"long_atomic_write", wire::Opcode::rc_atomic_write, 16, 16, 0, 0x61, VendorError::write_length_mismatch},
    {"unaligned_atomic_write", wire::Opcode::rc_atomic_write, 8, 8, 4, 0x61, VendorError::atomic_unaligned},
    {"atomic_write_outside", wire::Opcode::rc_atomic_write, 8, 8, 1 << 20, 0x62,
     VendorError::remote_range_out_of_bounds},
};
INSTANTIATE_TEST_SUITE_P(All, ForgedRequests, ::testing::ValuesIn(kForged),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace verbena::transport::testing
