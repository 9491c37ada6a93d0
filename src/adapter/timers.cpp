#include "adapter/timers.h"

namespace verbena::adapter {

void Timers::make_room_for(std::size_t nodes) {
    std::lock_guard guard(lock_);
    queue_.reserve(kFewStale + 2 * nodes + 1);
    due_.reserve(nodes);
}

void Timers::take_due(Time now) {
    due_.clear();
    std::lock_guard guard(lock_);
    while (queue_.size() > 0 && (queue_.earliest() <= now || is_stale(queue_.first()))) {
        const Queue::Entry first = queue_.pop();
        if (queue_.size() > 0) __builtin_prefetch(queue_.first().node, 1);
        if (!is_stale(first) && reschedule(*first.node, now)) due_.push_back(first.node);
    }
    next_.store(queue_.earliest());
}

// The node's time in the queue has come, and its entry is taken. If its deadline has come, too, the answer is
// true, and its owner sets the next one; otherwise it waits for its deadline.
bool Timers::reschedule(TimerNode& node, Time now) {
    const Time deadline = node.deadline.load(std::memory_order_relaxed);
    look_at(node, deadline > now ? deadline : kNever);
    return deadline <= now;
}

void Timers::look_at(TimerNode& node, Time at) {
    const Time before = node.scheduled.load(std::memory_order_relaxed);
    node.scheduled.store(at, std::memory_order_relaxed);
    if (before != kNever) scheduled_--;
    if (at == kNever) return;
    scheduled_++;
    // Long ones that gave way to short ones again and again.
    if (queue_.size() > kFewStale + 2 * scheduled_) [[unlikely]]
        queue_.erase_if(is_stale);
    queue_.push({at, &node});
    // Sequentially consistent: who is about to sleep says so and then asks next(), and who calls set() then
    // asks who sleeps (engine.cpp).
    if (at < next_.load(std::memory_order_relaxed)) next_.store(at);
}

}  // namespace verbena::adapter
