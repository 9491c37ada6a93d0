// The threads of a process that poll while processors are short, and nap between their polls (patience.h). A
// few nap on the link: what comes wakes them, for which its sender makes a system call. With dozens of them
// each message costs that, and each wakes up ten thousand times a second: no time is left for what they wake
// up for. So where there are some already the next sleeps aside, the longer the more there are: together they
// look each tenth of a millisecond.
//
// Thread safety: full.
#pragma once

#include <algorithm>
#include <atomic>

#include "base/time.h"

namespace verbena::adapter {

class Nappers {
   public:
    static constexpr unsigned kFew = 4;
    static constexpr Duration kNap = 100 * kMicrosecond;
    static constexpr Duration kLongest = kMillisecond;

    struct Nap {
        bool on_link;
        Duration length;
    };
    Nap begins() {
        const unsigned others = count_.fetch_add(1);
        return others < kFew ? Nap{true, kNap} : Nap{false, std::min(others * kNap, kLongest)};
    }
    void ends() { count_.fetch_sub(1); }
    bool any() const { return count_.load(std::memory_order_relaxed) > 0; }

   private:
    std::atomic<unsigned> count_{0};
};

}  // namespace verbena::adapter
