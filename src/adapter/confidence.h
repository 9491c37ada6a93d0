// Whether a peer will take in at once what leaves for it as packets. One that let packets wait, or says that
// it has to share its processor, gets none for a while, and twice as long each time that it was no better;
// then some, for a moment, by which both find out.
//
// Thread safety: all calls; two threads at once may wait twice as long, or half.
#pragma once

#include <algorithm>
#include <atomic>

#include "base/time.h"

namespace verbena::adapter {

class Confidence {
   public:
    static constexpr Duration kMoment = 600 * kMicrosecond;    // of a trial; the peer looks twice in it
    static constexpr Duration kForgotten = 10 * kMillisecond;  // since a trial that was not used up
    static constexpr Duration kShortest = kMillisecond, kLongest = 1600 * kMillisecond;  // without one
    // All was, for as long as the last wait, but so long at least, or so long: that wait is over. (What
    // disturbs a peer for a moment now and then must not add up.)
    static constexpr Duration kWell = 20 * kMillisecond, kVeryWell = 200 * kMillisecond;

    // `crowded`: it says so now.
    bool justified(bool crowded, Time now) {
        const Time until = none_until_.load(std::memory_order_relaxed);
        if (now < until) return false;
        const Duration wait = wait_.load(std::memory_order_relaxed);
        if (!crowded) {
            if (wait > 0 && now - until > std::clamp(wait, kWell, kVeryWell))
                wait_.store(0, std::memory_order_relaxed);
            trial_.store(kNever, std::memory_order_relaxed);
            return true;
        }
        const Time trial = trial_.load(std::memory_order_relaxed);
        if (trial == kNever || now - trial > kForgotten) {
            trial_.store(now, std::memory_order_relaxed);
            return true;
        }
        if (now - trial <= kMoment) return true;
        disappointed(now);
        return false;
    }
    // Others may have been disappointed by the same.
    void disappointed(Time now) {
        if (now < none_until_.load(std::memory_order_relaxed)) return;
        const Duration wait = std::clamp(2 * wait_.load(std::memory_order_relaxed), kShortest, kLongest);
        wait_.store(wait, std::memory_order_relaxed);
        none_until_.store(now + wait, std::memory_order_relaxed);
        trial_.store(kNever, std::memory_order_relaxed);
    }

   private:
    std::atomic<Time> none_until_{INT64_MIN / 2};
    std::atomic<Duration> wait_{0};    // the last one; 0: all is well
    std::atomic<Time> trial_{kNever};  // when one began
};

}  // namespace verbena::adapter
