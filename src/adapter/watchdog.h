// A descriptor that becomes readable when nobody has polled for one or two milliseconds. Who polls puts that
// off, by one system call a millisecond, so that nobody is woken while somebody does.
//
// It is believed the second time only: where who polls and who watches share a processor that was away, taken
// by another process or the hypervisor, who watches comes first when it is back. So who polls gets a moment,
// and is waited for for as long as it would like to run and has not had that much (polling_thread.h); up to
// some milliseconds, since packets wait meanwhile.
//
// Thread safety: all calls but open().
#pragma once

#include <atomic>

#include "adapter/polling_thread.h"
#include "adapter/timer_file.h"
#include "base/time.h"

namespace verbena::adapter {

template <class Thread>
class WatchdogOf {
   public:
    static constexpr Duration kRest = kMillisecond;  // a poll that comes sooner puts nothing off
    static constexpr Duration kPatience = 2 * kRest;
    static constexpr Duration kMoment = kRest / 4;
    static constexpr Duration kChance = 2 * kMoment;  // of a processor, in which who polls would have
    static constexpr Duration kLongest = 8 * kRest;   // that it is waited for

    // False: errno says why. Before all others.
    bool open() { return file_.open(); }
    int fd() const { return file_.fd(); }

    // By who polls, before what it does makes somebody watch.
    void polls_begin() { thread_.begins(); }

    // By who watches.
    void start(Time due) {
        last_chance_ = kNever;
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
        thread_.goes_on();
        return true;
    }
    // By who watches: whether it has rung for good. False: not at all, or for the first time, or somebody who
    // polled is late, and it is set for him.
    bool is_over(Time now) {
        file_.take();
        Time due = due_.load();
        if (now >= due) {
            if (due != last_chance_) {
                rang_at_ = now;
                ran_ = thread_.ran();
            } else if (!is_kept_away(now)) {
                return true;
            }
            if (due_.compare_exchange_strong(due, now + kMoment)) last_chance_ = due = now + kMoment;
        }
        file_.ring_at(due);
        return false;
    }

   private:
    // Since it rang.
    bool is_kept_away(Time now) const {
        return ran_ >= 0 && now - rang_at_ < kLongest && thread_.ran() - ran_ < kChance &&
               thread_.is_runnable();
    }

    TimerFile file_;
    std::atomic<Time> due_{0};
    Thread thread_;
    // The rest is who watches's own.
    Time last_chance_ = kNever;  // when it is believed, if that is due
    Time rang_at_ = 0;           // for the first time
    Duration ran_ = 0;           // the thread, until then
};

using Watchdog = WatchdogOf<PollingThread>;

}  // namespace verbena::adapter
