// The deadlines of queue pairs. Setting one takes no lock and mostly touches the queue pair's own node only:
// deadlines move later all the time (an acknowledgement came), which is noticed when the old one fires. Only
// a deadline earlier than the one the node waits for goes onto a lock-free list, from which the thread that
// fires them takes it into its heap. Ten thousand idle queue pairs cost nothing.
//
// Thread safety: set() and next() from any thread; fire() one thread at a time. A node must outlive the
// Timers.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/time.h"

namespace verbena::adapter {

struct TimerNode {
    std::atomic<Time> deadline{kNever};   // when it is really due
    std::atomic<Time> scheduled{kNever};  // when the heap will look at it; kNever: not in the heap
    std::atomic<bool> listed{false};
    TimerNode* next_listed = nullptr;
    std::size_t place = 0;  // in the heap
};

class Timers {
   public:
    void set(TimerNode& node, Time deadline) {
        // Later than before, and the heap will look: whoever still reads the earlier one looks in vain once.
        if (deadline >= node.deadline.load(std::memory_order_relaxed) &&
            node.scheduled.load(std::memory_order_relaxed) != kNever)
            return node.deadline.store(deadline, std::memory_order_relaxed);
        node.deadline.store(deadline);
        if (deadline >= node.scheduled.load()) return;
        if (!node.listed.exchange(true)) list(node);
        announce(deadline);  // of a node that is listed already, too: next() must not be late
    }

    // Whether `due` will be called for the node at `at` at the latest even if nobody sets it again. Then a
    // deadline that is not earlier need not be set, if `due` asks for it. For who holds a lock that `due`
    // takes.
    bool looks_by(const TimerNode& node, Time at) const {
        return node.deadline.load(std::memory_order_relaxed) <= at &&
               node.scheduled.load(std::memory_order_relaxed) <= at;
    }

    // A lower bound: a deadline that was taken back may still be reported until fire() has seen it.
    Time next() const {
        const Time top = top_.load(), listed = earliest_listed_.load();
        return top < listed ? top : listed;
    }

    // Calls `due(node)` for each node whose deadline has come; it may set() new ones, which fire next time.
    // Returns how many were due.
    template <typename Due>
    unsigned fire(Time now, Due&& due) {
        if (now < next() && !listed_.load(std::memory_order_relaxed)) return 0;
        take_listed();
        due_.clear();
        while (!heap_.empty() && heap_[0].at <= now)
            if (TimerNode& node = *heap_[0].node; reschedule(node, now)) due_.push_back(&node);
        top_.store(heap_.empty() ? kNever : heap_[0].at);
        for (TimerNode* node : due_) due(*node);
        return static_cast<unsigned>(due_.size());
    }

   private:
    void list(TimerNode& node);
    void announce(Time deadline);
    void take_listed();
    bool reschedule(TimerNode& node, Time now);
    void follow(TimerNode& node, Time deadline);

    // Four children each: two levels of thousands of queue pairs lie in a few cache lines, and the times
    // beside the pointers, so that comparing touches no node.
    struct Entry {
        Time at = kNever;  // the node's `scheduled`
        TimerNode* node = nullptr;
    };
    void put(std::size_t place, Entry entry);
    void settle(std::size_t place, Entry entry);
    void erase(TimerNode& node);

    std::atomic<TimerNode*> listed_{nullptr};
    std::atomic<Time> earliest_listed_{kNever};
    std::atomic<Time> top_{kNever};
    std::vector<Entry> heap_;
    std::vector<TimerNode*> due_;
};

}  // namespace verbena::adapter
