// A descriptor that becomes readable when nobody has polled for one or two milliseconds. Who polls puts that
// off, by one system call a millisecond, so that nobody is woken while somebody does.
//
// Thread safety: all calls but open().
#pragma once

#include <atomic>

#include "adapter/timer_file.h"
#include "base/time.h"

namespace verbena::adapter {

class Watchdog {
   public:
    static constexpr Duration kRest = kMillisecond;  // a poll that comes sooner puts nothing off
    static constexpr Duration kPatience = 2 * kRest;

    // False: errno says why. Before all others.
    bool open() { return file_.open(); }
    int fd() const { return file_.fd(); }

    // By who watches.
    void start(Time due) {
        due_.store(due);
        file_.ring_at(due);
    }
    // A poll. True: it has put that off.
    bool feed(Time now) {
        Time due = due_.load(std::memory_order_relaxed);
        if (due - now > kRest) [[likely]]
            return false;
        if (!due_.compare_exchange_strong(due, now + kPatience)) return false;  // another thread does
        // Where the program has closed what it did not know this fails, and so wakes who watches.
        file_.ring_at(now + kPatience);
        return true;
    }
    // Whether it has rung for good. False: not at all, or somebody who polled is late, and it is set for him.
    bool is_over(Time now) {
        file_.take();
        const Time due = due_.load();
        if (now >= due) return true;
        file_.ring_at(due);
        return false;
    }

   private:
    TimerFile file_;
    std::atomic<Time> due_{0};
};

}  // namespace verbena::adapter
