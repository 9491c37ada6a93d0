// Requests and completions as strict_requests.h wants them; and what a program must not look at in these.

#include <cstring>
#include <limits>

#include "interpose/strict.h"
#include "interpose/strict_state.h"

namespace verbena::interpose::strict_mode {
namespace {

constexpr std::size_t kAll = std::numeric_limits<std::size_t>::max();

std::vector<StrictBuffer> buffers_of(const ibv_context* context, const ibv_sge* list, std::size_t count) {
    std::vector<StrictBuffer> buffers;
    for (std::size_t i = 0; list && i < count; i++)
        buffers.push_back({list[i].addr, list[i].length, list[i].lkey, context});
    return buffers;
}

// What the adapter does with the buffers until the request completes; inline data it does not see.
enum class Access { none, reads, other };

Access access_of(const SendRequest& request) {
    if (request.flags & IBV_SEND_INLINE) return Access::none;
    switch (request.opcode) {
        case IBV_WR_SEND:
        case IBV_WR_SEND_WITH_IMM:
        case IBV_WR_SEND_WITH_INV:
        case IBV_WR_RDMA_WRITE:
        case IBV_WR_RDMA_WRITE_WITH_IMM:
            return Access::reads;
        case IBV_WR_BIND_MW:
        case IBV_WR_LOCAL_INV:
            return Access::none;
        default:
            return Access::other;
    }
}

// The caller has the lock.
StrictSend strict_form(const ibv_qp* qp, const SendRequest& request) {
    StrictSend send;
    send.wr_id = request.wr_id;
    send.signaled = request.flags & IBV_SEND_SIGNALED || state().all_signaled.count(qp);
    const Access access = access_of(request);
    if (access == Access::none) return send;
    send.buffers = buffers_of(qp->context, request.sges.data(), request.sges.size());
    // One with a fence waits for a READ, perhaps into the same memory.
    send.reads_memory = access == Access::reads && !(request.flags & IBV_SEND_FENCE);
    return send;
}

// How many of a list stand before this one.
template <class Request>
std::size_t count_before(const Request* list, const Request* end) {
    std::size_t count = 0;
    for (; list && list != end; list = list->next) count++;
    return count;
}

}  // namespace

std::uint64_t post_send(const ibv_qp* qp, const std::vector<SendRequest>& requests) {
    if (!strict()) return 0;
    Locked locked(lock);
    std::vector<StrictSend> all;
    all.reserve(requests.size());
    for (const SendRequest& request : requests) all.push_back(strict_form(qp, request));
    return state().requests.post_send(qp, all);
}

std::uint64_t post_send(const ibv_qp* qp, const ibv_send_wr* list) {
    if (!strict()) return 0;
    std::vector<SendRequest> requests;
    for (; list; list = list->next) requests.push_back(request_of(*list));
    return post_send(qp, requests);
}

void posted_send(const ibv_qp* qp, std::uint64_t ticket, bool success) {
    if (!strict()) return;
    Locked locked(lock);
    state().requests.posted_send(qp, ticket, success ? kAll : 0);
}

void posted_send(const ibv_qp* qp, std::uint64_t ticket, const ibv_send_wr* list, const ibv_send_wr* bad) {
    if (!strict()) return;
    const std::size_t accepted = bad ? count_before(list, bad) : kAll;
    Locked locked(lock);
    state().requests.posted_send(qp, ticket, accepted);
}

std::uint64_t post_receive(const void* queue, const ibv_context* context, const ibv_recv_wr* list) {
    if (!strict()) return 0;
    std::vector<StrictReceive> all;
    for (; list; list = list->next)
        all.push_back(
            {list->wr_id, buffers_of(context, list->sg_list,
                                     static_cast<std::size_t>(list->num_sge > 0 ? list->num_sge : 0))});
    Locked locked(lock);
    return state().requests.post_receive(queue, all);
}

void posted_receive(const void* queue, std::uint64_t ticket, const ibv_recv_wr* list,
                    const ibv_recv_wr* bad) {
    if (!strict()) return;
    const std::size_t accepted = bad ? count_before(list, bad) : kAll;
    Locked locked(lock);
    state().requests.posted_receive(queue, ticket, accepted);
}

std::uint64_t poll_begins(const ibv_cq* cq, int most) {
    if (!strict()) return 0;
    Locked locked(lock);
    return state().requests.poll_begins(cq, most > 0 ? static_cast<std::uint32_t>(most) : 0);
}

void poll_ends(const ibv_cq* cq, int most) {
    if (!strict()) return;
    Locked locked(lock);
    state().requests.poll_ends(cq, most > 0 ? static_cast<std::uint32_t>(most) : 0);
}

void completed(const ibv_cq* cq, const Requests::Completion& completion, std::uint64_t began) {
    if (!strict()) return;
    Locked locked(lock);
    state().requests.completed(cq, completion, began);
}

void completed(const ibv_cq* cq, const ibv_wc& wc, std::uint64_t began) {
    completed(cq, {wc.qp_num, wc.wr_id, wc.status == IBV_WC_SUCCESS, (wc.opcode & IBV_WC_RECV) != 0}, began);
}

void poison(ibv_wc& wc) {
    constexpr std::uint32_t kPoison = 0xdeadbeef;
    if (!strict()) return;
    if (wc.status != IBV_WC_SUCCESS) {  // then only wr_id, status, qp_num and vendor_err are defined
        std::memcpy(&wc.opcode, &kPoison, sizeof wc.opcode);
        wc.byte_len = kPoison;
        wc.imm_data = kPoison;
        wc.src_qp = kPoison;
        wc.wc_flags = kPoison;
        wc.pkey_index = wc.slid = 0xdead;
        wc.sl = wc.dlid_path_bits = 0xde;
        return;
    }
    const bool receive = wc.opcode & IBV_WC_RECV;
    if (!(wc.wc_flags & (IBV_WC_WITH_IMM | IBV_WC_WITH_INV))) wc.imm_data = kPoison;
    if (wc.opcode == IBV_WC_SEND || wc.opcode == IBV_WC_RDMA_WRITE) wc.byte_len = kPoison;
    if (!receive) {  // of datagrams received only
        wc.src_qp = kPoison;
        wc.slid = 0xdead;
        wc.sl = wc.dlid_path_bits = 0xde;
    }
}

}  // namespace verbena::interpose::strict_mode
