// A monotonic clock at half the price: between two readings of the system's clock, a millisecond apart, time
// is told by the processor's counter, which must run at a constant rate and alike on all processors.
//
// The counter's rate is measured again and again, and believed when two measurements in a row agree; it is
// then taken lower by as much as they may differ, so that this clock stays behind the system's, by less than
// a microsecond, and does not go back when that is read again. An interruption of up to kLate in the middle
// of a reading makes it late by as much for a millisecond; what two threads are told, or one that asks while
// another is at it, may be out of order by that. Where two measurements do not agree, after a silence, a jump
// or a longer interruption, the system's clock answers until they do; if they go on so, they become longer,
// since where a reading takes long, as in an emulator, only a long one is exact.
//
// `Source`: static functions usable(), ticks() and time(); a test brings its own. Constant-initialised.
//
// Thread safety: all calls.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <utility>

#include "base/time.h"

namespace verbena::adapter {

template <class Source>
class CounterClock {
   public:
    [[gnu::always_inline]] Time now() {
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
    static constexpr unsigned kFraction = 32;            // bits of a rate, which is in ns per tick
    static constexpr Duration kWindow = kMillisecond;    // without reading the system's clock
    static constexpr Duration kLate = 4 * kMicrosecond;  // a slow reading; more is not believed
    static constexpr Duration kLeast = kMillisecond / 2, kMost = kSecond;  // what a rate is measured over
    static constexpr unsigned kDoublings = 7;                              // of kLeast, at most
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

    // Whoever holds the sequence, with a reading of both clocks.
    void anchor(Time time, std::uint64_t ticks) {
        std::uint64_t rate = rate_.load(std::memory_order_relaxed);
        if (rate != 0 && !is_as_told(time, ticks, rate)) rate = 0;
        if (time - start_.time >= length(rate != 0)) rate = measure(time, ticks);
        rate_.store(rate, std::memory_order_release);
        window_.store(rate == 0 ? 0 : (std::uint64_t{kWindow} << kFraction) / rate,
                      std::memory_order_release);
        anchor_time_.store(time, std::memory_order_release);
        anchor_ticks_.store(ticks, std::memory_order_release);
    }

    bool is_as_told(Time time, std::uint64_t ticks, std::uint64_t rate) const {
        const Duration passed = time - anchor_time_.load(std::memory_order_relaxed);
        const std::uint64_t elapsed = ticks - anchor_ticks_.load(std::memory_order_relaxed);
        if (passed >= kMost || elapsed > (std::uint64_t{kMost} << kFraction) / rate) return false;
        const Duration behind = passed - static_cast<Duration>(elapsed * rate >> kFraction);
        return std::abs(behind) <= kLate + (passed >> (kCaution - 1));
    }

    // Of a measurement. One interruption makes up to three disagree.
    Duration length(bool believes) const {
        if (believes) return kLeast << kDoublings;
        return disagreed_ <= 3 ? kLeast : kLeast << std::min(disagreed_ - 3, kDoublings);
    }

    // The rate to believe from now on.
    std::uint64_t measure(Time time, std::uint64_t ticks) {
        const Duration baseline = time - start_.time;
        const std::uint64_t elapsed = ticks - start_.ticks;
        start_ = {time, ticks};
        if (baseline >= kMost || elapsed == 0) return measured_ = 0;
        const std::uint64_t rate = (static_cast<std::uint64_t>(baseline) << kFraction) / elapsed;
        const std::uint64_t last = std::exchange(measured_, rate);
        const std::uint64_t apart = rate > last ? rate - last : last - rate;
        if (last == 0 || apart > last >> kCaution) {
            if (last != 0 && disagreed_++ == 0)  // it may be no longer what it was
                state_.store(kUnknown, std::memory_order_relaxed);
            return 0;
        }
        disagreed_ = 0;
        return rate - (rate >> kCaution);
    }

    alignas(64) std::atomic<std::uint32_t> sequence_{0};  // odd: being written
    std::atomic<std::uint32_t> state_{kUnknown};
    std::atomic<std::uint64_t> anchor_ticks_{0};
    std::atomic<Time> anchor_time_{0};
    std::atomic<std::uint64_t> rate_{0};    // 0: none is believed
    std::atomic<std::uint64_t> window_{0};  // ticks
    // Whoever holds the sequence:
    struct Reading {
        Time time;
        std::uint64_t ticks;
    };
    Reading start_{};             // of the measurement
    std::uint64_t measured_ = 0;  // the last rate; 0: none
    unsigned disagreed_ = 0;      // measurements in a row
};

}  // namespace verbena::adapter
