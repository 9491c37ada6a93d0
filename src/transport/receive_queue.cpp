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
    if (try_post(request)) return 0;
    if (request.sges.size() > max_sge_)
        return fail(EINVAL, "num_sge is %zu; the receive queue was created for at most %u",
                    request.sges.size(), max_sge_);
    return fail(ENOMEM, "the receive queue is full (%u requests)", capacity());
}

bool ReceiveQueue::take_shared(std::uint64_t& wr_id, std::span<Sge> sges, std::uint32_t& sge_count,
                               std::uint32_t waiter) {
    std::lock_guard guard(lock_);
    if (closed_) return false;
    const std::uint32_t waiting = count();
    if (waiting == 0) {
        const std::uint32_t waiters = waiter_count_.load(std::memory_order_relaxed);
        const auto end = waiters_.begin() + waiters;
        if (waiter != 0 && waiters < kMaxWaiters && std::find(waiters_.begin(), end, waiter) == end) {
            waiters_[waiters] = waiter;
            waiter_count_.store(waiters + 1, std::memory_order_relaxed);
        }
        return false;
    }
    read_oldest(wr_id, sges, sge_count);
    if (mutated(Mutation::srq_request_taken_twice) && waiting % 4 == 3) return true;
    pop();
    report_limit();
    return true;
}

// With the lock: who posts to a queue pair in the error state either sees the state behind it, or is seen.
bool ReceiveQueue::take_id(std::uint64_t& wr_id) {
    std::lock_guard guard(lock_);
    if (count() == 0) return false;
    wr_id = entries_[head_].wr_id;
    pop();
    report_limit();
    return true;
}

void ReceiveQueue::report_limit() {
    if (count() >= limit_) return;
    if (!mutated(Mutation::srq_limit_not_disarmed)) limit_ = 0;  // once for each arming
    if (shared_.listener) shared_.listener->limit_reached(*this);
}

void ReceiveQueue::give_back(std::uint64_t wr_id, std::span<const Sge> sges) {
    std::lock_guard guard(lock_);
    if (count() == entries_.size()) rebuild(count() + 1);  // its place was taken meanwhile
    head_ = head_ == 0 ? static_cast<std::uint32_t>(entries_.size()) - 1 : head_ - 1;
    entries_[head_] = {wr_id, static_cast<std::uint32_t>(sges.size())};
    std::ranges::copy(sges, sges_of(head_));
    taken_.store(taken_.load(std::memory_order_relaxed) - 1, std::memory_order_release);
}

std::uint32_t ReceiveQueue::waiting() {
    if (!is_shared_) return count();
    std::lock_guard guard(lock_);
    return closed_ ? 0 : count();
}

void ReceiveQueue::clear() {
    std::lock_guard guard(lock_);
    head_ = tail_ = 0;
    taken_.store(posted_.load(std::memory_order_relaxed), std::memory_order_release);
}

int ReceiveQueue::resize(std::uint32_t capacity) {
    std::lock_guard guard(lock_);
    if (count() > capacity)
        return fail(EINVAL, "max_wr is %u, but %u requests wait in the queue", capacity, count());
    rebuild(capacity);
    capacity_.store(capacity, std::memory_order_relaxed);
    return 0;
}

// The ring has `room` entries, the oldest first.
void ReceiveQueue::rebuild(std::uint32_t room) {
    std::vector<Entry> entries(room);
    std::vector<Sge> sges(std::size_t{room} * max_sge_);
    const std::uint32_t waiting = count();
    for (std::uint32_t i = 0; i < waiting; i++, head_ = next(head_)) {
        entries[i] = entries_[head_];
        std::copy_n(sges_of(head_), max_sge_,
                    sges.begin() + static_cast<std::ptrdiff_t>(std::size_t{i} * max_sge_));
    }
    entries_ = std::move(entries);
    sges_ = std::move(sges);
    head_ = 0;
    tail_ = waiting == room ? 0 : waiting;
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
    const std::uint32_t taken = std::min(waiters, count());
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
