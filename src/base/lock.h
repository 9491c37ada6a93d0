// A lock for sections of some hundred nanoseconds that are entered millions of times a second. Entering a
// free one is one inlined atomic operation, leaving it a store, a sixth of what a std::mutex costs. Who finds
// it taken sleeps in the kernel, like there. Not recursive, and not fair.
//
// Whoever leaves looks whether somebody sleeps without making sure that his store is seen first, which would
// cost as much as entering: in the nanoseconds in between, a thread that goes to sleep may be overlooked. So
// nobody sleeps for longer than kOverlooked without looking again.
//
// Bias. The first thread that has taken a lock again and again, and nobody else in between, comes to own it:
// it enters by plain stores, saying that it is inside and then looking whether the lock is still its own.
// Whoever else wants the lock takes it in the common way first, ends the bias, and waits until the owner is
// not inside. Owner and other each store and then look, so that at least one sees the other; the barrier that
// needs is the other's alone (heavy_barrier.h), and where the process has none of these nobody owns a lock.
// The same thread may earn it again, which takes longer each time; another one not before the first has come
// by the common way, since until then it may be about to say that it is inside, and to take that back. (Not
// for the handlers of signals.)
//
// try_lock() may fail though nobody is inside, while another one ends a bias.
//
// Thread safety: all calls. Fits std::lock_guard and std::unique_lock. It must not be destroyed before
// unlock() has returned in every thread.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/thread_number.h"

namespace verbena {

class Lock {
   public:
    Lock() = default;
    Lock(const Lock&) = delete;
    Lock& operator=(const Lock&) = delete;

    void lock() {
        if (!enter_own() && !enter_common()) wait();
    }
    bool try_lock() { return enter_own() || enter_common(); }
    [[gnu::always_inline]] void unlock() {
        // A branch, since a store to one of two places holds up the loads behind it.
        if (owned_.load(std::memory_order_relaxed))
            leave_own();
        else
            leave_common();
    }

    bool is_owned() const { return owner_.load(std::memory_order_relaxed) != kNobody; }  // by some thread

   private:
    enum : std::uint32_t { kFree, kTaken };
    static constexpr std::uint32_t kNobody = ~std::uint32_t{0};
    static constexpr std::uint8_t kFirstTimes = 6, kMostTimes = 20;  // as powers of two

    // By the owner. A second time it finds the lock taken, as anybody would.
    bool enter_own() {
        const std::uint32_t me = thread_number;
        if (owner_.load(std::memory_order_relaxed) != me || inside_.load(std::memory_order_relaxed) != kFree)
            return false;
        inside_.store(kTaken, std::memory_order_relaxed);
        std::atomic_signal_fence(std::memory_order_seq_cst);  // the light side of end_bias()
        if (owner_.load(std::memory_order_acquire) == me) [[likely]]
            return true;
        leave_own();  // who ended the bias may have taken this for an owner inside
        return false;
    }
    bool enter_common() {
        std::uint32_t expected = kFree;
        if (!state_.compare_exchange_strong(expected, kTaken, std::memory_order_acquire,
                                            std::memory_order_relaxed))
            return false;
        if (owned_.load(std::memory_order_relaxed) && !end_bias()) [[unlikely]]
            return false;
        if (last_ != thread_number)
            is_another();
        else if (--until_bias_ == 0) [[unlikely]]
            begin_bias();
        return true;
    }
    void leave_own() {
        inside_.store(kFree, std::memory_order_release);
        if (sleepers_.load(std::memory_order_relaxed) != 0) [[unlikely]]
            wake_behind_the_owner();
    }
    void leave_common() {
        state_.store(kFree, std::memory_order_release);
        if (sleepers_.load(std::memory_order_relaxed) != 0) [[unlikely]]
            wake_one();
    }
    bool end_bias();
    void is_another();
    void begin_bias();
    void wait();
    void wake_behind_the_owner();
    void wake_one();

    std::atomic<std::uint32_t> state_{kFree};   // of the common way
    std::atomic<std::uint32_t> inside_{kFree};  // of the owner, or of who was it and looks whether it is
    std::atomic<std::uint32_t> owner_{kNobody};
    std::atomic<std::uint32_t> sleepers_{0};
    // Under `state_`; the first also read by who is in.
    std::atomic<bool> owned_{false};    // the owner is in, or has been, and nobody since
    std::uint8_t times_ = kFirstTimes;  // in a row, before a thread owns the lock
    std::uint32_t former_ = kNobody;    // the owner, or the last one if it has not come by since
    std::uint32_t last_ = kNobody;      // who came by the common way
    std::uint32_t until_bias_ = 0;      // times
    static_assert(sizeof(std::atomic<std::uint32_t>) == sizeof(std::uint32_t));
};
static_assert(sizeof(Lock) == 32);  // what it guards shares its cache line

}  // namespace verbena
