// The ring is guarded by one lock, held for a few stores; how many went in and out can be read without it, so
// that an empty poll takes none.
#include "completion/completion_queue.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <utility>

#include "base/mutation.h"
#include "base/reason.h"
#include "completion/moderation.h"

namespace verbena::completion {

namespace {
std::size_t ring_size(std::uint32_t capacity) { return std::bit_ceil(std::size_t{capacity}); }
}  // namespace

CompletionQueue::CompletionQueue(std::uint32_t capacity, CompletionListener* listener, bool ignore_overrun)
    : ring_(std::make_unique<Completion[]>(ring_size(capacity))),
      mask_(ring_size(capacity) - 1),
      capacity_(std::max<std::uint32_t>(capacity, 1)),
      listener_(listener),
      ignore_overrun_(ignore_overrun) {}

CompletionQueue::~CompletionQueue() {
    if (deadlines_) deadlines_->remove(*this);
}

// There is no place.
bool CompletionQueue::make_room() {
    if (ignore_overrun_) {
        taken_.store(taken_.load(std::memory_order_relaxed) + 1, std::memory_order_release);
        return true;
    }
    in_error_.store(true, std::memory_order_relaxed);
    if (listener_) listener_->overrun(*this);
    return false;
}

void CompletionQueue::notify(const Completion& completion, bool solicited) {
    // IBA 11.4.2.2: armed for solicited completions only, an unsuccessful one counts as solicited.
    const auto now = static_cast<Time>(completion.timestamp);
    if (armed_ == Armed::solicited && !solicited && completion.status == Status::success) {
        if (held_ > 0) give_if_due(now);  // it may have been the last that had a place
        return;
    }
    if (held_++ == 0) first_held_ = now;
    give_if_due(now);
}

void CompletionQueue::give_if_due(Time now) {
    if ((count_ == 0 && period_ == 0) || (count_ > 0 && held_ >= count_)) return give();
    // A full queue gives it in any case: more completions than that will never come.
    if (waiting() >= capacity()) return give();
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

void CompletionQueue::fall_silent() {
    EventDeadlines* deadlines = nullptr;
    {
        std::lock_guard guard(lock_);
        armed_ = Armed::no;
        held_ = 0;
        listener_ = nullptr;
        deadlines = std::exchange(deadlines_, nullptr);
    }
    if (deadlines) deadlines->remove(*this);
}

void CompletionQueue::forget(std::uint32_t qp_number) {
    if (waiting() == 0) return;
    std::lock_guard guard(lock_);
    const std::uint64_t first = taken_.load(std::memory_order_relaxed);
    std::uint64_t kept = pushed_.load(std::memory_order_relaxed);
    for (std::uint64_t i = kept; i-- > first;)
        if (at(i).qp_number != qp_number) at(--kept) = at(i);
    taken_.store(kept, std::memory_order_release);
}

void CompletionQueue::arm(bool solicited_only) {
    std::lock_guard guard(lock_);
    if (mutated(Mutation::lost_cq_event_edge) && waiting() > 0) return;
    // IBA 11.4.2.2: a request for any completion overrides an earlier one for solicited ones, not the
    // reverse.
    if (!solicited_only)
        armed_ = Armed::any;
    else if (armed_ == Armed::no)
        armed_ = Armed::solicited;
}

CompletionQueue::Notice CompletionQueue::notice() {
    std::lock_guard guard(lock_);
    return {armed_, held_ > 0};
}

int CompletionQueue::resize(std::uint32_t capacity) {
    std::lock_guard guard(lock_);
    if (capacity == 0 || capacity < waiting())
        return fail(EINVAL, "the completion queue holds %u completions; %u places are too few", waiting(),
                    capacity);
    auto ring = std::make_unique<Completion[]>(ring_size(capacity));
    const std::uint64_t mask = ring_size(capacity) - 1;
    const std::uint64_t end = pushed_.load(std::memory_order_relaxed);
    for (std::uint64_t i = taken_.load(std::memory_order_relaxed); i != end; i++) ring[i & mask] = at(i);
    ring_ = std::move(ring);
    mask_ = mask;
    capacity_.store(capacity, std::memory_order_relaxed);
    if (held_ > 0) give_if_due(first_held_);
    return 0;
}

}  // namespace verbena::completion
