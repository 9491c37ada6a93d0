// A ring of requests with room for max_sge scatter entries each.
#include "transport/receive_queue.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/reason.h"
#include "transport/mutation.h"

namespace verbena::transport {

ReceiveQueue::ReceiveQueue(std::uint32_t capacity, std::uint32_t max_sge)
    : ReceiveQueue(capacity, max_sge, nullptr) {}

ReceiveQueue::ReceiveQueue(std::uint32_t capacity, std::uint32_t max_sge, const SharedQueueSetup& shared)
    : ReceiveQueue(capacity, max_sge, &shared) {}

ReceiveQueue::ReceiveQueue(std::uint32_t capacity, std::uint32_t max_sge, const SharedQueueSetup* shared)
    : capacity_(capacity),
      mask_(std::bit_ceil(std::max<std::uint32_t>(capacity, 1)) - 1),
      max_sge_(max_sge),
      is_shared_(shared != nullptr),
      shared_(shared ? *shared : SharedQueueSetup{}) {
    static_assert(offsetof(ReceiveQueue, is_shared_) < 64);
    entries_ = make_ring(mask_);
}

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
    drop_oldest();
    report_limit();
    return true;
}

// With the lock: who posts to a queue pair in the error state either sees the state behind it, or is seen.
bool ReceiveQueue::take_id(std::uint64_t& wr_id) {
    std::lock_guard guard(lock_);
    if (count() == 0) return false;
    wr_id = oldest_entry().wr_id;
    drop_oldest();
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
    if (count() > mask_) rebuild(count() + 1);  // its place was taken meanwhile
    const std::uint32_t number = taken_.load(std::memory_order_relaxed) - 1;
    write(number, wr_id, sges);
    taken_.store(number, std::memory_order_release);
}

std::uint32_t ReceiveQueue::waiting() {
    if (!is_shared_) return count();
    std::lock_guard guard(lock_);
    return closed_ ? 0 : count();
}

const void* ReceiveQueue::only_line() const { return lines(mask_) == 1 ? entries_ : nullptr; }

void ReceiveQueue::clear() {
    std::lock_guard guard(lock_);
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

// Of a shared queue, whose lock is held by whoever looks at it. The requests keep their numbers.
void ReceiveQueue::rebuild(std::uint32_t room) {
    const std::uint32_t mask = std::bit_ceil(std::max<std::uint32_t>(room, 1)) - 1;
    Line* const made = make_ring(mask);
    const std::uint32_t old_mask = std::exchange(mask_, mask);
    Line* const old = std::exchange(entries_, made);
    const Ring gone(old, lines(old_mask));
    for (std::uint32_t number = taken_.load(); number != posted_.load(); number++)
        std::memcpy(&entry(number), bytes(old) + (number & old_mask) * stride(), stride());
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

bool ReceiveQueue::complete(const completion::Completion& completion, bool solicited) {
    std::lock_guard guard(lock_);
    return !shared_.cq || shared_.cq->push(completion, solicited) != 0;
}

void ReceiveQueue::close() {
    std::lock_guard guard(lock_);
    closed_ = true;
    limit_ = 0;
    shared_.listener = nullptr;
    shared_.cq = nullptr;
}

}  // namespace verbena::transport
