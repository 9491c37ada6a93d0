// Whether something pays that shows only when it is done: it is done as long as it pays, and otherwise tried
// again, ever less often.
//
// Thread safety: all calls; two threads at once may count wrongly, which costs a trial more or less.
#pragma once

#include <algorithm>
#include <atomic>

namespace verbena {

class Trial {
   public:
    static constexpr unsigned kFewest = 8, kMost = 1024;  // occasions between two trials

    // Asked once for each occasion. True: the caller does it, and says what came of it.
    bool pays() {
        const unsigned left = left_.load(std::memory_order_relaxed);
        if (left > 0) left_.store(left - 1, std::memory_order_relaxed);
        return left == 0;
    }
    void paid() { refill_.store(0, std::memory_order_relaxed); }
    void in_vain() {
        const unsigned refill = std::clamp(2 * refill_.load(std::memory_order_relaxed), kFewest, kMost);
        refill_.store(refill, std::memory_order_relaxed);
        left_.store(refill, std::memory_order_relaxed);
    }

   private:
    std::atomic<unsigned> left_{0};    // occasions until the next trial
    std::atomic<unsigned> refill_{0};  // occasions between the last two; 0: it paid
};

}  // namespace verbena
