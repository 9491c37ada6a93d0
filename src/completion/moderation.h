// The completion queues whose notifications wait for a time (ibv_modify_cq(3)), and when the next is due.
// Most programs have none, so that is what costs nothing.
//
// Thread safety: all calls. lower() takes no lock; the others must not be called with a queue's lock held.
#pragma once

#include <atomic>
#include <mutex>
#include <set>

#include "base/time.h"

namespace verbena::completion {

class CompletionQueue;

class EventDeadlines {
   public:
    void add(CompletionQueue& queue);
    void remove(CompletionQueue& queue);

    // A queue's notification is due at `time`.
    void lower(Time time);
    // A lower bound: the queue may have given it since, because enough completions came.
    Time next() const { return next_.load(); }
    // Lets the queues give what is due.
    void fire(Time now) {
        if (now >= next()) give(now);
    }

   private:
    void give(Time now);

    std::mutex lock_;
    std::set<CompletionQueue*> queues_;
    std::atomic<Time> next_{kNever};
};

}  // namespace verbena::completion
