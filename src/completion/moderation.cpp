#include "completion/moderation.h"

#include "completion/completion_queue.h"

namespace verbena::completion {

void EventDeadlines::add(CompletionQueue& queue) {
    std::lock_guard guard(lock_);
    queues_.insert(&queue);
}

void EventDeadlines::remove(CompletionQueue& queue) {
    std::lock_guard guard(lock_);
    queues_.erase(&queue);
}

void EventDeadlines::lower(Time time) {
    Time known = next_.load();
    while (time < known && !next_.compare_exchange_weak(known, time)) {
    }
}

// Who lowers the bound after it was raised here either does so after the look at that queue, or has set the
// queue's time before it.
void EventDeadlines::give(Time now) {
    std::lock_guard guard(lock_);
    next_.store(kNever);
    for (CompletionQueue* queue : queues_) lower(queue->advance(now));
}

}  // namespace verbena::completion
