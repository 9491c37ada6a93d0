// A monotonic clock at half the price: between two readings of the system's clock, a millisecond apart, time
// is told by the processor's counter, which must run at a constant rate and alike on all processors.
//
// The counter's rate is measured anew with each reading, and believed when two measurements agree; it is then
// taken lower by as much as they may differ, so that this clock stays behind the system's, by less than a
// microsecond, and does not go back when that is read again. What two threads are told may be out of order by
// as much. Where two do not agree, after a silence, a jump or an interruption in the middle of a reading, the
// system's clock answers for a millisecond or two.
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
        if (state_.load(std::memory_order_relaxed) == kUnusable) return Source::time();
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
    static constexpr unsigned kFraction = 32;          // bits of a rate, which is in ns per tick
    static constexpr Duration kWindow = kMillisecond;  // without reading the system's clock
    static constexpr Duration kLeast = kMillisecond / 2, kMost = kSecond;  // what a rate is measured over
    static constexpr unsigned kCaution = 11;  // a rate is taken 2^-kCaution lower; two agree within that
    enum State : std::uint32_t { kUnknown, kUsable, kUnusable };

    [[gnu::noinline]] Time read() {
        std::uint32_t sequence = sequence_.load(std::memory_order_relaxed);
        if (sequence % 2 != 0 ||
            !sequence_.compare_exchange_strong(sequence, sequence + 1, std::memory_order_acquire))
            return Source::time();  // another thread is at it
        if (state_.load(std::memory_order_relaxed) == kUnknown)
            state_.store(Source::usable() ? kUsable : kUnusable, std::memory_order_relaxed);
        // In this order: who is interrupted in between has a clock that is late, not early.
        const Time time = Source::time();
        anchor(time, Source::ticks());
        sequence_.store(sequence + 2, std::memory_order_release);
        return time;
    }

    void anchor(Time time, std::uint64_t ticks) {
        const Duration baseline = time - anchor_time_.load(std::memory_order_relaxed);
        const std::uint64_t elapsed = ticks - anchor_ticks_.load(std::memory_order_relaxed);
        if (baseline < kLeast) return;  // too short to measure
        std::uint64_t believed = 0;
        if (baseline < kMost && elapsed > 0) {
            const std::uint64_t rate = (static_cast<std::uint64_t>(baseline) << kFraction) / elapsed;
            const std::uint64_t apart = rate > measured_ ? rate - measured_ : measured_ - rate;
            if (apart <= measured_ >> kCaution)
                believed = rate - (rate >> kCaution);
            else if (measured_ != 0)
                state_.store(kUnknown, std::memory_order_relaxed);  // it may be no longer what it was
            measured_ = rate;
        }
        rate_.store(believed, std::memory_order_release);
        window_.store(believed == 0 ? 0 : (std::uint64_t{kWindow} << kFraction) / believed,
                      std::memory_order_release);
        anchor_time_.store(time, std::memory_order_release);
        anchor_ticks_.store(ticks, std::memory_order_release);
    }

    alignas(64) std::atomic<std::uint32_t> sequence_{0};  // odd: being written
    std::atomic<std::uint32_t> state_{kUnknown};
    std::atomic<std::uint64_t> anchor_ticks_{0};
    std::atomic<Time> anchor_time_{0};
    std::atomic<std::uint64_t> rate_{0};    // 0: none is believed
    std::atomic<std::uint64_t> window_{0};  // ticks
    std::uint64_t measured_ = 0;            // the last rate, whoever writes
};

}  // namespace verbena::adapter
