// A memory barrier whose whole cost lies on one side (membarrier(2), "private expedited"). Where two threads
// each store and then look at what the other stored, so that at least one of them must see the other, both
// need a barrier in between. If one side does it millions of times a second and the other hardly ever, the
// first goes without (light_barrier()), and the other makes all threads of the process pass one at that
// moment (heavy_barrier(): some microseconds, a system call).
//
// Thread safety: all calls.
#pragma once

#include <atomic>

namespace verbena {

namespace detail {
extern std::atomic<bool> heavy_barriers;
}

// Early, while the process has one thread: later it takes the kernel some milliseconds. False: this kernel
// does not let us, or VERBENA_DISABLE=membarrier, and nothing has changed. Once is enough.
bool allow_heavy_barriers();

// For good once it is true.
inline bool heavy_barriers_allowed() { return detail::heavy_barriers.load(std::memory_order_relaxed); }

// Sequentially consistent with every light_barrier() of any thread of the process.
void heavy_barrier();

// (__sync_synchronize() where std::atomic_thread_fence() is meant: the thread sanitizer refuses that.)
inline void light_barrier() {
    if (heavy_barriers_allowed()) [[likely]]
        std::atomic_signal_fence(std::memory_order_seq_cst);
    else
        __sync_synchronize();
}

}  // namespace verbena
