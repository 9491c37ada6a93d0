// Requests that complete in error.
#include "mistake.h"
#include "verbena.h"

namespace verbena::mistakes {
namespace {

std::string event_reason(ibv_context* context, ibv_event_type type) {
    ibv_async_event event;
    EXPECT_EQ(ibv_get_async_event(context, &event), 0);
    if (event.event_type == IBV_EVENT_COMM_EST) {  // the first packet came in RTR
        ibv_ack_async_event(&event);
        EXPECT_EQ(ibv_get_async_event(context, &event), 0);
    }
    EXPECT_EQ(event.event_type, type);
    const std::string text = verbena_async_event_reason(&event);
    ibv_ack_async_event(&event);
    return text;
}

Options once() {
    Options options;
    options.rnr_retry = 0;
    return options;
}

// The sender's own memory. `spoil` changes the element; the request is a READ if `read`.
template <class Spoil>
std::string own_memory(Spoil spoil, bool read = false, int access = IBV_ACCESS_LOCAL_WRITE) {
    Pair pair;
    Memory memory(pair.a.pd, 4096, access), remote(pair.b.pd, 4096), receive(pair.b.pd, 4096);
    EXPECT_EQ(pair.b.post_receive(2, receive.sge(0, 4096)), 0);
    ibv_sge sge = memory.sge(0, 100);
    spoil(sge, memory, pair);
    Request request(7, read ? IBV_WR_RDMA_READ : IBV_WR_SEND, &sge, 1);
    EXPECT_EQ(request.to(remote).post(pair.a.qp), 0);
    const std::string text = reason_of(pair.a.send_cq, IBV_WC_LOC_PROT_ERR);
    return text;
}

std::string freed_region() {
    Pair pair;
    Memory memory(pair.a.pd, 4096);
    ibv_sge sge = memory.sge(0, 100);
    EXPECT_EQ(ibv_dereg_mr(memory.mr), 0);
    memory.mr = nullptr;
    EXPECT_EQ(Request(7, IBV_WR_SEND, &sge, 1).post(pair.a.qp), 0);
    return reason_of(pair.a.send_cq, IBV_WC_LOC_PROT_ERR);
}

std::string other_domain() {
    Pair pair;
    ibv_pd* other = ibv_alloc_pd(pair.a.context);
    std::string text;
    {
        Memory memory(other, 4096);
        ibv_sge sge = memory.sge(0, 100);
        EXPECT_EQ(Request(7, IBV_WR_SEND, &sge, 1).post(pair.a.qp), 0);
        text = reason_of(pair.a.send_cq, IBV_WC_LOC_PROT_ERR);
    }
    EXPECT_EQ(ibv_dealloc_pd(other), 0);
    return text;
}

// The peer's memory: a WRITE of 100 bytes, spoilt. What the writer hears, or, if `theirs`, the owner.
template <class Spoil>
std::string peer_memory(Spoil spoil, bool theirs, int access = kAllAccess) {
    Pair pair;
    Memory memory(pair.a.pd, 4096), remote(pair.b.pd, 4096, access);
    ibv_sge sge = memory.sge(0, 100);
    Request request(7, IBV_WR_RDMA_WRITE, &sge, 1);
    request.to(remote);
    spoil(request, remote, pair);
    EXPECT_EQ(request.post(pair.a.qp), 0);
    const std::string heard = reason_of(pair.a.send_cq, IBV_WC_REM_ACCESS_ERR);
    return theirs ? event_reason(pair.b.context, IBV_EVENT_QP_ACCESS_ERR) : heard;
}

std::string peers_other_domain() {
    Pair pair;
    ibv_pd* other = ibv_alloc_pd(pair.b.context);
    std::string text;
    {
        Memory memory(pair.a.pd, 4096), remote(other, 4096);
        ibv_sge sge = memory.sge(0, 100);
        EXPECT_EQ(Request(7, IBV_WR_RDMA_WRITE, &sge, 1).to(remote).post(pair.a.qp), 0);
        reason_of(pair.a.send_cq, IBV_WC_REM_ACCESS_ERR);
        text = event_reason(pair.b.context, IBV_EVENT_QP_ACCESS_ERR);
    }
    EXPECT_EQ(ibv_dealloc_pd(other), 0);
    return text;
}

// The queue pair's own flags: set again, without the right.
void take_right(Side& side) {
    ibv_qp_attr to{};
    to.qp_access_flags = IBV_ACCESS_LOCAL_WRITE;
    EXPECT_EQ(ibv_modify_qp(side.qp, &to, IBV_QP_ACCESS_FLAGS), 0);
}

// What the owner of the memory hears whose queue pair allows nothing.
std::string forbidden_by_queue_pair(ibv_wr_opcode opcode) {
    Pair pair;
    Memory memory(pair.a.pd, 4096), remote(pair.b.pd, 4096);
    ibv_sge sge = memory.sge(0, 100);
    take_right(pair.b);
    EXPECT_EQ(Request(7, opcode, &sge, 1).to(remote).post(pair.a.qp), 0);
    reason_of(pair.a.send_cq, IBV_WC_REM_INV_REQ_ERR);
    return event_reason(pair.b.context, IBV_EVENT_QP_REQ_ERR);
}

// A SEND of 100 bytes to one receive, spoilt. Returns what the receiver hears, or the sender.
template <class Spoil>
std::string receive_of(Spoil spoil, ibv_wc_status receiver, ibv_wc_status sender, bool theirs,
                       int access = kAllAccess) {
    Pair pair;
    Memory memory(pair.a.pd, 4096), buffer(pair.b.pd, 4096, access);
    ibv_sge sge = buffer.sge(0, 4096);
    spoil(sge);
    EXPECT_EQ(pair.b.post_receive(9, sge), 0);
    ibv_sge data = memory.sge(0, 100);
    EXPECT_EQ(Request(7, IBV_WR_SEND, &data, 1).post(pair.a.qp), 0);
    const std::string heard = reason_of(pair.a.send_cq, sender);
    const std::string theirs_heard = reason_of(pair.b.receive_cq, receiver);
    return theirs ? theirs_heard : heard;
}

constexpr auto nothing = [](auto&&...) {};

std::string no_receive() {
    Pair pair(once());
    Memory memory(pair.a.pd, 64);
    ibv_sge sge = memory.sge(0, 8);
    EXPECT_EQ(Request(7, IBV_WR_SEND, &sge, 1).post(pair.a.qp), 0);
    return reason_of(pair.a.send_cq, IBV_WC_RNR_RETRY_EXC_ERR);
}

// `right` is ready to receive from `other`, and `other` from `right` but for what is spoilt.
template <class Spoil>
void half_connect(Side& right, Side& other, Spoil spoil) {
    EXPECT_EQ(right.to_init(), 0);
    EXPECT_EQ(other.to_init(), 0);
    EXPECT_EQ(right.to_rtr(other.gid(), other.qp->qp_num), 0);
    ibv_qp_attr to = right_rtr(right);
    to.rq_psn = 0xfffff0;  // as Side's
    spoil(to);
    EXPECT_EQ(ibv_modify_qp(other.qp, &to, kRtrMask), 0);
}

// Nobody answers: one short timeout, no retry.
template <class Spoil>
std::string no_answer(Spoil spoil) {
    Options options;
    options.connect = false;
    Pair pair(options);
    Memory memory(pair.a.pd, 64), buffer(pair.b.pd, 64);
    half_connect(pair.b, pair.a, spoil);
    EXPECT_EQ(pair.b.post_receive(9, buffer.sge(0, 64)), 0);
    ibv_qp_attr to{};
    to.qp_state = IBV_QPS_RTS;
    to.timeout = 1;
    to.retry_cnt = 0;
    to.rnr_retry = 7;
    to.max_rd_atomic = 1;
    EXPECT_EQ(ibv_modify_qp(pair.a.qp, &to,
                            IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                                IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC),
              0);
    ibv_sge sge = memory.sge(0, 8);
    EXPECT_EQ(Request(7, IBV_WR_SEND, &sge, 1).post(pair.a.qp), 0);
    return reason_of(pair.a.send_cq, IBV_WC_RETRY_EXC_ERR);
}

// b's window of READs at once is 1, and a sends four.
std::string too_many_reads() {
    Options options;
    options.connect = false;
    Pair pair(options);
    Memory memory(pair.a.pd, 1 << 20), remote(pair.b.pd, 1 << 20);
    half_connect(pair.a, pair.b, [&](ibv_qp_attr& to) {
        to.path_mtu = options.mtu;
        to.max_dest_rd_atomic = 0;
    });
    EXPECT_EQ(pair.a.to_rts(), 0);
    ibv_sge sge = memory.sge(0, 4096);
    EXPECT_EQ(Request(7, IBV_WR_RDMA_READ, &sge, 1).to(remote).post(pair.a.qp), 0);
    reason_of(pair.a.send_cq, IBV_WC_REM_INV_REQ_ERR);
    return event_reason(pair.b.context, IBV_EVENT_QP_REQ_ERR);
}

// The sender's packets are longer than the receiver's path MTU.
std::string other_mtu() {
    Options options;
    options.connect = false;
    Pair pair(options);
    Memory memory(pair.a.pd, 16384), remote(pair.b.pd, 16384);
    half_connect(pair.a, pair.b, nothing);  // right_rtr() has 1024 bytes
    EXPECT_EQ(pair.a.to_rts(), 0);
    Memory buffer(pair.b.pd, 16384);
    EXPECT_EQ(pair.b.post_receive(9, buffer.sge(0, 16384)), 0);
    ibv_sge sge = memory.sge(0, 16384);
    EXPECT_EQ(Request(7, IBV_WR_SEND, &sge, 1).post(pair.a.qp), 0);
    reason_of(pair.a.send_cq, IBV_WC_REM_INV_REQ_ERR);
    return {};
}

std::string flushed_by_program() {
    Pair pair;
    Memory memory(pair.a.pd, 64);
    EXPECT_EQ(pair.a.post_receive(9, memory.sge(0, 64)), 0);
    ibv_qp_attr to{};
    to.qp_state = IBV_QPS_ERR;
    EXPECT_EQ(ibv_modify_qp(pair.a.qp, &to, IBV_QP_STATE), 0);
    return reason_of(pair.a.receive_cq, IBV_WC_WR_FLUSH_ERR);
}

// The first completion tells the fault; the flushed ones behind it refer to it.
std::string flushed_by_failure() {
    Pair pair(once());
    Memory memory(pair.a.pd, 64);
    ibv_sge sge = memory.sge(0, 8);
    EXPECT_EQ(pair.a.post_receive(9, memory.sge(0, 64)), 0);
    EXPECT_EQ(Request(7, IBV_WR_SEND, &sge, 1).post(pair.a.qp), 0);
    const std::string first = reason_of(pair.a.send_cq, IBV_WC_RNR_RETRY_EXC_ERR);
    const std::string flushed = reason_of(pair.a.receive_cq, IBV_WC_WR_FLUSH_ERR);
    EXPECT_EQ(flushed, "flushed: the queue pair is in the error state: " + first);
    return first;
}

std::string small_cq(bool event) {
    Options options;
    options.cqe = 1;
    Pair pair(options);
    Memory memory(pair.a.pd, 64), remote(pair.b.pd, 64);
    ibv_sge sge = memory.sge(0, 8);
    const int room = pair.a.send_cq->cqe;
    for (int i = 0; i <= room; i++)
        EXPECT_EQ(Request(7, IBV_WR_RDMA_WRITE, &sge, 1).to(remote).post(pair.a.qp), 0);
    ibv_async_event asynchronous;
    EXPECT_EQ(ibv_get_async_event(pair.a.context, &asynchronous), 0);
    const std::string text = verbena_async_event_reason(&asynchronous);
    EXPECT_NE(text, "");
    ibv_ack_async_event(&asynchronous);
    if (event) return {};
    ibv_wc wc;
    EXPECT_LT(ibv_poll_cq(pair.a.send_cq, 1, &wc), 0);
    return {};
}

}  // namespace

const std::vector<Mistake>& completion_mistakes() {
    static const std::vector<Mistake> table = {
        {"lkey_unknown", From::other,
         [] { return own_memory([](ibv_sge& s, Memory&, Pair&) { s.lkey = kNoKey & ~1u; }); },
         "no region has this lkey \\(lkey 0xffff42, address 0x[0-9a-f]+, 100 bytes\\)"},
        {"region_freed_too_early", From::other, freed_region,
         "no region has this lkey \\(lkey 0x[0-9a-f]+, .*; the region of that key was deregistered\\)",
         "https://github.com/spdk/spdk/issues/3807",
         "local protection error after hours of load, because a buffer's region was gone by then; that it "
         "was "
         "deregistered is said."},
        {"rkey_as_lkey", From::other,
         [] { return own_memory([](ibv_sge& s, Memory& m, Pair&) { s.lkey = m.mr->rkey; }); },
         "no region has this lkey \\(lkey 0x[0-9a-f]+, which is an rkey"},
        {"buffer_outside_region", From::other,
         [] { return own_memory([](ibv_sge& s, Memory&, Pair&) { s.addr += 4090; }); },
         "the buffer is not inside the lkey's region \\(lkey .*, 100 bytes; the region is 0x[0-9a-f]+, 4096 "
         "bytes",
         "https://github.com/Nugine/rdma/issues/4",
         "The reporter was \"pretty sure\" not to exceed the region: range and region stand side by side."},
        {"region_of_other_pd", From::other, other_domain, "the lkey belongs to another protection domain",
         "https://github.com/spdk/spdk/issues/961",
         "A local protection error that was suspected to be about the protection domain: yes or no is said."},
        {"read_into_read_only", From::other, [] { return own_memory(nothing, true, 0); },
         "needs a region with IBV_ACCESS_LOCAL_WRITE \\(.*access 0x0\\)"},
        {"lkey_as_rkey", From::other,
         [] { return peer_memory([](Request& r, Memory& m, Pair&) { r.wr.rdma.rkey = m.mr->lkey; }, true); },
         "no region has this rkey \\(rkey 0x[0-9a-f]+, which is an lkey; VERBENA_KEYS=either takes it, "
         "address 0x[0-9a-f]+, 100 bytes",
         "https://github.com/animeshtrivedi/rdma-example/pull/4",
         "The example sends lkeys, which works where both are equal: the sentence says that the key is an "
         "lkey."},
        {"writer_without_right", From::other,
         [] { return peer_memory(nothing, false, IBV_ACCESS_LOCAL_WRITE); },
         "the peer answered NAK remote access error \\(rkey 0x[0-9a-f]+, address 0x[0-9a-f]+, 100 bytes\\)"},
        {"rkey_out_of_range", From::other,
         [] { return peer_memory([](Request& r, Memory&, Pair&) { r.wr.rdma.remote_addr += 4000; }, true); },
         "outside the rkey's region \\(rkey .*, 100 bytes; the region is 0x[0-9a-f]+, 4096 bytes"},
        {"rkey_of_freed_region", From::other,
         [] {
             return peer_memory(
                 [](Request&, Memory& m, Pair&) {
                     EXPECT_EQ(ibv_dereg_mr(m.mr), 0);
                     m.mr = nullptr;
                 },
                 true);
         },
         "no region has this rkey \\(rkey .*; the region of that key was deregistered\\)",
         "https://github.com/ofiwg/libfabric/issues/8257",
         "IBV_WC_REM_ACCESS_ERR because a registration had failed unnoticed; the key that names nothing is "
         "shown."},
        {"rkey_of_other_pd", From::other, peers_other_domain,
         "the rkey belongs to another protection domain than the QP \\(rkey",
         "https://github.com/chimera-nas/libevpl/pull/89",
         "The rkey was of the other adapter's protection domain; it took them several debugging passes, "
         "everything "
         "else being right."},
        {"region_without_remote_write", From::other,
         [] { return peer_memory(nothing, true, IBV_ACCESS_LOCAL_WRITE); },
         "registered without this remote access \\(.*access 0x1\\)"},
        {"qp_without_remote_write", From::other, [] { return forbidden_by_queue_pair(IBV_WR_RDMA_WRITE); },
         "the QP's access flags lack IBV_ACCESS_REMOTE_WRITE"},
        {"qp_without_remote_read", From::other, [] { return forbidden_by_queue_pair(IBV_WR_RDMA_READ); },
         "the QP's access flags lack IBV_ACCESS_REMOTE_READ",
         "https://github.com/microsoft/NetworkDirect/issues/8",
         "A READ ended with IBV_WC_REM_ACCESS_ERR though the memory allowed it; what lacks the right is "
         "said."},
        {"no_receive_posted", From::other, no_receive,
         "the peer had no receive posted.*\\(QP 0x[0-9a-f]+ at .*; rnr_retry 0, so it was asked once",
         "https://github.com/hellas-ai/thunderbolt-ibverbs/pull/71",
         "A race between one side's send and the other's receive broke the queue pair, because rnr_retry was "
         "0."},
        {"receive_too_small", From::other,
         [] {
             return receive_of([](ibv_sge& s) { s.length = 60; }, IBV_WC_LOC_LEN_ERR, IBV_WC_REM_INV_REQ_ERR,
                               true);
         },
         "the message is longer than the receive's buffers \\(which have 60 bytes\\)"},
        {"receive_of_peer_too_small", From::other,
         [] {
             return receive_of([](ibv_sge& s) { s.length = 60; }, IBV_WC_LOC_LEN_ERR, IBV_WC_REM_INV_REQ_ERR,
                               false);
         },
         "the peer answered NAK invalid request"},
        {"receive_into_read_only", From::other,
         [] { return receive_of(nothing, IBV_WC_LOC_PROT_ERR, IBV_WC_REM_OP_ERR, true, 0); },
         "receive: the region lacks IBV_ACCESS_LOCAL_WRITE \\(lkey .*access 0x0\\)"},
        {"receive_with_wrong_lkey", From::other,
         [] {
             return receive_of([](ibv_sge& s) { s.lkey++; }, IBV_WC_LOC_PROT_ERR, IBV_WC_REM_OP_ERR, true);
         },
         "receive: no region has this lkey \\(lkey 0x[0-9a-f]+, which is an rkey"},
        {"wrong_dest_qpn", From::other,
         [] { return no_answer([](ibv_qp_attr& a) { a.dest_qp_num ^= 0x800; }); },
         "QP 0x[0-9a-f]+ at .* does not answer: retry_cnt 0, timeout 1 \\(0.0 ms; the floor is [0-9]+ ms\\)",
         "https://github.com/openucx/ucx/issues/5634",
         "Transport retry count exceeded, made to go away by a number found in the source: the peer, the "
         "count and the "
         "timeout are said."},
        {"wrong_psn", From::other, [] { return no_answer([](ibv_qp_attr& a) { a.sq_psn = 0x123456; }); },
         "QP 0x[0-9a-f]+ at .* does not answer"},
        {"reads_not_allowed_by_peer", From::other, too_many_reads,
         "more READs and atomics at once than max_dest_rd_atomic"},
        {"path_mtu_differs", From::log, other_mtu,
         "a packet whose length does not fit its place and the path MTU"},
        {"flushed_by_the_program", From::alone, flushed_by_program,
         "^flushed: the queue pair is in the error state: ibv_modify_qp moved it to the error state$"},
        {"flushed_by_a_failure", From::other, flushed_by_failure, "the peer had no receive posted"},
        {"cq_too_small", From::log, [] { return small_cq(true); },
         "the completion queue of [0-9]+ places has overrun: .*; make it larger, or poll more often",
         "https://github.com/ROCm/TransferBench/pull/239",
         "ibv_poll_cq seemed to hang at many queue pairs, because the completion queue had overrun: it is "
         "said, with "
         "the size."},
        {"cq_lost", From::call, [] { return small_cq(false); },
         "the completion queue has overrun: more than its [0-9]+ completions waited"},
    };
    return table;
}

}  // namespace verbena::mistakes
