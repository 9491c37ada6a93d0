// What the wall clock showed at a time of ours (clock.h). The two clocks cannot be read together, and between
// two tries their distance would seem to change: a time told twice would differ, and a later one be less. So
// the distance is measured once, and kept until the wall clock has been set by more than those tries could
// explain, which is looked at now and then.
//
// Thread safety: all calls.
#pragma once

#include <atomic>
#include <cstdlib>

#include "base/time.h"

namespace verbena::adapter {

// Clocks::now() is ours, Clocks::wall() nanoseconds since 1970.
template <class Clocks>
class WallTime {
   public:
    Time at(Time time) {
        const Time now = Clocks::now();
        if (now >= next_look_.load(std::memory_order_relaxed)) look(now);
        return time + distance_.load(std::memory_order_relaxed);
    }

    static constexpr Duration kLookEvery = 100 * kMillisecond;
    static constexpr Duration kSet = kMillisecond;  // what is less nobody has set

   private:
    static constexpr Time kUnknown = INT64_MIN;
    struct Measured {
        Time distance;
        Duration within;  // so long did the reading take
    };

    static Measured measure() {
        const Time before = Clocks::now(), wall = Clocks::wall();
        const Duration within = Clocks::now() - before;
        return {wall - (before + within / 2), within};
    }
    // Of some, so that a thread that lost its processor in between does not count.
    static Measured best_of_some() {
        constexpr int kSome = 4;
        Measured best = measure();
        for (int i = 1; i < kSome; i++)
            if (const Measured next = measure(); next.within < best.within) best = next;
        return best;
    }

    void look(Time now) {
        const auto [distance, within] = best_of_some();
        Time known = kUnknown;
        if (!distance_.compare_exchange_strong(known, distance) && std::abs(distance - known) > kSet + within)
            distance_.store(distance);
        next_look_.store(now + kLookEvery, std::memory_order_relaxed);
    }

    std::atomic<Time> distance_{kUnknown}, next_look_{kUnknown};
};

}  // namespace verbena::adapter
