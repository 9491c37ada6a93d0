#include "base/lock.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>

#include "base/heavy_barrier.h"

namespace verbena {
namespace {

constexpr long kOverlooked = 200'000;  // nanoseconds

void futex(std::atomic<std::uint32_t>& word, int operation, std::uint32_t value) {
    const timespec most{0, kOverlooked};  // a wake-up does not look at it
    syscall(SYS_futex, &word, operation, value, &most, nullptr, 0);
}

}  // namespace

void Lock::wait() {
    const int before = errno;
    sleepers_.fetch_add(1, std::memory_order_seq_cst);
    while (!enter_common()) {
        const bool by_owner = state_.load(std::memory_order_relaxed) == kFree;
        futex(by_owner ? inside_ : state_, FUTEX_WAIT_PRIVATE, kTaken);
    }
    sleepers_.fetch_sub(1, std::memory_order_relaxed);
    errno = before;
}

// All: the others would wait for who wakes up at the place of the owner, where that one does not leave.
void Lock::wake_behind_the_owner() { futex(inside_, FUTEX_WAKE_PRIVATE, INT_MAX); }
void Lock::wake_one() { futex(state_, FUTEX_WAKE_PRIVATE, 1); }

// `state_` is ours. True if the owner is not inside; else we do not have the lock.
bool Lock::end_bias() {
    if (owner_.load(std::memory_order_relaxed) != kNobody) {
        owner_.store(kNobody, std::memory_order_relaxed);
        heavy_barrier();
        times_ = static_cast<std::uint8_t>(std::min<int>(times_ + 2, kMostTimes));
    }
    if (inside_.load(std::memory_order_acquire) != kFree) {
        leave_common();
        return false;
    }
    owned_.store(false, std::memory_order_relaxed);
    return true;
}

void Lock::is_another() {
    const std::uint32_t me = number_of_this_thread();
    if (former_ == me) former_ = kNobody;
    last_ = me;
    until_bias_ = std::uint32_t{1} << times_;
}

// From the common way to the owner's, inside.
void Lock::begin_bias() {
    until_bias_ = std::uint32_t{1} << times_;
    const bool is_anothers = former_ != kNobody && former_ != last_;
    if (is_anothers || !heavy_barriers_allowed() || sleepers_.load(std::memory_order_relaxed) != 0) return;
    former_ = last_;
    inside_.store(kTaken, std::memory_order_relaxed);
    owner_.store(last_, std::memory_order_relaxed);
    owned_.store(true, std::memory_order_relaxed);
    state_.store(kFree, std::memory_order_release);
}

}  // namespace verbena
