// A descriptor that becomes readable at a time; earlier and earlier ones may be asked for. It is only ever
// moved to an earlier time, since each move is a system call: it rings in vain when what it was for is done.
//
// Thread safety: all calls but open().
#pragma once

#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <mutex>

#include "adapter/waiting.h"
#include "base/own_file.h"
#include "base/time.h"

namespace verbena::adapter {

class Alarm {
   public:
    Alarm() = default;
    ~Alarm() {
        if (fd_ >= 0) close(fd_);
    }
    Alarm(const Alarm&) = delete;
    Alarm& operator=(const Alarm&) = delete;

    // False: errno says why. Before all others.
    bool open() {
        if (fd_ < 0) fd_ = out_of_the_way(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
        return fd_ >= 0;
    }
    int fd() const { return fd_; }

    Time set() const { return set_.load(); }  // kNever: it will not ring
    // False: it is set for no later time anyway.
    bool ring_by(Time time) {
        std::lock_guard guard(lock_);
        if (time >= set()) return false;
        itimerspec setting{};
        setting.it_value = to_timespec(std::max<Time>(time, 1));  // 0 would disarm it
        timerfd_settime(fd_, TFD_TIMER_ABSTIME, &setting, nullptr);
        set_.store(time);
        return true;
    }
    // It has rung. False: for another thread, which was faster.
    bool take() {
        std::lock_guard guard(lock_);
        std::uint64_t count;
        if (read(fd_, &count, sizeof count) != sizeof count) return false;
        set_.store(kNever);
        return true;
    }

   private:
    int fd_ = -1;
    std::mutex lock_;
    std::atomic<Time> set_{kNever};
};

}  // namespace verbena::adapter
