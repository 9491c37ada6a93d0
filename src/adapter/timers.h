// The deadlines of queue pairs. Deadlines move later all the time (an acknowledgement came), which takes no
// lock and touches the queue pair's own node only: it is noticed when the old one fires. Only one that is
// earlier than what the node waits for goes into the queue. Ten thousand idle queue pairs cost nothing.
//
// An entry of the queue stays when its node waits for another time, and is passed over when it comes to
// its front: no node is told where its entry is, so that thousands of busy queue pairs do not touch one
// another's memory.
//
// Thread safety: set() of different nodes and next() from any thread; fire() one thread at a time. A node
// must outlive the Timers.
#pragma once

#include <atomic>
#include <cstddef>
#include <mutex>
#include <vector>

#include "adapter/time_queue.h"
#include "base/lock.h"
#include "base/time.h"

namespace verbena::adapter {

struct TimerNode {
    std::atomic<Time> deadline{kNever};   // when it is really due
    std::atomic<Time> scheduled{kNever};  // when the queue will look at it; kNever: it will not
};

class Timers {
   public:
    // For so many nodes in all, before the last of them is set: neither set() nor fire() needs memory then.
    // Throws std::bad_alloc, and has changed nothing. Nobody may be in fire().
    void make_room_for(std::size_t nodes);

    void set(TimerNode& node, Time deadline) {
        // Later than before, and the queue will look, if it has to: whoever still reads the earlier one looks
        // in vain once.
        if (deadline == kNever || (deadline >= node.deadline.load(std::memory_order_relaxed) &&
                                   node.scheduled.load(std::memory_order_relaxed) != kNever))
            return node.deadline.store(deadline, std::memory_order_relaxed);
        std::lock_guard guard(lock_);
        node.deadline.store(deadline, std::memory_order_relaxed);
        if (deadline < node.scheduled.load(std::memory_order_relaxed)) look_at(node, deadline);
    }

    // Whether `due` will be called for the node at `at` at the latest even if nobody sets it again. Then a
    // deadline that is not earlier need not be set, if `due` asks for it. For who holds a lock that `due`
    // takes.
    bool looks_by(const TimerNode& node, Time at) const {
        return node.deadline.load(std::memory_order_relaxed) <= at &&
               node.scheduled.load(std::memory_order_relaxed) <= at;
    }

    // A lower bound: a deadline that was taken back may still be reported until fire() has seen it.
    Time next() const { return next_.load(); }

    // Calls `due(node)` for each node whose deadline has come; it may set() new ones, which fire next time.
    // Returns how many were due.
    template <typename Due>
    unsigned fire(Time now, Due&& due) {
        if (now < next()) return 0;
        take_due(now);
        for (TimerNode* node : due_) due(*node);
        return static_cast<unsigned>(due_.size());
    }

    std::size_t entries() const { return queue_.size(); }  // while nobody fires

   private:
    static constexpr std::size_t kFewStale = 64;
    using Queue = TimeQueue<TimerNode>;
    static bool is_stale(const Queue::Entry& entry) {
        return entry.at != entry.node->scheduled.load(std::memory_order_relaxed);
    }
    void take_due(Time now);
    bool reschedule(TimerNode& node, Time now);
    void look_at(TimerNode& node, Time at);

    std::atomic<Time> next_{kNever};
    Lock lock_;
    // Under the lock.
    Queue queue_;
    std::size_t scheduled_ = 0;  // nodes
    // The thread in fire() only.
    std::vector<TimerNode*> due_;
};

}  // namespace verbena::adapter
