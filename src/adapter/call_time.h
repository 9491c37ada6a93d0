// How long a system call takes that executes a small WRITE or READ: 0.4 us on one machine, 3 on another. One
// of several is measured; those in which somebody else had the processor count little.
//
// Thread safety: all calls; two threads at once may lose a measurement.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "base/time.h"

namespace verbena::adapter {

class CallTime {
   public:
    // Whether the next call is to be measured, after so many.
    static bool is_due(std::uint64_t calls) { return calls < kFirst || calls % kEach == 0; }

    void took(Duration duration) {
        const Duration before = usually();
        const Duration most = before > 0 ? 2 * before : kMost;
        const Duration counts = std::clamp<Duration>(duration, 1, most);
        usually_.store(before > 0 ? before + (counts - before) / kWeight : counts, std::memory_order_relaxed);
    }
    // 0: not known.
    Duration usually() const { return usually_.load(std::memory_order_relaxed); }

   private:
    static constexpr std::uint64_t kFirst = 32, kEach = 16;
    static constexpr Duration kMost = 10 * kMicrosecond;  // of the first one, which has page faults
    static constexpr Duration kWeight = 8;

    std::atomic<Duration> usually_{0};
};

}  // namespace verbena::adapter
