// Requests that are refused at once.
#include "mistake.h"

namespace verbena::mistakes {
namespace {

// A request on a connected pair, spoilt; what it is refused with.
template <class Spoil>
std::string spoilt_send(int error, Options options, ibv_wr_opcode opcode, Spoil spoil) {
    Pair pair(options);
    Memory memory(pair.a.pd, 8192), remote(pair.b.pd, 8192);
    ibv_sge sges[5];
    for (int i = 0; i < 5; i++) sges[i] = memory.sge(0, 8);
    Request request(1, opcode, sges, 1);
    request.to(remote);
    spoil(request, sges);
    expect_errno(error, request.post(pair.a.qp));
    return {};
}

std::string sending_in(ibv_qp_state state) {
    Side side;
    EXPECT_EQ(side.to_init(), 0);
    if (state == IBV_QPS_RTR) {
        EXPECT_EQ(side.to_rtr(side.gid(), side.qp->qp_num), 0);
    }
    Memory memory(side.pd, 64);
    ibv_sge sge = memory.sge(0, 8);
    expect_errno(EINVAL, Request(1, IBV_WR_SEND, &sge, 1).post(side.qp));
    return {};
}

std::string receiving_in_reset() {
    Side side;
    Memory memory(side.pd, 64);
    expect_errno(EINVAL, side.post_receive(1, memory.sge(0, 64)));
    return {};
}

// Nobody polls. A SEND waits for a receive that never comes, so that it keeps its place unsignaled, too; what
// is signaled keeps it when it has completed.
std::string full_send_queue(ibv_wr_opcode opcode, unsigned flags) {
    Options options;
    options.cap.max_send_wr = 4;
    Pair pair(options);
    Memory memory(pair.a.pd, 64), remote(pair.b.pd, 64);
    ibv_sge sge = memory.sge(0, 8);
    int error = 0;
    for (int i = 0; i < 10'000 && !error; i++)
        error = Request(1, opcode, &sge, 1, flags).to(remote).post(pair.a.qp);
    expect_errno(ENOMEM, error);
    return {};
}

std::string full_receive_queue() {
    Options options;
    options.cap.max_recv_wr = 4;
    Pair pair(options);
    Memory memory(pair.a.pd, 64);
    int error = 0;
    for (int i = 0; i < 10'000 && !error; i++) error = pair.a.post_receive(1, memory.sge(0, 64));
    expect_errno(ENOMEM, error);
    return {};
}

std::string receive_besides_shared_queue() {
    Options options;
    options.shared_receives = 8;
    Side side(options);
    EXPECT_EQ(side.to_init(), 0);
    ibv_recv_wr request{}, *bad;
    expect_errno(EINVAL, ibv_post_recv(side.qp, &request, &bad));
    return {};
}

std::string too_many_receive_elements() {
    Side side;
    EXPECT_EQ(side.to_init(), 0);
    Memory memory(side.pd, 64);
    ibv_sge sges[5];
    for (ibv_sge& sge : sges) sge = memory.sge(0, 8);
    expect_errno(EINVAL, side.post_receive(1, sges, 5));
    return {};
}

Options with_type(ibv_qp_type type) {
    Options options;
    options.type = type;
    return options;
}

Options without_depth() {
    Options options;
    options.depth = 0;
    return options;
}

std::string datagram_without_handle() {
    Side side(with_type(IBV_QPT_UD));
    EXPECT_EQ(start_datagrams(side.qp, 0x111), 0);
    Memory memory(side.pd, 64);
    ibv_sge sge = memory.sge(0, 8);
    expect_errno(EINVAL, Request(1, IBV_WR_SEND, &sge, 1).post(side.qp));
    return {};
}

}  // namespace

const std::vector<Mistake>& posting_mistakes() {
    static const std::vector<Mistake> table = {
        {"send_in_init", From::call, [] { return sending_in(IBV_QPS_INIT); },
         "the QP is in INIT; sending needs RTS"},
        {"send_in_rtr", From::call, [] { return sending_in(IBV_QPS_RTR); },
         "the QP is in RTR; sending needs RTS"},
        {"receive_in_reset", From::call, receiving_in_reset,
         "the queue pair is in the reset state and takes no receive requests"},
        {"send_queue_full_unsignaled", From::call, [] { return full_send_queue(IBV_WR_SEND, 0); },
         "the send queue is full: [0-9]+ requests", "https://github.com/spdk/spdk/issues/3195",
         "ENOMEM of ibv_post_send had two explanations in the thread; the sentence says which, with the "
         "size."},
        {"send_queue_full_unpolled", From::call,
         [] { return full_send_queue(IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED); },
         "the send queue is full: [0-9]+ requests, [0-9]+ of which have completed and wait to be polled",
         "https://github.com/uccl-project/uccl/issues/267",
         "Error 12 of ibv_post_send: three guesses (inline, elements, unpolled completions). It was the "
         "third."},
        {"receive_queue_full", From::call, full_receive_queue,
         "the receive queue is full \\([0-9]+ requests\\)",
         "https://github.com/gpudirect/libgdsync/issues/92",
         "ENOMEM was taken for a full completion queue; the sentence says whose queue is full, and its "
         "size."},
        {"receive_besides_srq", From::call, receive_besides_shared_queue,
         "the queue pair has no receive queue of its own"},
        {"too_many_elements", From::call,
         [] { return spoilt_send(EINVAL, {}, IBV_WR_SEND, [](Request& r, ibv_sge*) { r.num_sge = 5; }); },
         "num_sge is 5; the QP was created with max_send_sge 4"},
        {"too_many_receive_elements", From::call, too_many_receive_elements,
         "num_sge is 5; the receive queue was created for at most 4"},
        {"inline_too_big", From::call,
         [] {
             return spoilt_send(EINVAL, {}, IBV_WR_SEND, [](Request& r, ibv_sge* sges) {
                 r.send_flags |= IBV_SEND_INLINE;
                 sges[0].length = 4096;
             });
         },
         "4096 bytes inline; the QP was created with max_inline_data [0-9]+"},
        {"inline_read", From::call,
         [] {
             return spoilt_send(EINVAL, {}, IBV_WR_RDMA_READ,
                                [](Request& r, ibv_sge*) { r.send_flags |= IBV_SEND_INLINE; });
         },
         "takes no inline data; IBV_SEND_INLINE is for SEND, RDMA WRITE"},
        {"atomic_unaligned", From::call,
         [] {
             return spoilt_send(EINVAL, {}, IBV_WR_ATOMIC_FETCH_AND_ADD,
                                [](Request& r, ibv_sge*) { r.wr.atomic.remote_addr += 4; });
         },
         "the atomic's remote_addr 0x[0-9a-f]+ is not a multiple of 8"},
        {"atomic_of_four_bytes", From::call,
         [] {
             return spoilt_send(EINVAL, {}, IBV_WR_ATOMIC_FETCH_AND_ADD,
                                [](Request&, ibv_sge* sges) { sges[0].length = 4; });
         },
         "an atomic needs one element of 8 bytes for the result; num_sge is 1, 4 bytes"},
        {"read_without_depth", From::call,
         [] { return spoilt_send(EINVAL, without_depth(), IBV_WR_RDMA_READ, [](Request&, ibv_sge*) {}); },
         "max_rd_atomic \\(initiator depth\\) is 0: it may send no READ"},
        {"read_on_uc", From::call,
         [] {
             return spoilt_send(EINVAL, with_type(IBV_QPT_UC), IBV_WR_RDMA_READ, [](Request&, ibv_sge*) {});
         },
         "UC has no READ"},
        {"opcode_unknown", From::call,
         [] { return spoilt_send(EINVAL, {}, static_cast<ibv_wr_opcode>(99), [](Request&, ibv_sge*) {}); },
         "work request opcode 99 does not exist"},
        {"datagram_without_handle", From::call, datagram_without_handle,
         "wr.ud.ah is NULL: a datagram needs an address handle"},
    };
    return table;
}

}  // namespace verbena::mistakes
