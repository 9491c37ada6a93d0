// The ring is guarded by one lock, held for a few stores; `waiting_` mirrors the count so that an empty poll
// takes none.
#include "completion/completion_queue.h"

#include <algorithm>
#include <cerrno>

#include "base/mutation.h"
#include "base/reason.h"
#include "completion/moderation.h"

namespace verbena::completion {

CompletionQueue::CompletionQueue(std::uint32_t capacity, CompletionListener* listener, bool ignore_overrun)
    : ring_(std::max<std::uint32_t>(capacity, 1)),
      capacity_(std::max<std::uint32_t>(capacity, 1)),
      listener_(listener),
      ignore_overrun_(ignore_overrun) {}

CompletionQueue::~CompletionQueue() {
    if (deadlines_) deadlines_->remove(*this);
}

// There is no place.
bool CompletionQueue::make_room(std::uint32_t& waiting) {
    if (ignore_overrun_) {
        if (++head_ == capacity()) head_ = 0;
        waiting--;
        remove(1);
        return true;
    }
    in_error_.store(true, std::memory_order_relaxed);
    if (listener_) listener_->overrun(*this);
    return false;
}

void CompletionQueue::notify(const Completion& completion, bool solicited) {
    // IBA 11.4.2.2: armed for solicited completions only, an unsuccessful one counts as solicited.
    if (armed_ == Armed::solicited && !solicited && completion.status == Status::success) return;
    const auto now = static_cast<Time>(completion.timestamp);
    if (held_++ == 0) first_held_ = now;
    give_if_due(now);
}

void CompletionQueue::give_if_due(Time now) {
    // A full queue gives it in any case: more completions than that will never come.
    const std::uint32_t enough = std::min<std::uint32_t>(count_, capacity());
    if ((count_ == 0 && period_ == 0) || (count_ > 0 && held_ >= enough)) return give();
    if (period_ == 0) return;
    if (now - first_held_ >= period_) return give();
    deadlines_->lower(first_held_ + period_);
}

void CompletionQueue::give() {
    armed_ = Armed::no;
    held_ = 0;
    if (listener_) listener_->completion_event(*this);
}

void CompletionQueue::moderate(std::uint16_t count, Duration period, EventDeadlines& deadlines) {
    if (period > 0) deadlines.add(*this);
    std::lock_guard guard(lock_);
    if (period > 0) deadlines_ = &deadlines;
    count_ = count;
    period_ = period;
    if (held_ > 0) give_if_due(first_held_);
}

Time CompletionQueue::advance(Time now) {
    std::lock_guard guard(lock_);
    if (held_ > 0) give_if_due(now);
    return held_ > 0 && period_ > 0 ? first_held_ + period_ : kNever;
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
