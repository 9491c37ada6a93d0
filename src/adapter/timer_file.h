// A timer's descriptor, of our own, which becomes readable at a time.
//
// Thread safety: all calls but open().
#pragma once

#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>

#include "adapter/waiting.h"
#include "base/own_file.h"
#include "base/time.h"

namespace verbena::adapter {

class TimerFile {
   public:
    TimerFile() = default;
    ~TimerFile() {
        if (fd_ >= 0) close(fd_);
    }
    TimerFile(const TimerFile&) = delete;
    TimerFile& operator=(const TimerFile&) = delete;

    // False: errno says why. Before all others.
    bool open() {
        if (fd_ < 0) fd_ = out_of_the_way(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
        return fd_ >= 0;
    }
    int fd() const { return fd_; }

    // In place of what was set.
    void ring_at(Time time) {
        itimerspec setting{};
        setting.it_value = to_timespec(std::max<Time>(time, 1));  // 0 would disarm it
        timerfd_settime(fd_, TFD_TIMER_ABSTIME, &setting, nullptr);
    }
    // Whether it had rung; it is readable no more.
    bool take() {
        std::uint64_t count;
        return read(fd_, &count, sizeof count) == sizeof count;
    }

   private:
    int fd_ = -1;
};

}  // namespace verbena::adapter
