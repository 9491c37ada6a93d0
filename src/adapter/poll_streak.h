// Whether a program polls so steadily that its threads can do without the helper, which then leaves the link
// to them. That was wrong if packets wait when it looks again: the program waits for what its peer writes
// into its memory, say, and polls only for what it sent itself. It must then poll twice as often, or for
// long.
//
// Thread safety: all calls; two threads at once may count wrongly, which costs a poll more or less.
#pragma once

#include <algorithm>
#include <atomic>

#include "base/time.h"

namespace verbena::adapter {

class PollStreak {
   public:
    static constexpr Duration kGap = 100 * kMicrosecond;      // farther apart, on average, is no streak
    static constexpr unsigned kFewest = 64, kMost = 1 << 14;  // polls
    static constexpr Duration kLongest = 100 * kMillisecond;  // that are enough, however few polls they were
    static constexpr Duration kPosting = 10 * kMicrosecond;   // that counts as a poll
    static constexpr Duration kLong = 32 * kMillisecond;      // of polling; then leaving the link was right

    // A poll. True: the helper is not needed.
    bool poll(Time now) {
        const unsigned polls = polls_.load(std::memory_order_relaxed);
        const Duration lasted = now - began_.load(std::memory_order_relaxed);
        if (polls == 0 || lasted > static_cast<Duration>(polls) * kGap) {
            began_.store(now, std::memory_order_relaxed);
            polls_.store(1, std::memory_order_relaxed);
            return false;
        }
        const bool enough = polls >= needed_.load(std::memory_order_relaxed) || lasted >= kLongest;
        polls_.store(enough ? 0 : polls + 1, std::memory_order_relaxed);
        return enough;
    }
    // A nap on the link is polling, too.
    void napped(Time from, Time now) {
        const Time began = began_.load(std::memory_order_relaxed);
        began_.store(std::min(began + (now - from), now), std::memory_order_relaxed);
    }
    // And so is posting, which counts as many polls.
    void posted(Time from, Time now) {
        napped(from, now);
        if (const unsigned polls = polls_.load(std::memory_order_relaxed); polls > 0)
            polls_.store(polls + static_cast<unsigned>((now - from) / kPosting), std::memory_order_relaxed);
    }
    void end() { polls_.store(0, std::memory_order_relaxed); }

    // The helper's, which has left the link to the program: it has polled for so long; and it did not go on.
    void went_on(Duration lasted) {
        unsigned needed = needed_.load(std::memory_order_relaxed);
        for (lasted_ += lasted; lasted_ >= kLong && needed > kFewest; lasted_ -= kLong) needed /= 2;
        lasted_ %= kLong;
        needed_.store(needed, std::memory_order_relaxed);
    }
    void is_over(bool packets_waited) {
        lasted_ = 0;
        if (!packets_waited) return;
        const unsigned needed = needed_.load(std::memory_order_relaxed);
        needed_.store(std::min(2 * needed, kMost), std::memory_order_relaxed);
    }

   private:
    std::atomic<Time> began_{0};
    std::atomic<unsigned> polls_{0};  // since then
    std::atomic<unsigned> needed_{kFewest};
    Duration lasted_ = 0;  // the helper's own
};

}  // namespace verbena::adapter
