// A mutex that a forked child takes over from a thread that it does not have: who holds it may be in the
// middle of a wait of seconds, so nobody can hold up fork() for it. What it guards must be of use after any
// step.
#pragma once

#include <sched.h>
#include <sys/types.h>
#include <time.h>

#include <atomic>

#include "base/own_pid.h"

namespace verbena::rspreload {

class ProcessLock {
   public:
    void lock() {
        constexpr int kSoon = 100;
        constexpr timespec kMoment{0, 200'000};
        for (int i = 0; !try_lock(); i++)
            if (i < kSoon)
                sched_yield();
            else
                nanosleep(&kMoment, nullptr);
    }
    bool try_lock() {
        const pid_t own = own_pid();
        pid_t holder = 0;
        if (holder_.compare_exchange_strong(holder, own)) return true;
        return holder != own && holder_.compare_exchange_strong(holder, own);
    }
    void unlock() { holder_.store(0); }

   private:
    std::atomic<pid_t> holder_{0};  // the process of the thread that holds it
};

}  // namespace verbena::rspreload
