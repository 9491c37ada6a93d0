// Threads in the order in which they first asked, from 0 on: to spread them over places of which there are
// few, so that each finds the one again that its cache holds.
#pragma once

#include <atomic>

#include "base/quick_thread_local.h"

namespace verbena {

inline unsigned thread_order() {
    static constinit std::atomic<unsigned> asked{0};
    static constinit VERBENA_QUICK_THREAD_LOCAL unsigned mine = 0;  // 0: this one has not
    if (mine == 0) [[unlikely]]
        mine = asked.fetch_add(1, std::memory_order_relaxed) + 1;
    return mine - 1;
}

}  // namespace verbena
