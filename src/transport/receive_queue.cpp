// A ring of requests with room for max_sge scatter entries each, allocated once.
#include "transport/receive_queue.h"

#include <algorithm>
#include <cerrno>

#include "base/reason.h"
#include "transport/mutation.h"

namespace verbena::transport {

ReceiveQueue::ReceiveQueue(std::uint32_t capacity, std::uint32_t max_sge)
    : capacity_(capacity),
      max_sge_(max_sge),
      is_shared_(false),
      entries_(capacity),
      sges_(std::size_t{capacity} * max_sge) {}

ReceiveQueue::ReceiveQueue(std::uint32_t capacity, std::uint32_t max_sge, const SharedQueueSetup& shared)
    : capacity_(capacity),
      max_sge_(max_sge),
      is_shared_(true),
      shared_(shared),
      entries_(capacity),
      sges_(std::size_t{capacity} * max_sge) {}

int ReceiveQueue::post(const ReceiveRequest& request) {
    if (request.sges.size() > max_sge_)
        return fail(EINVAL, "num_sge is %zu; the receive queue was created for at most %u",
                    request.sges.size(), max_sge_);
    std::lock_guard guard(lock_);
    if (count_ >= capacity()) return fail(ENOMEM, "the receive queue is full (%u requests)", capacity());
    const std::uint32_t at = slot(count_);
    entries_[at] = {request.wr_id, static_cast<std::uint32_t>(request.sges.size())};
    Sge* to = sges_of(at).data();
    for (const Sge& sge : request.sges) *to++ = sge;
    count_++;
    return 0;
}

bool ReceiveQueue::take(std::uint64_t& wr_id, std::span<Sge> sges, std::uint32_t& sge_count,
                        std::uint32_t waiter) {
    std::lock_guard guard(lock_);
    if (closed_) return false;
    if (count_ == 0) {
        const std::uint32_t waiters = waiter_count_.load(std::memory_order_relaxed);
        const auto end = waiters_.begin() + waiters;
        if (waiter != 0 && waiters < kMaxWaiters && std::find(waiters_.begin(), end, waiter) == end) {
            waiters_[waiters] = waiter;
            waiter_count_.store(waiters + 1, std::memory_order_relaxed);
        }
        return false;
    }
    const Entry& entry = entries_[head_];
    wr_id = entry.wr_id;
    sge_count = entry.sge_count;
    const Sge* const from = sges_of(head_).data();
    for (std::uint32_t i = 0; i < sge_count; i++) sges[i] = from[i];
    if (mutated(Mutation::srq_request_taken_twice) && is_shared_ && count_ % 4 == 3) return true;
    pop();
    return true;
}

bool ReceiveQueue::take_id(std::uint64_t& wr_id) {
    std::lock_guard guard(lock_);
    if (count_ == 0) return false;
    wr_id = entries_[head_].wr_id;
    pop();
    return true;
}

void ReceiveQueue::pop() {
    head_ = slot(1);
    count_--;
    report_limit();
}

void ReceiveQueue::report_limit() {
    if (count_ >= limit_) return;
    if (!mutated(Mutation::srq_limit_not_disarmed)) limit_ = 0;  // once for each arming
    if (shared_.listener) shared_.listener->limit_reached(*this);
}

void ReceiveQueue::give_back(std::uint64_t wr_id, std::span<const Sge> sges) {
    std::lock_guard guard(lock_);
    if (count_ == entries_.size()) rebuild(count_ + 1);  // its place was taken meanwhile
    head_ = head_ == 0 ? static_cast<std::uint32_t>(entries_.size()) - 1 : head_ - 1;
    entries_[head_] = {wr_id, static_cast<std::uint32_t>(sges.size())};
    std::ranges::copy(sges, sges_of(head_).begin());
    count_++;
}

std::uint32_t ReceiveQueue::waiting() {
    std::lock_guard guard(lock_);
    return closed_ ? 0 : count_;
}

void ReceiveQueue::clear() {
    std::lock_guard guard(lock_);
    head_ = count_ = 0;
}

int ReceiveQueue::resize(std::uint32_t capacity) {
    std::lock_guard guard(lock_);
    if (count_ > capacity)
        return fail(EINVAL, "max_wr is %u, but %u requests wait in the queue", capacity, count_);
    rebuild(capacity);
    capacity_.store(capacity, std::memory_order_relaxed);
    return 0;
}

// The ring has `room` entries, the oldest first.
void ReceiveQueue::rebuild(std::uint32_t room) {
    std::vector<Entry> entries(room);
    std::vector<Sge> sges(std::size_t{room} * max_sge_);
    for (std::uint32_t i = 0; i < count_; i++) {
        entries[i] = entries_[slot(i)];
        std::ranges::copy(sges_of(slot(i)),
                          sges.begin() + static_cast<std::ptrdiff_t>(std::size_t{i} * max_sge_));
    }
    entries_ = std::move(entries);
    sges_ = std::move(sges);
    head_ = 0;
}

void ReceiveQueue::arm_limit(std::uint32_t limit) {
    std::lock_guard guard(lock_);
    limit_ = limit;
    report_limit();
}

std::uint32_t ReceiveQueue::limit() {
    std::lock_guard guard(lock_);
    return limit_;
}

std::size_t ReceiveQueue::take_waiters(std::span<std::uint32_t, kMaxWaiters> out) {
    // Relaxed: who found the queue empty did so before the caller's post, under the same lock.
    if (waiter_count_.load(std::memory_order_relaxed) == 0) return 0;
    std::lock_guard guard(lock_);
    const std::uint32_t waiters = waiter_count_.load(std::memory_order_relaxed);
    const std::uint32_t taken = std::min(waiters, count_);
    std::copy_n(waiters_.begin(), taken, out.begin());
    std::copy(waiters_.begin() + taken, waiters_.begin() + waiters, waiters_.begin());
    waiter_count_.store(waiters - taken, std::memory_order_relaxed);
    return taken;
}

void ReceiveQueue::complete(const completion::Completion& completion, bool solicited) {
    std::lock_guard guard(lock_);
    if (shared_.cq) shared_.cq->push(completion, solicited);
}

void ReceiveQueue::close() {
    std::lock_guard guard(lock_);
    closed_ = true;
    limit_ = 0;
    shared_.listener = nullptr;
    shared_.cq = nullptr;
}

}  // namespace verbena::transport
