// The daemon's clock; protocol code gets its readings as arguments.
#pragma once

#include <time.h>

#include "base/time.h"

namespace verbena::daemon {

inline Time now() {
    timespec t{};
    clock_gettime(CLOCK_MONOTONIC, &t);
    return Time{t.tv_sec} * kSecond + t.tv_nsec;
}

}  // namespace verbena::daemon
