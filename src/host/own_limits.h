// The limits that a process inherits (getrlimit(2)), for one that serves others and not who started it.
#pragma once

#include <sys/resource.h>

namespace verbena::host {

// Takes all that it may have of what bounds a whole process. System calls only: for copies of a program, too.
inline void raise_limits() {
    for (const auto each : {RLIMIT_NOFILE, RLIMIT_CPU, RLIMIT_FSIZE, RLIMIT_AS, RLIMIT_DATA}) {
        rlimit limit{};
        if (getrlimit(each, &limit) != 0 || limit.rlim_cur == limit.rlim_max) continue;
        limit.rlim_cur = limit.rlim_max;
        setrlimit(each, &limit);
    }
}

// What programs usually have; for what is executed next. Only who may raises a lower hard limit. False: it
// is too small for any program of ours.
inline bool raise_stack_limit() {
    constexpr rlim_t kUsual = 8u << 20, kLeast = 256u << 10;
    rlimit limit{};
    if (getrlimit(RLIMIT_STACK, &limit) != 0 || limit.rlim_cur >= kUsual) return true;
    const rlimit usual{kUsual, limit.rlim_max < kUsual ? kUsual : limit.rlim_max};
    if (setrlimit(RLIMIT_STACK, &usual) == 0) return true;
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_STACK, &limit);
    return limit.rlim_cur >= kLeast;
}

}  // namespace verbena::host
