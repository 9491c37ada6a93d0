#include "verbs/work_builder.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>

#include "adapter/clock.h"
#include "base/call_fault.h"
#include "base/reason.h"
#include "transport/operations.h"
#include "transport/qp_state_table.h"
#include "verbs/mw.h"
#include "verbs/objects.h"
#include "verbs/process.h"

namespace verbena::verbs {
namespace {

using transport::Operation;

constexpr std::size_t kFirstRoom = 16;  // requests

// IBV_QP_EX_WITH_...: bit n is opcode n, but for the two latest.
constexpr std::uint64_t kWithFlush = 1u << 11;
constexpr std::uint64_t kWithAtomicWrite = IBV_QP_EX_WITH_ATOMIC_WRITE;

constexpr std::uint64_t send_op_of(Operation operation) {
    if (operation == Operation::flush) return kWithFlush;
    if (operation == Operation::driver1) return 0;  // has no function
    if (operation == Operation::atomic_write) return kWithAtomicWrite;
    return std::uint64_t{1} << static_cast<unsigned>(operation);
}
static_assert(send_op_of(Operation::rdma_write) == IBV_QP_EX_WITH_RDMA_WRITE);
static_assert(send_op_of(Operation::fetch_add) == IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD);
static_assert(send_op_of(Operation::bind_window) == IBV_QP_EX_WITH_BIND_MW);
static_assert(send_op_of(Operation::send_with_invalidate) == IBV_QP_EX_WITH_SEND_WITH_INV);
static_assert(send_op_of(Operation::tso) == IBV_QP_EX_WITH_TSO);

QueuePair& queue_pair(ibv_qp_ex* ex) { return *QueuePair::of(&ex->qp_base); }
WorkBuilder& builder(ibv_qp_ex* ex) { return *queue_pair(ex).builder; }

// Requests.

transport::SendRequest& add(ibv_qp_ex* ex, Operation operation) { return builder(ex).add(operation); }

transport::SendRequest& add_remote(ibv_qp_ex* ex, Operation operation, std::uint32_t rkey,
                                   std::uint64_t address) {
    transport::SendRequest& request = add(ex, operation);
    request.rkey = rkey;
    request.remote_address = address;
    return request;
}

void wr_send(ibv_qp_ex* ex) { add(ex, Operation::send); }
void wr_send_imm(ibv_qp_ex* ex, __be32 immediate) {
    add(ex, Operation::send_with_immediate).immediate_or_key = immediate;
}
void wr_send_inv(ibv_qp_ex* ex, std::uint32_t rkey) {
    add(ex, Operation::send_with_invalidate).immediate_or_key = rkey;
}
void wr_rdma_write(ibv_qp_ex* ex, std::uint32_t rkey, std::uint64_t address) {
    add_remote(ex, Operation::rdma_write, rkey, address);
}
void wr_rdma_write_imm(ibv_qp_ex* ex, std::uint32_t rkey, std::uint64_t address, __be32 immediate) {
    add_remote(ex, Operation::rdma_write_with_immediate, rkey, address).immediate_or_key = immediate;
}
void wr_rdma_read(ibv_qp_ex* ex, std::uint32_t rkey, std::uint64_t address) {
    add_remote(ex, Operation::rdma_read, rkey, address);
}
void wr_atomic_cmp_swp(ibv_qp_ex* ex, std::uint32_t rkey, std::uint64_t address, std::uint64_t compare,
                       std::uint64_t swap) {
    transport::SendRequest& request = add_remote(ex, Operation::compare_swap, rkey, address);
    request.compare_add = compare;
    request.swap = swap;
}
void wr_atomic_fetch_add(ibv_qp_ex* ex, std::uint32_t rkey, std::uint64_t address, std::uint64_t addend) {
    add_remote(ex, Operation::fetch_add, rkey, address).compare_add = addend;
}
void wr_local_inv(ibv_qp_ex* ex, std::uint32_t rkey) {
    add(ex, Operation::local_invalidate).immediate_or_key = rkey;
}
void wr_bind_mw(ibv_qp_ex* ex, ibv_mw* mw, std::uint32_t rkey, const ibv_mw_bind_info* info) {
    Call call("ibv_wr_bind_mw", "QP", ex->qp_base.qp_num);
    builder(ex).refuse(describe_bind(mw, rkey, *info, add(ex, Operation::bind_window)));
}
void wr_send_tso(ibv_qp_ex* ex, void*, std::uint16_t, std::uint16_t) { add(ex, Operation::tso); }
void wr_atomic_write(ibv_qp_ex* ex, std::uint32_t rkey, std::uint64_t address, const void* value) {
    transport::SendRequest& request = add_remote(ex, Operation::atomic_write, rkey, address);
    std::memcpy(&request.compare_add, value, sizeof request.compare_add);
}
void wr_flush(ibv_qp_ex* ex, std::uint32_t rkey, std::uint64_t address, std::size_t length, std::uint8_t type,
              std::uint8_t level) {
    transport::SendRequest& request = add_remote(ex, Operation::flush, rkey, address);
    request.range = length;
    request.range_access = transport::flush_kind(type, level);
}

// What they carry.

void wr_set_sge(ibv_qp_ex* ex, std::uint32_t lkey, std::uint64_t address, std::uint32_t length) {
    const transport::Sge element{address, length, lkey};
    builder(ex).set_elements({&element, 1});
}
void wr_set_sge_list(ibv_qp_ex* ex, std::size_t count, const ibv_sge* list) {
    builder(ex).set_elements({reinterpret_cast<const transport::Sge*>(list), count});
}
void wr_set_inline_data(ibv_qp_ex* ex, void* address, std::size_t length) {
    const ibv_data_buf buffer{address, length};
    builder(ex).set_inline({&buffer, 1});
}
void wr_set_inline_data_list(ibv_qp_ex* ex, std::size_t count, const ibv_data_buf* list) {
    builder(ex).set_inline({list, count});
}
void wr_set_ud_addr(ibv_qp_ex* ex, ibv_ah* ah, std::uint32_t remote_qp, std::uint32_t remote_qkey) {
    transport::SendRequest& request = builder(ex).last();
    request.path = ah ? &AddressHandle::of(ah)->path : nullptr;
    request.path_pd = ah ? Pd::of(ah->pd)->number : 0;
    request.remote_qp = remote_qp;
    request.remote_qkey = remote_qkey;
}
void wr_set_xrc_srqn(ibv_qp_ex* ex, std::uint32_t remote_srq) { builder(ex).last().remote_srq = remote_srq; }

void wr_start(ibv_qp_ex* ex) { builder(ex).start(); }
int wr_complete(ibv_qp_ex* ex) { return builder(ex).complete(); }
void wr_abort(ibv_qp_ex* ex) { builder(ex).abort(); }

}  // namespace

WorkBuilder::WorkBuilder(QueuePair& qp, std::uint64_t send_ops)
    : qp_(qp), send_ops_(send_ops), max_requests_(qp.created.cap.max_send_wr) {
    const std::size_t room = std::min<std::size_t>(kFirstRoom, max_requests_);
    requests_.reserve(room);
    places_.reserve(room);
    elements_.reserve(room * qp.created.cap.max_send_sge);
    bytes_.reserve(room * qp.created.cap.max_inline_data);
}

int WorkBuilder::check_operations(int qp_type, std::uint64_t send_ops) {
    const auto service = static_cast<transport::Service>(qp_type);
    for (const transport::OperationRule& rule : transport::kOperations) {
        const std::uint64_t bit = send_op_of(rule.operation);
        if (!(send_ops & bit)) continue;
        send_ops &= ~bit;
        if (transport::allowed(service, rule, false) != 0)
            return fail(EOPNOTSUPP, "send_ops_flags has %s, which %s queue pairs do not have", rule.name,
                        transport::to_string(service));
    }
    if (send_ops == 0) return 0;
    return fail(EOPNOTSUPP, "send_ops_flags 0x%llx are unknown", static_cast<unsigned long long>(send_ops));
}

void WorkBuilder::install() {
    ibv_qp_ex& ex = qp_.ex.base;
    ex.wr_send = wr_send;
    ex.wr_send_imm = wr_send_imm;
    ex.wr_send_inv = wr_send_inv;
    ex.wr_rdma_write = wr_rdma_write;
    ex.wr_rdma_write_imm = wr_rdma_write_imm;
    ex.wr_rdma_read = wr_rdma_read;
    ex.wr_atomic_cmp_swp = wr_atomic_cmp_swp;
    ex.wr_atomic_fetch_add = wr_atomic_fetch_add;
    ex.wr_local_inv = wr_local_inv;
    ex.wr_bind_mw = wr_bind_mw;
    ex.wr_send_tso = wr_send_tso;
    ex.wr_atomic_write = wr_atomic_write;
    qp_.ex.wr_flush = wr_flush;
    ex.wr_set_sge = wr_set_sge;
    ex.wr_set_sge_list = wr_set_sge_list;
    ex.wr_set_inline_data = wr_set_inline_data;
    ex.wr_set_inline_data_list = wr_set_inline_data_list;
    ex.wr_set_ud_addr = wr_set_ud_addr;
    ex.wr_set_xrc_srqn = wr_set_xrc_srqn;
    ex.wr_start = wr_start;
    ex.wr_complete = wr_complete;
    ex.wr_abort = wr_abort;
}

void WorkBuilder::start() {
    lock_.lock();
    error_ = 0;
    requests_.clear();
    places_.clear();
    elements_.clear();
    bytes_.clear();
}

void WorkBuilder::abort() { lock_.unlock(); }

int WorkBuilder::complete() {
    std::unique_lock lock(lock_, std::adopt_lock);
    if (error_) return errno = error_;
    Call call("ibv_wr_complete", "QP", qp_.base()->qp_num);
    if (const Fault fault{"ibv_wr_complete"}) return fault.error();
    Process* process = qp_.context->process;
    if (!process->usable()) return process->refuse();
    for (std::size_t i = 0; i < requests_.size(); i++) {
        const Place& place = places_[i];
        if (requests_[i].flags & transport::kInline)
            elements_[place.first_element].address =
                reinterpret_cast<std::uintptr_t>(bytes_.data()) + place.first_byte;
        requests_[i].sges = {elements_.data() + place.first_element, place.elements};
    }
    const Time begin = adapter::now();
    const int error = process->adapter().post_send_together(*qp_.qp, requests_, begin);
    lock.unlock();
    if (error)
        process->engine().posted();
    else
        process->engine().posted(begin);
    return error;
}

transport::SendRequest& WorkBuilder::add(Operation operation) {
    spare_ = {};
    if (!(send_ops_ & send_op_of(operation))) {
        Call call("ibv_wr_*", "QP", qp_.base()->qp_num);
        refuse(fail(EINVAL, "the queue pair was created without %s in send_ops_flags",
                    transport::rule_of(operation)->name));
        return spare_;
    }
    if (requests_.size() == max_requests_) {
        Call call("ibv_wr_*", "QP", qp_.base()->qp_num);
        refuse(fail(ENOMEM, "more than max_send_wr %u requests together", max_requests_));
        return spare_;
    }
    if (!grow("ibv_wr_*", [&] { places_.emplace_back(), requests_.emplace_back(); })) return spare_;
    transport::SendRequest& request = requests_.back();
    const ibv_qp_ex& ex = qp_.ex.base;
    request.operation = operation;
    request.wr_id = ex.wr_id;
    request.flags = ex.wr_flags & ~transport::kInline;  // set by the data, if they are inline
    return request;
}

transport::SendRequest& WorkBuilder::last() {
    return requests_.empty() || error_ ? spare_ : requests_.back();
}

void WorkBuilder::set_elements(std::span<const transport::Sge> elements) {
    if (requests_.empty() || error_) return;
    if (elements.size() > qp_.created.cap.max_send_sge) {
        Call call("ibv_wr_set_sge_list", "QP", qp_.base()->qp_num);
        return refuse(fail(EINVAL, "%zu elements; the QP was created with max_send_sge %u", elements.size(),
                           qp_.created.cap.max_send_sge));
    }
    requests_.back().flags &= ~transport::kInline;
    places_.back() = {static_cast<std::uint32_t>(elements_.size()),
                      static_cast<std::uint32_t>(elements.size()), 0};
    grow("ibv_wr_set_sge_list", [&] { elements_.insert(elements_.end(), elements.begin(), elements.end()); });
}

void WorkBuilder::set_inline(std::span<const ibv_data_buf> buffers) {
    if (requests_.empty() || error_) return;
    const std::size_t limit = qp_.created.cap.max_inline_data;
    const std::size_t first = bytes_.size();
    for (const ibv_data_buf& buffer : buffers) {
        if (buffer.length > limit - (bytes_.size() - first)) {
            Call call("ibv_wr_set_inline_data", "QP", qp_.base()->qp_num);
            return refuse(
                fail(EINVAL, "the inline data are longer than max_inline_data %zu of the QP", limit));
        }
        const auto* from = static_cast<const std::uint8_t*>(buffer.addr);
        if (!grow("ibv_wr_set_inline_data", [&] { bytes_.insert(bytes_.end(), from, from + buffer.length); }))
            return;
    }
    requests_.back().flags |= transport::kInline;
    places_.back() = {static_cast<std::uint32_t>(elements_.size()), 1, static_cast<std::uint32_t>(first)};
    grow("ibv_wr_set_inline_data", [&] {
        elements_.push_back({0, static_cast<std::uint32_t>(bytes_.size() - first), 0});
    });
}

template <class Add>
bool WorkBuilder::grow(const char* call_name, Add add) {
    try {
        add();
        return true;
    } catch (const std::bad_alloc&) {
        Call call(call_name, "QP", qp_.base()->qp_num);
        refuse(fail(ENOMEM, "no memory"));
        return false;
    }
}

}  // namespace verbena::verbs
