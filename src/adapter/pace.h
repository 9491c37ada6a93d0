// Which of two ways moves messages of some length to or from a peer of this host faster: by one processor
// alone (a WRITE or READ that we execute, a SEND that the peer fetches), or by the processors of both
// together (through the ring). How they compare differs from machine to machine and from length to length, by
// factors, and changes within minutes where the machine is shared; so both are measured as they go. The other
// one is tried now and then, ever less often while it is no better.
//
// Thread safety: all calls; two threads at once may lose a measurement, or try twice.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstdint>

#include "base/time.h"

namespace verbena::adapter {

class Pace {
   public:
    // Together must be clearly faster, if it costs a processor that the program has other use for; else
    // whichever is not in use must be.
    enum class Costs : std::uint8_t { more_together, alike };
    // From the length `halved` on both together copy no more than one alone would (transport/rc_halves.cpp).
    explicit Pace(Costs costs, std::uint32_t halved = UINT32_MAX) : costs_(costs), halved_(halved) {}

    static constexpr Duration kShortest = 50 * kMillisecond,
                              kLongest = 1600 * kMillisecond;  // between trials
    // ... to those that follow one by which the other way was slower by half,
    static constexpr Duration kClear = 4 * kShortest;
    // ... but to the first; and to those that follow the first, or a change, where it costs nobody anything
    // but what it takes: what was slower may have been disturbed, or measured too soon, as pages were still
    // made.
    static constexpr Duration kSoon = kMillisecond, kDoubted = 4 * kMillisecond;
    // A trial lasts at most, if it measures nothing, as long as so much takes by the way in use, since what
    // is out of that way has to pass first; within bounds.
    static constexpr std::uint32_t kInTheWay = 32;  // MiB
    static constexpr Duration kShortestTrial = 6 * kMillisecond, kLongestTrial = 100 * kMillisecond;
    // Measurements in a trial, if each is of much; or of a single call, as those of what we execute are. The
    // first does not count: caches are cold.
    static constexpr std::uint32_t kInTrial = 3, kSingleInTrial = 5;
    // ... of which so many of much suffice if the other way is slower by half.
    static constexpr std::uint32_t kClearInTrial = 2;
    // Measurements in a trial of what is halved: that gets faster for a millisecond or two, while its lines
    // move to the cache of the processor that copies them from now on.
    static constexpr std::uint32_t kHalvedInTrial = 8;
    static constexpr std::uint32_t kUntilKnown =
        3;  // measurements, until they count; the first has page faults
    static constexpr Duration kRemembered = 4 * kMillisecond;

    void alone(std::uint32_t length, std::uint64_t bytes, Duration took) {
        Way& way = of(length);
        learn(way, way.alone, bytes, took);
    }
    void together(std::uint32_t length, std::uint64_t bytes, Duration took) {
        Way& way = of(length);
        learn(way, way.together, bytes, took);
    }

    // `otherwise`: where neither is known. Told: much at a time is about to leave, in operations of that
    // length.
    bool together_is_faster(std::uint32_t length, bool otherwise, Time now) {
        Way& way = of(length);
        if (way.alone.taken() == 0 && costs_ == Costs::more_together)  // by turns
            return way.together.taken() == 0 && otherwise;
        const bool halves = length >= halved_;
        const bool faster = together_seems_faster(way, otherwise, halves);
        return tries_other(way, faster, halves, now) ? !faster : faster;
    }

   private:
    // How long what passed one way took, of which the older counts ever less.
    class Measured {
       public:
        // ns for 1 MiB; 0: not known
        float taken() const { return sum_.load(std::memory_order_relaxed).each(); }
        std::uint32_t count() const { return count_.load(std::memory_order_relaxed); }
        void says_nothing() { count_.store(count() + 1, std::memory_order_relaxed); }
        // What was known counts as if it had taken kRemembered at most, or, in a trial, as long as this. At
        // first it does not count at all if this took less than half: something was in the way, as page
        // faults are. If it took far more than twice as long, something may be in the way now.
        void learn(std::uint64_t bytes, Duration took, bool trial) {
            Sum sum = sum_.load(std::memory_order_relaxed);
            const float mib = static_cast<float>(bytes) / (1 << 20), expected = mib * sum.each();
            float ns = static_cast<float>(took);
            if (count() < kFirst && 2 * ns < expected) sum = {};
            if (sum.ns > 0) ns = std::min(ns, 2 * expected + (trial ? 0 : kInterruption));
            if (const float most = trial ? ns : kRemembered; sum.ns > most)
                sum = {sum.mib * most / sum.ns, most};
            sum_.store({sum.mib + mib, sum.ns + ns}, std::memory_order_relaxed);
            says_nothing();
        }

       private:
        static constexpr std::uint32_t kFirst = 8;
        static constexpr float kInterruption = kMillisecond;  // what counts of one
        struct alignas(8) Sum {
            float each() const { return mib > 0 ? ns / mib : 0; }
            float mib = 0, ns = 0;
        };
        static_assert(std::atomic<Sum>::is_always_lock_free);
        std::atomic<Sum> sum_{Sum{}};
        std::atomic<std::uint32_t> count_{0};
    };
    struct Way {
        const Measured& chosen() const {
            return chose_together.load(std::memory_order_relaxed) ? together : alone;
        }
        const Measured& not_chosen() const { return &chosen() == &together ? alone : together; }
        // The chosen one may not have been measured yet.
        bool is_clear() const {
            return chosen().taken() > 0 && 2 * not_chosen().taken() > 3 * chosen().taken();
        }

        Measured alone, together;
        std::atomic<bool> chose_together{false};
        std::atomic<bool> tries{false};
        std::atomic<std::uint32_t> before{0};  // of the other's `count`, when the trial began
        std::atomic<Time> next{0};             // begin of the next trial; end of this one
        std::atomic<Duration> wait{kShortest};
    };
    static constexpr unsigned kSmallest = 10, kClasses = 12;  // 1 KiB; 2 MiB and more

    Way& of(std::uint32_t length) {
        const unsigned width = static_cast<unsigned>(std::bit_width(length | 1)) - 1;
        return ways_[std::clamp(width, kSmallest, kSmallest + kClasses - 1) - kSmallest];
    }

    bool costs_nobody(bool halves) const { return halves || costs_ == Costs::alike; }

    bool together_seems_faster(const Way& way, bool otherwise, bool halves) const {
        const float alone = way.alone.taken(), together = way.together.taken();
        const bool chosen = way.chose_together.load(std::memory_order_relaxed);
        if (alone == 0 || together == 0 || way.together.count() < kUntilKnown)
            // What a trial has under way is no reason to go on like that.
            return way.tries.load(std::memory_order_relaxed) ? chosen : otherwise;
        if (costs_nobody(halves) && chosen) return 10 * alone >= 9 * together;
        return 10 * together < 9 * alone;
    }

    // What a trial measures counts as much as all that was known before.
    static void learn(const Way& way, Measured& measured, std::uint64_t bytes, Duration took) {
        if (bytes == 0 || took <= 0) return;
        const bool trial = way.tries.load(std::memory_order_relaxed) && &measured == &way.not_chosen();
        if (trial && measured.count() == way.before.load(std::memory_order_relaxed))
            measured.says_nothing();
        else
            measured.learn(bytes, took, trial);
    }

    bool tries_other(Way& way, bool faster, bool halves, Time now) const {
        const bool first = way.next.load(std::memory_order_relaxed) == 0;
        const bool changes = way.chose_together.load(std::memory_order_relaxed) != faster;
        if (changes) way.chose_together.store(faster, std::memory_order_relaxed);
        if (first || changes) {  // worth a look soon
            const Duration wait = first ? kSoon : faster || costs_nobody(halves) ? kDoubted : kShortest;
            way.wait.store(wait, std::memory_order_relaxed);
            return rests(way, now);
        }
        const std::uint32_t count = way.not_chosen().count();
        const bool single = faster && costs_ == Costs::more_together;
        const std::uint32_t enough = single ? kSingleInTrial : halves ? kHalvedInTrial : kInTrial;
        if (way.tries.load(std::memory_order_relaxed)) {
            const std::uint32_t before = way.before.load(std::memory_order_relaxed), done = count - before;
            const bool clear = way.is_clear(), doubtful = before == 0;
            const bool measured = done >= enough || (!single && !doubtful && done >= kClearInTrial && clear);
            if (!measured && now < way.next.load(std::memory_order_relaxed)) return true;
            const Duration wait = std::min(2 * way.wait.load(std::memory_order_relaxed), kLongest);
            const Duration least = doubtful ? kDoubted : measured && clear ? kClear : kShortest;
            way.wait.store(std::max(wait, least), std::memory_order_relaxed);
            return rests(way, now);
        }
        if (now < way.next.load(std::memory_order_relaxed)) return false;
        way.before.store(count, std::memory_order_relaxed);
        const auto drains = static_cast<Duration>(kInTheWay * way.chosen().taken());
        way.next.store(now + std::clamp(drains, kShortestTrial, kLongestTrial), std::memory_order_relaxed);
        way.tries.store(true, std::memory_order_relaxed);
        return true;
    }
    // A quarter less at most, by chance (the clock's nanoseconds): of two who answer each other both have
    // begun at the same time, and who tries while the other tries as well finds out nothing.
    static bool rests(Way& way, Time now) {
        const Duration wait = way.wait.load(std::memory_order_relaxed);
        way.tries.store(false, std::memory_order_relaxed);
        way.next.store(now + wait - wait / 4 * (now % kMicrosecond) / kMicrosecond,
                       std::memory_order_relaxed);
        return false;
    }

    const Costs costs_;
    const std::uint32_t halved_;  // bytes
    std::array<Way, kClasses> ways_;
};

}  // namespace verbena::adapter
