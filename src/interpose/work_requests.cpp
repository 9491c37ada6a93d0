// ibv_wr_*(): requests are collected from wr_start() on, as the library does it, and told by wr_complete().

#include <memory>
#include <utility>

#include "interpose/hooks.h"

namespace verbena::interpose {
namespace {

constexpr int kAtomicWrite = 15;  // IBV_WR_ATOMIC_WRITE; an enumerator of some headers, a macro of others

const ibv_qp_ex& real(ibv_qp_ex* qp) { return pointers_of(qp).functions; }

// A request begins with its opcode; wr_id and flags are fields that the program has set before.
SendRequest& add(ibv_qp_ex* qp, int opcode) {
    SendRequest& request = pointers_of(qp).requests.emplace_back();
    request.wr_id = qp->wr_id;
    request.flags = qp->wr_flags;
    request.opcode = opcode;
    return request;
}

SendRequest& add(ibv_qp_ex* qp, int opcode, std::uint32_t rkey, std::uint64_t remote_address) {
    SendRequest& request = add(qp, opcode);
    request.rkey = rkey;
    request.remote_address = remote_address;
    return request;
}

// What is set before any request begins is the program's mistake, which the library answers.
template <class Set>
void on_last(ibv_qp_ex* qp, Set set) {
    if (auto& requests = pointers_of(qp).requests; !requests.empty()) set(requests.back());
}

void wr_start(ibv_qp_ex* qp) {
    // The library takes its lock first: until it does, the requests are another thread's.
    real(qp).wr_start(qp);
    pointers_of(qp).requests.clear();
}

int wr_complete(ibv_qp_ex* qp) { return forward<calls::ibv_wr_complete>(real(qp).wr_complete, qp); }

void wr_abort(ibv_qp_ex* qp) {
    pointers_of(qp).requests.clear();
    real(qp).wr_abort(qp);
}

void wr_send(ibv_qp_ex* qp) {
    add(qp, IBV_WR_SEND);
    real(qp).wr_send(qp);
}

void wr_send_imm(ibv_qp_ex* qp, __be32 immediate) {
    add(qp, IBV_WR_SEND_WITH_IMM).immediate = immediate;
    real(qp).wr_send_imm(qp, immediate);
}

void wr_send_inv(ibv_qp_ex* qp, std::uint32_t rkey) {
    add(qp, IBV_WR_SEND_WITH_INV).immediate = rkey;
    real(qp).wr_send_inv(qp, rkey);
}

void wr_send_tso(ibv_qp_ex* qp, void* header, std::uint16_t size, std::uint16_t mss) {
    add(qp, IBV_WR_TSO);
    real(qp).wr_send_tso(qp, header, size, mss);
}

void wr_rdma_write(ibv_qp_ex* qp, std::uint32_t rkey, std::uint64_t address) {
    add(qp, IBV_WR_RDMA_WRITE, rkey, address);
    real(qp).wr_rdma_write(qp, rkey, address);
}

void wr_rdma_write_imm(ibv_qp_ex* qp, std::uint32_t rkey, std::uint64_t address, __be32 immediate) {
    add(qp, IBV_WR_RDMA_WRITE_WITH_IMM, rkey, address).immediate = immediate;
    real(qp).wr_rdma_write_imm(qp, rkey, address, immediate);
}

void wr_rdma_read(ibv_qp_ex* qp, std::uint32_t rkey, std::uint64_t address) {
    add(qp, IBV_WR_RDMA_READ, rkey, address);
    real(qp).wr_rdma_read(qp, rkey, address);
}

void wr_atomic_cmp_swp(ibv_qp_ex* qp, std::uint32_t rkey, std::uint64_t address, std::uint64_t compare,
                       std::uint64_t swap) {
    SendRequest& request = add(qp, IBV_WR_ATOMIC_CMP_AND_SWP, rkey, address);
    request.compare_add = compare;
    request.swap = swap;
    real(qp).wr_atomic_cmp_swp(qp, rkey, address, compare, swap);
}

void wr_atomic_fetch_add(ibv_qp_ex* qp, std::uint32_t rkey, std::uint64_t address, std::uint64_t value) {
    add(qp, IBV_WR_ATOMIC_FETCH_AND_ADD, rkey, address).compare_add = value;
    real(qp).wr_atomic_fetch_add(qp, rkey, address, value);
}

void wr_atomic_write(ibv_qp_ex* qp, std::uint32_t rkey, std::uint64_t address, const void* value) {
    add(qp, kAtomicWrite, rkey, address);
    real(qp).wr_atomic_write(qp, rkey, address, value);
}

void wr_bind_mw(ibv_qp_ex* qp, ibv_mw* window, std::uint32_t rkey, const ibv_mw_bind_info* info) {
    SendRequest& request = add(qp, IBV_WR_BIND_MW);
    request.mw = window;
    request.rkey = rkey;
    real(qp).wr_bind_mw(qp, window, rkey, info);
}

void wr_local_inv(ibv_qp_ex* qp, std::uint32_t rkey) {
    add(qp, IBV_WR_LOCAL_INV).immediate = rkey;
    real(qp).wr_local_inv(qp, rkey);
}

void wr_set_ud_addr(ibv_qp_ex* qp, ibv_ah* ah, std::uint32_t qpn, std::uint32_t qkey) {
    on_last(qp, [&](SendRequest& request) {
        request.ah = ah;
        request.remote_qpn = qpn;
        request.remote_qkey = qkey;
    });
    real(qp).wr_set_ud_addr(qp, ah, qpn, qkey);
}

void wr_set_xrc_srqn(ibv_qp_ex* qp, std::uint32_t number) {
    on_last(qp, [&](SendRequest& request) { request.remote_srqn = number; });
    real(qp).wr_set_xrc_srqn(qp, number);
}

void wr_set_inline_data(ibv_qp_ex* qp, void* data, std::size_t length) {
    on_last(qp, [&](SendRequest& request) {
        request.inline_length = length;
        request.flags |= IBV_SEND_INLINE;
    });
    real(qp).wr_set_inline_data(qp, data, length);
}

void wr_set_inline_data_list(ibv_qp_ex* qp, std::size_t count, const ibv_data_buf* list) {
    on_last(qp, [&](SendRequest& request) {
        for (std::size_t i = 0; i < count; i++) request.inline_length += list[i].length;
        request.flags |= IBV_SEND_INLINE;
    });
    real(qp).wr_set_inline_data_list(qp, count, list);
}

void wr_set_sge(ibv_qp_ex* qp, std::uint32_t lkey, std::uint64_t address, std::uint32_t length) {
    on_last(qp, [&](SendRequest& request) { request.sges = {{address, length, lkey}}; });
    real(qp).wr_set_sge(qp, lkey, address, length);
}

void wr_set_sge_list(ibv_qp_ex* qp, std::size_t count, const ibv_sge* list) {
    on_last(qp, [&](SendRequest& request) { request.sges.assign(list, list + count); });
    real(qp).wr_set_sge_list(qp, count, list);
}

}  // namespace

void watch_queue_pair(ibv_qp_ex* qp) {
    if (!qp || qp->wr_complete == wr_complete) return;
    auto pointers = std::make_unique<QueuePairPointers>();
    pointers->functions = *qp;
    keep(qp, std::move(pointers));
    const auto replace = [](auto& pointer, auto ours) {
        if (pointer) pointer = ours;
    };
    replace(qp->wr_start, wr_start);
    replace(qp->wr_complete, wr_complete);
    replace(qp->wr_abort, wr_abort);
    replace(qp->wr_send, wr_send);
    replace(qp->wr_send_imm, wr_send_imm);
    replace(qp->wr_send_inv, wr_send_inv);
    replace(qp->wr_send_tso, wr_send_tso);
    replace(qp->wr_rdma_write, wr_rdma_write);
    replace(qp->wr_rdma_write_imm, wr_rdma_write_imm);
    replace(qp->wr_rdma_read, wr_rdma_read);
    replace(qp->wr_atomic_cmp_swp, wr_atomic_cmp_swp);
    replace(qp->wr_atomic_fetch_add, wr_atomic_fetch_add);
    replace(qp->wr_atomic_write, wr_atomic_write);
    replace(qp->wr_bind_mw, wr_bind_mw);
    replace(qp->wr_local_inv, wr_local_inv);
    replace(qp->wr_set_ud_addr, wr_set_ud_addr);
    replace(qp->wr_set_xrc_srqn, wr_set_xrc_srqn);
    replace(qp->wr_set_inline_data, wr_set_inline_data);
    replace(qp->wr_set_inline_data_list, wr_set_inline_data_list);
    replace(qp->wr_set_sge, wr_set_sge);
    replace(qp->wr_set_sge_list, wr_set_sge_list);
}

}  // namespace verbena::interpose
