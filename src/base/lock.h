// A lock for sections of some hundred nanoseconds that are entered millions of times a second: entering a
// free one is one inlined atomic operation, leaving it a store, a sixth of what a std::mutex costs. Who finds
// it taken sleeps in the kernel, like there. Not recursive, and not fair.
//
// Whoever leaves looks whether somebody sleeps without making sure that his store is seen first, which would
// cost as much as entering: in the nanoseconds in between, a thread that goes to sleep may be overlooked. So
// nobody sleeps for longer than kOverlooked without looking again.
//
// Thread safety: all calls. Fits std::lock_guard and std::unique_lock. It must not be destroyed before
// unlock() has returned in every thread.
#pragma once

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>

namespace verbena {

class Lock {
   public:
    Lock() = default;
    Lock(const Lock&) = delete;
    Lock& operator=(const Lock&) = delete;

    void lock() {
        if (!try_lock()) wait();
    }
    bool try_lock() {
        std::uint32_t expected = kFree;
        return state_.compare_exchange_strong(expected, kTaken, std::memory_order_acquire,
                                              std::memory_order_relaxed);
    }
    void unlock() {
        state_.store(kFree, std::memory_order_release);
        if (sleepers_.load(std::memory_order_relaxed) != 0) [[unlikely]]
            futex(FUTEX_WAKE_PRIVATE, 1);
    }

   private:
    enum : std::uint32_t { kFree, kTaken };
    static constexpr long kOverlooked = 200'000;  // nanoseconds

    [[gnu::noinline]] void wait() {
        const int before = errno;
        sleepers_.fetch_add(1, std::memory_order_seq_cst);
        while (!try_lock()) futex(FUTEX_WAIT_PRIVATE, kTaken);
        sleepers_.fetch_sub(1, std::memory_order_relaxed);
        errno = before;
    }
    void futex(int operation, std::uint32_t value) {
        const timespec most{0, kOverlooked};  // a wake-up does not look at it
        syscall(SYS_futex, &state_, operation, value, &most, nullptr, 0);
    }

    std::atomic<std::uint32_t> state_{kFree};
    std::atomic<std::uint32_t> sleepers_{0};
    static_assert(sizeof(std::atomic<std::uint32_t>) == sizeof(std::uint32_t));
};

}  // namespace verbena
