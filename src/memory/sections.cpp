#include "memory/sections.h"

#include <sched.h>

#include <bit>

namespace verbena::memory {
namespace {

constexpr unsigned kNone = Sections::kStripes;
constexpr unsigned kShared = Sections::kStripes - 1;  // of the threads that find all others taken

std::atomic<std::uint64_t> taken{0};  // stripes that are a thread's own; one bit each
thread_local unsigned own_stripe = kNone;

// Gives the thread's stripe back when it ends.
struct Owner {
    ~Owner() {
        if (own_stripe < kShared)
            taken.fetch_and(~(std::uint64_t{1} << own_stripe), std::memory_order_release);
        own_stripe = kShared;  // for destructors of others that come later
    }
};

[[gnu::noinline]] unsigned take_stripe() {
    thread_local Owner owner;
    static_cast<void>(&owner);
    std::uint64_t before = taken.load(std::memory_order_relaxed);
    for (;;) {
        const auto free = static_cast<unsigned>(std::countr_one(before));
        if (free >= kShared) return kShared;
        if (taken.compare_exchange_weak(before, before | std::uint64_t{1} << free, std::memory_order_acquire))
            return free;
    }
}

// Behind the taking of a lock, which on x86 is a full barrier already.
void full_barrier() {
#if !defined(__x86_64__)
    std::atomic_thread_fence(std::memory_order_seq_cst);
#endif
}

unsigned stripe_of_this_thread() {
    unsigned& mine = own_stripe;
    if (mine == kNone) [[unlikely]]
        mine = take_stripe();
    return mine;
}

}  // namespace

Section::Section(Sections& sections)
    : stripe_(&sections.stripes[stripe_of_this_thread()]), own_(stripe_ != &sections.stripes[kShared]) {
    // Sequentially consistent: the entry must be visible before the region's state is read, and vice versa
    // for the thread that marks a region dead and then looks at the stripes.
    stripe_->inside.fetch_add(1, std::memory_order_seq_cst);
}

Section::Section(Sections& sections, Lock* lock)
    : stripe_(lock ? &sections.stripes[stripe_of_this_thread()] : nullptr),
      own_(lock && stripe_ != &sections.stripes[kShared]) {
    if (!lock) return;
    if (own_) {
        const std::uint32_t before = stripe_->inside.load(std::memory_order_relaxed);
        stripe_->inside.store(before + 1, std::memory_order_relaxed);
        std::atomic_signal_fence(std::memory_order_seq_cst);
        if (lock->try_lock()) {
            full_barrier();
            return;
        }
        // Who waits for a lock is not inside: whoever has it may look for the end of a grace period.
        stripe_->inside.store(before, std::memory_order_release);
    }
    lock->lock();
    stripe_->inside.fetch_add(1, std::memory_order_seq_cst);
}

void Sections::wait_for_grace() const {
    // Sequentially consistent like the entry: the caller has marked the region dead before it looks here.
    for (const Stripe& stripe : stripes)
        for (unsigned spins = 0; stripe.inside.load(std::memory_order_seq_cst) != 0; spins++)
            if (spins > 64) sched_yield();
}

bool GraceWatch::over(const Sections& sections) {
    static_assert(Sections::kStripes == 64);
    if (open_ == 0) return true;
    const unsigned own = stripe_of_this_thread();
    for (unsigned i = 0; i < Sections::kStripes; i++)
        if (sections.stripes[i].inside.load(std::memory_order_seq_cst) <= (i == own ? 1u : 0u))
            open_ &= ~(std::uint64_t{1} << i);
    return open_ == 0;
}

}  // namespace verbena::memory
