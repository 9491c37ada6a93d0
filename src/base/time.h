// Time as the protocol code sees it: nanoseconds of a monotonic clock, always passed in, never read here.
#pragma once

#include <cstdint>
#include <utility>

namespace verbena {

using Time = std::int64_t;      // nanoseconds since an arbitrary start
using Duration = std::int64_t;  // nanoseconds

inline constexpr Time kNever = INT64_MAX;

// The time, or where to get it: for calls that seldom need it, since asking costs as much as they do. It is
// asked for once at most.
class LazyTime {
   public:
    LazyTime(Time time) : time_(time) {}
    LazyTime(Time (*clock)()) : clock_(clock) {}
    bool is_known() const { return !clock_; }
    Time get() const {
        if (clock_) time_ = std::exchange(clock_, nullptr)();
        return time_;
    }

   private:
    mutable Time time_ = 0;
    mutable Time (*clock_)() = nullptr;
};

inline constexpr Duration kMicrosecond = 1'000;
inline constexpr Duration kMillisecond = 1'000'000;
inline constexpr Duration kSecond = 1'000'000'000;

// The IBA's timeout exponent: 4.096 us * 2^t (IBA 9.7.6.1.3, 12.7.34); 0 means "for ever" and is the caller's
// to handle.
inline constexpr Duration iba_timeout(unsigned exponent) { return Duration{4096} << (exponent & 31); }

}  // namespace verbena
