// The only reader of clocks: everything below takes the time as an argument.
#pragma once

#include <time.h>

#include "base/time.h"

namespace verbena::adapter {

// CLOCK_MONOTONIC, or up to some microseconds less (counter_clock.h); the same in all processes of the host.
Time now();

// Nanoseconds since 1970, for what people read (captures).
inline Time wall_clock() {
    timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return Time{t.tv_sec} * kSecond + t.tv_nsec;
}

// What that showed at a time of ours; told again it is the same, unless the clock has been set.
Time wall_time_of(Time time);

}  // namespace verbena::adapter
