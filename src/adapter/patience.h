// What a thread that polls in vain does between two polls: nothing, at first; then it yields, and if others
// run for long, the kernel runs them for milliseconds, whatever arrives for us, and a thread that polled away
// its share waits as long. So then the thread naps on the link instead, from which a packet wakes it, and it
// naps soon, so that its share is there when the packet comes. Whether there are still others only another
// yield tells, which costs those milliseconds: the more often it told so, the later comes the next. Others
// that run once in a long while are not worth a nap, nor is a short turn of our own helper's.
//
// A thread that is bound to one processor yields at once while its peer seems to be bound to the same, and
// soon as seldom as others when nobody else runs there.
//
// Thread safety: each thread has its own.
#pragma once

#include <algorithm>
#include <utility>

#include "adapter/yielding.h"

namespace verbena::adapter {

class Patience {
   public:
    static constexpr unsigned kYieldAfter = 200;  // empty polls
    static constexpr unsigned kNapAfter = 4;      // the same, while processors are short
    static constexpr unsigned kFewestNaps = 64;   // after a long yield; twice as many after each further one
    static constexpr unsigned kMostNaps = 1024;
    static constexpr Duration kOften = 16 * kMillisecond;  // between long yields, where processors are short
    static constexpr Duration kShortTurn = kMillisecond;   // of our own helper's

    // `bound`: to one processor.
    constexpr explicit Patience(bool bound = false) : least_(bound ? 1 : kYieldAfter), limit_(least_) {}

    void found() {
        in_vain_ = 0;
        found_ = true;
    }
    // It asks for events, to sleep for them. The poll that finds nothing more before that waits for nothing.
    void will_sleep() { spares_ = std::exchange(found_, false); }
    enum class Next { poll, yield, nap };
    Next in_vain() {
        if (std::exchange(spares_, false)) return Next::poll;
        const bool naps = naps_ > 0;
        if (++in_vain_ < (naps ? std::min(kNapAfter, limit_) : limit_)) return Next::poll;
        if (!naps) return Next::yield;
        naps_--;
        return Next::nap;
    }
    // What a yield that lasted so long tells; `helped`: our helper ran meanwhile.
    static constexpr bool others_ran(Duration away, bool helped) {
        return away > kLongYield && !(helped && away < kShortTurn);
    }
    void yielded(Duration away, bool helped, Time now) {
        bool others = others_ran(away, helped);
        if (others) {
            const Duration since = now - away - std::exchange(others_at_, now);
            others = refill_ > 0 || since < kOften;
        }
        limit_ = away > kSwitch ? least_ : std::min(2 * limit_, kYieldAfter);
        refill_ = others ? std::clamp(2 * refill_, kFewestNaps, kMostNaps) : 0;
        naps_ = refill_;
    }
    // Its peer may be on the same processor, and wait for it.
    bool yields_at_once() const { return limit_ == 1; }

   private:
    unsigned least_;
    unsigned limit_;            // empty polls until the next yield
    unsigned in_vain_ = 0;      // empty polls in a row
    bool found_ = false;        // something, since it asked for events
    bool spares_ = false;       // the next empty poll does not count
    unsigned naps_ = 0;         // to take before the next yield
    unsigned refill_ = 0;       // naps after the last yield; 0: nobody else ran
    Time others_at_ = -kOften;  // the last long yield
};

}  // namespace verbena::adapter
