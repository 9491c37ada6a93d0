// The ring is guarded by one lock, held for a few stores; `waiting_` mirrors the count so that an empty poll
// takes none.
#include "completion/completion_queue.h"

#include <algorithm>
#include <cerrno>

#include "base/mutation.h"
#include "base/reason.h"

namespace verbena::completion {

CompletionQueue::CompletionQueue(std::uint32_t capacity, CompletionListener* listener, bool ignore_overrun)
    : ring_(std::max<std::uint32_t>(capacity, 1)),
      capacity_(std::max<std::uint32_t>(capacity, 1)),
      listener_(listener),
      ignore_overrun_(ignore_overrun) {}

std::uint64_t CompletionQueue::push(const Completion& completion, bool solicited) {
    std::lock_guard guard(lock_);
    if (in_error()) return 0;
    std::uint32_t waiting = waiting_.load(std::memory_order_relaxed);
    if (waiting == capacity() && ignore_overrun_) {
        if (++head_ == capacity()) head_ = 0;
        waiting--;
        remove(1);
    }
    if (waiting == capacity()) {
        in_error_.store(true, std::memory_order_relaxed);
        if (listener_) listener_->overrun(*this);
        return 0;
    }
    std::uint32_t tail = head_ + waiting;
    if (tail >= capacity()) tail -= capacity();
    ring_[tail] = completion;
    waiting_.store(waiting + 1, std::memory_order_release);

    // IBA 11.4.2.2: armed for solicited completions only, an unsuccessful one counts as solicited.
    const bool wanted = armed_ == Armed::any ||
                        (armed_ == Armed::solicited && (solicited || completion.status != Status::success));
    if (wanted) {
        armed_ = Armed::no;
        if (listener_) listener_->completion_event(*this);
    }
    return gone_.load(std::memory_order_relaxed) + waiting + 1;
}

void CompletionQueue::remove(std::uint64_t count) {
    gone_.store(gone_.load(std::memory_order_relaxed) + count, std::memory_order_release);
}

std::size_t CompletionQueue::poll(std::span<Completion> out) {
    if (waiting_.load(std::memory_order_acquire) == 0) return 0;
    std::lock_guard guard(lock_);
    const std::uint32_t waiting = waiting_.load(std::memory_order_relaxed);
    const std::size_t taken = std::min<std::size_t>(out.size(), waiting);
    for (std::size_t i = 0; i < taken; i++) {
        out[i] = ring_[head_];
        if (++head_ == capacity()) head_ = 0;
    }
    waiting_.store(waiting - static_cast<std::uint32_t>(taken), std::memory_order_release);
    remove(taken);
    return taken;
}

void CompletionQueue::forget(std::uint32_t qp_number) {
    if (waiting_.load(std::memory_order_acquire) == 0) return;
    std::lock_guard guard(lock_);
    const std::uint32_t waiting = waiting_.load(std::memory_order_relaxed);
    std::uint32_t kept = 0;
    for (std::uint32_t i = 0; i < waiting; i++) {
        const Completion& completion = ring_[(head_ + i) % capacity()];
        if (completion.qp_number != qp_number) ring_[(head_ + kept++) % capacity()] = completion;
    }
    waiting_.store(kept, std::memory_order_release);
    remove(waiting - kept);
}

void CompletionQueue::arm(bool solicited_only) {
    std::lock_guard guard(lock_);
    if (mutated(Mutation::lost_cq_event_edge) && waiting_.load(std::memory_order_relaxed) > 0) return;
    // IBA 11.4.2.2: a request for any completion overrides an earlier one for solicited ones, not the
    // reverse.
    if (!solicited_only)
        armed_ = Armed::any;
    else if (armed_ == Armed::no)
        armed_ = Armed::solicited;
}

int CompletionQueue::resize(std::uint32_t capacity) {
    std::lock_guard guard(lock_);
    const std::uint32_t waiting = waiting_.load(std::memory_order_relaxed);
    if (capacity == 0 || capacity < waiting)
        return fail(EINVAL, "the completion queue holds %u completions; %u places are too few", waiting,
                    capacity);
    std::vector<Completion> ring(capacity);
    for (std::uint32_t i = 0; i < waiting; i++) ring[i] = ring_[(head_ + i) % this->capacity()];
    ring_ = std::move(ring);
    head_ = 0;
    capacity_.store(capacity, std::memory_order_relaxed);
    return 0;
}

}  // namespace verbena::completion
