// The matrix of operations: service x operation x flag x posting interface, from the table that the check at
// posting uses too (transport/operations.h). An allowed cell moves data of every size that matters and
// compares memory and both sides' completions; a forbidden one is refused with the errno that it says. What
// came out is docs/operations.md: VERBENA_WRITE_DOCS=1 writes it, otherwise it must be up to date.
#include <fstream>
#include <iterator>

#include "lane.h"

namespace verbena::verbs_test {
namespace {

using transport::Operation;
using transport::OperationRule;
using transport::Service;

constexpr std::size_t kMtu = 4096;
constexpr std::size_t kGrhLength = 40;
constexpr std::uint64_t kMarker = 999;

struct Column {
    const char* name;
    unsigned flags;
};
constexpr Column kColumns[] = {{"SIGNALED", IBV_SEND_SIGNALED},
                               {"unsignaled", 0},
                               {"FENCE", IBV_SEND_SIGNALED | IBV_SEND_FENCE},
                               {"SOLICITED", IBV_SEND_SIGNALED | IBV_SEND_SOLICITED},
                               {"INLINE", IBV_SEND_SIGNALED | IBV_SEND_INLINE}};

struct Row {
    Service service;
    const char* name;
};
constexpr Row kServices[] = {
    {Service::rc, "RC"}, {Service::uc, "UC"}, {Service::ud, "UD"}, {Service::xrc_send, "XRC"}};

bool takes_receive(Operation o) {
    return o == Operation::send || o == Operation::send_with_immediate ||
           o == Operation::send_with_invalidate || o == Operation::rdma_write_with_immediate;
}

bool has_immediate(Operation o) {
    return o == Operation::send_with_immediate || o == Operation::rdma_write_with_immediate;
}

std::vector<std::size_t> sizes_of(const OperationRule& rule, bool datagram, bool inline_data) {
    if (rule.form == transport::Form::atomic || rule.operation == Operation::atomic_write) return {8};
    if (rule.form == transport::Form::local || rule.operation == Operation::flush) return {0};
    if (inline_data) return {0, 1, Lane::kInline - 1, Lane::kInline};
    if (datagram) return {0, 1, kMtu - 1, kMtu};
    return {0, 1, kMtu - 1, kMtu, kMtu + 1, 1 << 20};
}

int expected_opcode(Operation o) {
    switch (o) {
        case Operation::rdma_write:
        case Operation::rdma_write_with_immediate:
            return IBV_WC_RDMA_WRITE;
        case Operation::rdma_read:
            return IBV_WC_RDMA_READ;
        case Operation::compare_swap:
            return IBV_WC_COMP_SWAP;
        case Operation::fetch_add:
            return IBV_WC_FETCH_ADD;
        case Operation::local_invalidate:
            return IBV_WC_LOCAL_INV;
        case Operation::bind_window:
            return IBV_WC_BIND_MW;
        case Operation::flush:
            return 8;
        case Operation::atomic_write:
            return 9;
        default:
            return IBV_WC_SEND;
    }
}

class Cell {
   public:
    Cell(Lane& lane, const OperationRule& rule, const Column& column)
        : lane_(lane), rule_(rule), column_(column) {}

    // One request of that length, followed through on both sides.
    void move(std::size_t length) {
        SCOPED_TRACE(std::to_string(length) + " bytes");
        prepare(length);
        const bool solicited = column_.flags & IBV_SEND_SOLICITED;
        if (solicited) {
            ASSERT_EQ(ibv_req_notify_cq(lane_.receive_cq(), 1), 0);
        }
        ASSERT_EQ(lane_.post(move_), 0);
        if (column_.flags & IBV_SEND_SIGNALED)
            sender_completes(length);
        else
            only_the_marker_completes();
        if (takes_receive(rule_.operation)) receiver_completes(length);
        if (solicited) notified(takes_receive(rule_.operation));
        compare(length);
    }

    int post(std::size_t length) {
        move_ = {rule_.operation, column_.flags, 7, length, 0};
        return lane_.post(move_);
    }

   private:
    void prepare(std::size_t length) {
        seed_++;
        move_ = {rule_.operation, column_.flags, 100u + seed_, length, 0};
        const bool read = rule_.operation == Operation::rdma_read;
        (read ? lane_.remote() : lane_.local()).fill(seed_);
        (read ? lane_.local() : lane_.remote()).set_all(0);
        if (rule_.form == transport::Form::atomic) lane_.remote().set_word(0, Lane::kAddend);
        if (rule_.operation == Operation::send_with_invalidate) move_.key = lane_.bound_window(true);
        if (rule_.operation == Operation::local_invalidate) move_.key = lane_.bound_window(false);
        if (takes_receive(rule_.operation)) {
            ASSERT_EQ(lane_.post_receive(seed_, length + (lane_.is_datagram() ? kGrhLength : 0)), 0);
        }
    }

    void sender_completes(std::size_t length) {
        const ibv_wc wc = success(lane_.a().send_cq);
        EXPECT_EQ(wc.wr_id, move_.wr_id);
        EXPECT_EQ(int{wc.opcode}, expected_opcode(rule_.operation));
        EXPECT_EQ(wc.qp_num, lane_.a().qp->qp_num);
        if (rule_.operation == Operation::rdma_read || rule_.form == transport::Form::atomic) {
            EXPECT_EQ(wc.byte_len, length);
        }
    }

    // A second request, which is signaled, and whose data is none.
    void only_the_marker_completes() {
        const Operation operation = lane_.is_datagram() ? Operation::send : Operation::rdma_write;
        if (lane_.is_datagram()) {
            ASSERT_EQ(lane_.post_receive(kMarker, kGrhLength), 0);
        }
        ASSERT_EQ(lane_.post({operation, IBV_SEND_SIGNALED, kMarker, 0, 0}), 0);
        EXPECT_EQ(success(lane_.a().send_cq).wr_id, kMarker);
        EXPECT_TRUE(empty(lane_.a().send_cq));
    }

    void receiver_completes(std::size_t length) {
        const ibv_wc wc = success(lane_.receive_cq());
        EXPECT_EQ(wc.wr_id, seed_);
        EXPECT_EQ(wc.byte_len, length + (lane_.is_datagram() ? kGrhLength : 0));
        EXPECT_EQ(wc.opcode, rule_.operation == Operation::rdma_write_with_immediate
                                 ? IBV_WC_RECV_RDMA_WITH_IMM
                                 : IBV_WC_RECV);
        unsigned flags = lane_.is_datagram() ? IBV_WC_GRH : 0;
        if (has_immediate(rule_.operation)) {
            flags |= IBV_WC_WITH_IMM;
            EXPECT_EQ(wc.imm_data, htobe32(Lane::kImmediate));
        }
        if (rule_.operation == Operation::send_with_invalidate) {
            flags |= IBV_WC_WITH_INV;
            EXPECT_EQ(wc.invalidated_rkey, move_.key);
        }
        EXPECT_EQ(wc.wc_flags, flags);
        if (lane_.is_datagram()) {
            EXPECT_EQ(wc.src_qp, lane_.a().qp->qp_num);
            if (!(column_.flags & IBV_SEND_SIGNALED)) {
                EXPECT_EQ(success(lane_.receive_cq()).wr_id, kMarker);
            }
        }
        EXPECT_TRUE(empty(lane_.receive_cq()));
    }

    // Solicited means something where a receive completes.
    void notified(bool expected) {
        EXPECT_EQ(readable(lane_.b().channel->fd, expected ? kPatienceMs : 0), expected);
        if (!expected) return;
        ibv_cq* cq;
        void* context;
        ASSERT_EQ(ibv_get_cq_event(lane_.b().channel, &cq, &context), 0);
        EXPECT_EQ(cq, lane_.receive_cq());
        ibv_ack_cq_events(cq, 1);
    }

    void compare(std::size_t length) {
        Memory &local = lane_.local(), &remote = lane_.remote();
        if (rule_.form == transport::Form::local || rule_.operation == Operation::flush) return;
        if (rule_.form == transport::Form::atomic) {
            EXPECT_EQ(local.word(0), Lane::kAddend) << "what was there before";
            EXPECT_EQ(remote.word(0), Lane::kAddend * (rule_.operation == Operation::fetch_add ? 2 : 1));
            return;
        }
        Memory& target = rule_.operation == Operation::rdma_read ? local : remote;
        const std::size_t at = lane_.is_datagram() ? kGrhLength : 0;
        EXPECT_TRUE(wait_until([&] { return target.holds(seed_, length, at); })) << "UC's WRITE tells nobody";
        EXPECT_EQ(target.data()[at + length], 0) << "behind the end";
    }

    Lane& lane_;
    const OperationRule& rule_;
    const Column& column_;
    Move move_;
    std::uint8_t seed_ = 0;
};

std::string text_of(int error) {
    switch (error) {
        case 0:
            return "yes";
        case EINVAL:
            return "EINVAL";
        case EOPNOTSUPP:
            return "EOPNOTSUPP";
        default:
            return "error " + std::to_string(error);
    }
}

// An XRC target queue pair cannot bind windows, so nothing that it has can be invalidated: the request leaves
// and is refused there.
bool ends_remotely(Service service, Operation operation) {
    return service == Service::xrc_send && operation == Operation::send_with_invalidate;
}

std::string run_cell(Lane& lane, Service service, const OperationRule& rule, const Column& column,
                     Interface interface) {
    SCOPED_TRACE(column.name);
    const bool inline_data = column.flags & IBV_SEND_INLINE;
    int expected = transport::allowed(service, rule, inline_data);
    if (expected == 0 && interface == Interface::work_requests && !rule.in_work_request) expected = EINVAL;
    Cell cell(lane, rule, column);
    if (expected) {
        EXPECT_TRUE(refused(expected, [&] { return cell.post(8); }));
        return text_of(expected);
    }
    if (ends_remotely(service, rule.operation)) {
        Lane own(service, interface);  // it does not survive
        EXPECT_EQ(own.post_receive(1, 64), 0);
        EXPECT_EQ(Cell(own, rule, column).post(8), 0);
        const ibv_wc_status status = completion(own.a().send_cq).status;
        EXPECT_TRUE(status == IBV_WC_REM_INV_REQ_ERR || status == IBV_WC_REM_ACCESS_ERR ||
                    status == IBV_WC_REM_OP_ERR)
            << ibv_wc_status_str(status);
        return "remote error";
    }
    for (std::size_t length : sizes_of(rule, lane.is_datagram(), inline_data)) {
        cell.move(length);
        if (testing::Test::HasFatalFailure()) return "fails";
    }
    if (inline_data) {
        EXPECT_TRUE(refused(EINVAL, [&] { return cell.post(Lane::kInline + 1); }));
    }
    return text_of(0);
}

std::string run_row(Service service, const OperationRule& rule, Interface interface) {
    SCOPED_TRACE(rule.name);
    std::string line = interface == Interface::functions
                           ? "| | `ibv_wr_*` |"
                           : std::string("| ") + rule.name + " | work requests |";
    if (interface == Interface::functions && transport::allowed(service, rule, false) != 0) {
        EXPECT_EQ(Lane::creatable(service, rule.operation), EOPNOTSUPP);
        for ([[maybe_unused]] const Column& column : kColumns) line += " EOPNOTSUPP |";
        return line + "\n";
    }
    Lane lane(service, interface);
    for (const Column& column : kColumns)
        line += " " + run_cell(lane, service, rule, column, interface) + " |";
    return line + "\n";
}

std::string run_service(const Row& row) {
    SCOPED_TRACE(row.name);
    std::string text = std::string("\n## ") + row.name + "\n\n| Operation | Interface |";
    for (const Column& column : kColumns) text += std::string(" ") + column.name + " |";
    text += "\n|---|---|---|---|---|---|---|\n";
    for (const OperationRule& rule : transport::kOperations)
        for (Interface interface : {Interface::work_requests, Interface::functions})
            if (interface == Interface::work_requests || rule.operation != Operation::driver1)
                text += run_row(row.service, rule, interface);
    return text;
}

constexpr const char* kHeading =
    R"(# Operations

Which send operations each service takes, with which flags, through which posting interface. Every cell was run to
write this table: "yes" moved 0, 1, MTU-1, MTU, MTU+1 bytes and 1 MiB (what is shorter by nature at its own sizes; UD
up to one MTU, inline data up to `max_inline_data`) and compared memory and both sides' completions. A forbidden cell
was refused, with a reason: by `ibv_post_send` and `ibv_wr_complete` with EINVAL or EOPNOTSUPP, and, where the whole
operation is forbidden, by `ibv_create_qp_ex` when `send_ops_flags` asks for it. "remote error": the request leaves, but
an XRC target queue pair cannot bind memory windows, so it has nothing to invalidate and answers with an error.

`verbs_calls_test --gtest_filter=Matrix.*` runs it; with `VERBENA_WRITE_DOCS=1` it writes this file.
)";

TEST(Matrix, EveryCell) {
    std::string text = kHeading;
    for (const Row& row : kServices) text += run_service(row);
    const std::string path = std::string(VERBENA_SOURCE_DIR) + "/docs/operations.md";
    if (HasFailure()) return;
    if (std::getenv("VERBENA_WRITE_DOCS")) {
        std::ofstream(path) << text;
        return;
    }
    std::ifstream file(path, std::ios::binary);
    const std::string known{std::istreambuf_iterator<char>(file), {}};
    EXPECT_EQ(known, text) << "docs/operations.md is out of date";
}

// A datagram is one packet: what is longer completes in error and stops the send queue (IBA 9.8.3, 10.3.1.6).
TEST(Matrix, ADatagramLongerThanThePortsMtu) {
    for (Interface interface : {Interface::work_requests, Interface::functions})
        for (std::size_t length : {kMtu + 1, std::size_t{1} << 20}) {
            Lane lane(Service::ud, interface);
            ASSERT_EQ(lane.post_receive(1, length + kGrhLength), 0);
            ASSERT_EQ(lane.post({Operation::send, IBV_SEND_SIGNALED, 3, length, 0}), 0);
            const ibv_wc wc = completion(lane.a().send_cq);
            EXPECT_EQ(wc.status, IBV_WC_LOC_LEN_ERR);
            EXPECT_EQ(wc.wr_id, 3u);
            EXPECT_EQ(lane.a().state(), IBV_QPS_SQE);
            EXPECT_TRUE(empty(lane.receive_cq()));
        }
}

}  // namespace
}  // namespace verbena::verbs_test
