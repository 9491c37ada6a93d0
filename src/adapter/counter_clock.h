// A monotonic clock at half the price: between two readings of the system's clock, at most a millisecond
// apart, time is told by the processor's counter, which must run at a constant rate and alike on all
// processors. It never runs ahead of the system's clock, so that it never goes back when that is read again,
// and stays behind by less than half a microsecond.
//
// `Source`: static functions usable(), ticks() and time(); a test brings its own. Constant-initialised.
//
// Thread safety: all calls.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/time.h"

namespace verbena::adapter {

template <class Source>
class CounterClock {
   public:
    Time now() {
        const std::uint64_t ticks = Source::ticks();
        // A sequence lock; acquire throughout, so that the sequence is read again after all else.
        const std::uint32_t before = sequence_.load(std::memory_order_acquire);
        const std::uint64_t elapsed = ticks - anchor_ticks_.load(std::memory_order_acquire);
        const Time anchor = anchor_time_.load(std::memory_order_acquire);
        const std::uint64_t rate = rate_.load(std::memory_order_acquire);
        const std::uint64_t window = window_.load(std::memory_order_acquire);
        if (elapsed < window && before % 2 == 0 && sequence_.load(std::memory_order_relaxed) == before)
            return anchor + static_cast<Time>(elapsed * rate >> kFraction);
        return read();
    }

   private:
    static constexpr unsigned kFraction = 32;          // bits of the rate, which is in ns per tick
    static constexpr Duration kWindow = kMillisecond;  // without reading the system's clock
    static constexpr Duration kLeast = kMillisecond / 2, kMost = kSecond;  // what the rate is measured over
    static constexpr unsigned kCaution = 12;  // the rate is taken 2^-kCaution lower than measured
    static constexpr unsigned kDoubt = 8;     // two rates farther apart than 2^-kDoubt: neither is believed
    enum State : std::uint32_t { kUnknown, kUsable, kUnusable };

    [[gnu::noinline]] Time read() {
        const Time time = Source::time();
        if (state_.load(std::memory_order_relaxed) != kUsable) {
            if (state_.load(std::memory_order_relaxed) == kUnusable) return time;
            state_.store(Source::usable() ? kUsable : kUnusable, std::memory_order_relaxed);
            return time;
        }
        std::uint32_t sequence = sequence_.load(std::memory_order_relaxed);
        if (sequence % 2 != 0 ||
            !sequence_.compare_exchange_strong(sequence, sequence + 1, std::memory_order_acquire))
            return time;  // another thread is at it
        // Read after the time: whoever was interrupted in between has a clock that is slow, never fast.
        anchor(Source::ticks(), time);
        sequence_.store(sequence + 2, std::memory_order_release);
        return time;
    }

    void anchor(std::uint64_t ticks, Time time) {
        const Duration baseline = time - anchor_time_.load(std::memory_order_relaxed);
        const std::uint64_t elapsed = ticks - anchor_ticks_.load(std::memory_order_relaxed);
        const std::uint64_t known = rate_.load(std::memory_order_relaxed);
        if (baseline < kLeast && baseline >= 0 && known == 0) return;  // too short to measure
        std::uint64_t rate = known;
        if (baseline >= kLeast && baseline < kMost && elapsed > 0) {
            rate = (static_cast<std::uint64_t>(baseline) << kFraction) / elapsed;
            rate -= rate >> kCaution;
            const std::uint64_t apart = rate > known ? rate - known : known - rate;
            if (known != 0 && apart > known >> kDoubt) rate = 0;
        }
        rate_.store(rate, std::memory_order_release);
        window_.store(rate == 0 ? 0 : (std::uint64_t{kWindow} << kFraction) / rate,
                      std::memory_order_release);
        anchor_time_.store(time, std::memory_order_release);
        anchor_ticks_.store(ticks, std::memory_order_release);
    }

    alignas(64) std::atomic<std::uint32_t> sequence_{0};  // odd: being written
    std::atomic<std::uint32_t> state_{kUnknown};
    std::atomic<std::uint64_t> anchor_ticks_{0};
    std::atomic<Time> anchor_time_{0};
    std::atomic<std::uint64_t> rate_{0};    // 0: not measured yet
    std::atomic<std::uint64_t> window_{0};  // ticks
};

}  // namespace verbena::adapter
