// A descriptor that becomes readable at a time; earlier and earlier ones may be asked for. It is only ever
// moved to an earlier time, since each move is a system call: it rings in vain when what it was for is done.
//
// Thread safety: all calls but open().
#pragma once

#include <atomic>
#include <mutex>

#include "adapter/timer_file.h"
#include "base/time.h"

namespace verbena::adapter {

class Alarm {
   public:
    // False: errno says why. Before all others.
    bool open() { return file_.open(); }
    int fd() const { return file_.fd(); }

    Time set() const { return set_.load(); }  // kNever: it will not ring
    // False: it is set for no later time anyway.
    bool ring_by(Time time) {
        std::lock_guard guard(lock_);
        if (time >= set()) return false;
        file_.ring_at(time);
        set_.store(time);
        return true;
    }
    // It has rung. False: for another thread, which was faster.
    bool take() {
        std::lock_guard guard(lock_);
        if (!file_.take()) return false;
        set_.store(kNever);
        return true;
    }

   private:
    TimerFile file_;
    std::mutex lock_;
    std::atomic<Time> set_{kNever};
};

}  // namespace verbena::adapter
