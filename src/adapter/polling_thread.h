// The thread that polls, as the helper sees it, which has to notice when nobody does any more: a thread that
// wants a processor and has none did not stop polling.
//
// Thread safety: all calls.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <mutex>

#include "base/own_file.h"
#include "base/time.h"

namespace verbena::adapter {

class PollingThread {
   public:
    // By who begins to poll, and, now and then, by who polls. Where several do, nobody is asked about: the
    // others stand for who is kept from the processor.
    void begins();
    void goes_on();

    // For how long it has had a processor, since it began. Negative: nobody is asked about.
    Duration ran() const;
    // It has a processor, or waits for one. False as well where the kernel does not tell.
    bool is_runnable() const;

   private:
    static constexpr pid_t kNobody = 0;

    std::atomic<pid_t> thread_{kNobody};
    mutable std::mutex lock_;  // of all that follow
    pid_t opened_by_ = kNobody;
    OwnFile file_;  // that thread's kOwnStat
};

}  // namespace verbena::adapter
