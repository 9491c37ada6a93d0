// Virtual time: what is to happen, in the order of time and, at one time, in the order of scheduling. Nothing
// takes time unless it is scheduled to.
//
// Thread safety: none; one per run.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <vector>

#include "base/time.h"

namespace verbena::sim {

class Scheduler {
   public:
    using Action = std::function<void()>;

    Time now() const { return now_; }
    std::uint64_t events() const { return events_; }
    bool empty() const { return heap_.empty(); }
    Time next() const { return heap_.front().time; }  // not empty

    // A time that has passed already means now.
    void at(Time time, Action action) {
        heap_.push_back({std::max(time, now_), order_++, std::move(action)});
        std::push_heap(heap_.begin(), heap_.end(), later);
    }
    void after(Duration delay, Action action) { at(now_ + delay, std::move(action)); }

    // The next event happens. There is one.
    void step() {
        std::pop_heap(heap_.begin(), heap_.end(), later);
        Entry entry = std::move(heap_.back());
        heap_.pop_back();
        now_ = entry.time;
        events_++;
        entry.action();
    }

   private:
    struct Entry {
        Time time;
        std::uint64_t order;
        Action action;
    };
    static bool later(const Entry& a, const Entry& b) {
        return a.time != b.time ? a.time > b.time : a.order > b.order;
    }

    std::vector<Entry> heap_;
    Time now_ = 1 * kSecond;
    std::uint64_t order_ = 0;
    std::uint64_t events_ = 0;
};

}  // namespace verbena::sim
