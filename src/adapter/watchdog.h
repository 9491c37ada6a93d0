// A descriptor that becomes readable when nobody has polled for one or two milliseconds. Who polls puts that
// off, by one system call a millisecond, so that nobody is woken while somebody does.
//
// Thread safety: all calls but open().
#pragma once

#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "adapter/waiting.h"
#include "base/own_file.h"
#include "base/time.h"

namespace verbena::adapter {

class Watchdog {
   public:
    static constexpr Duration kRest = kMillisecond;  // a poll that comes sooner puts nothing off
    static constexpr Duration kPatience = 2 * kRest;

    Watchdog() = default;
    ~Watchdog() {
        if (fd_ >= 0) close(fd_);
    }
    Watchdog(const Watchdog&) = delete;
    Watchdog& operator=(const Watchdog&) = delete;

    // False: errno says why. Before all others.
    bool open() {
        if (fd_ < 0) fd_ = out_of_the_way(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
        return fd_ >= 0;
    }
    int fd() const { return fd_; }

    // By who watches.
    void start(Time due) {
        due_.store(due);
        set(due);
    }
    // A poll. True: it has put that off.
    bool feed(Time now) {
        Time due = due_.load(std::memory_order_relaxed);
        if (due - now > kRest) [[likely]]
            return false;
        if (!due_.compare_exchange_strong(due, now + kPatience)) return false;  // another thread does
        set(now + kPatience);
        return true;
    }
    // Whether it has rung for good. False: not at all, or somebody who polled is late, and it is set for him.
    bool is_over(Time now) {
        std::uint64_t count;
        static_cast<void>(!read(fd_, &count, sizeof count));
        const Time due = due_.load();
        if (now >= due) return true;
        set(due);
        return false;
    }

   private:
    // Where the program has closed what it did not know this fails, and so wakes who watches.
    void set(Time due) {
        itimerspec setting{};
        setting.it_value = to_timespec(std::max<Time>(due, 1));  // 0 would disarm it
        timerfd_settime(fd_, TFD_TIMER_ABSTIME, &setting, nullptr);
    }

    int fd_ = -1;
    std::atomic<Time> due_{0};
};

}  // namespace verbena::adapter
