// Whether it pays to poll on for a while after packets were served, for who sleeps otherwise: an answer often
// follows. Where others want the processor it does not, and the yield that finds that out takes their share
// of some milliseconds, during which nothing is served; so it is asked ever less often.
//
// Thread safety: all calls; two threads at once may count wrongly, which costs a question more or less.
#pragma once

#include <algorithm>
#include <atomic>

namespace verbena::adapter {

class Lingering {
   public:
    static constexpr unsigned kFewest = 8, kMost = 1024;  // servings between two questions

    // Asked once for each serving. True: the caller polls on, yields meanwhile, and says what came of it.
    bool pays() {
        const unsigned left = left_.load(std::memory_order_relaxed);
        if (left > 0) left_.store(left - 1, std::memory_order_relaxed);
        return left == 0;
    }
    void nobody_ran() { refill_.store(0, std::memory_order_relaxed); }
    void others_ran() {
        const unsigned refill = std::clamp(2 * refill_.load(std::memory_order_relaxed), kFewest, kMost);
        refill_.store(refill, std::memory_order_relaxed);
        left_.store(refill, std::memory_order_relaxed);
    }

   private:
    std::atomic<unsigned> left_{0};    // servings until the next question
    std::atomic<unsigned> refill_{0};  // servings between the last two; 0: nobody else ran
};

}  // namespace verbena::adapter
