#include "memory/sections.h"

#include <sched.h>

#include <algorithm>
#include <bit>

namespace verbena::memory {
namespace {

std::atomic<std::uint64_t> taken{0};  // stripes that are a thread's own; one bit each

}  // namespace

VERBENA_QUICK_THREAD_LOCAL constinit unsigned stripe_of_thread = Sections::kStripes;

void Section::take_stripe() {
    // Gives the thread's stripe back when it ends.
    struct Owner {
        ~Owner() {
            if (stripe_of_thread < kShared)
                taken.fetch_and(~(std::uint64_t{1} << stripe_of_thread), std::memory_order_release);
            stripe_of_thread = kShared;  // for destructors of others that come later
        }
    };
    thread_local Owner owner;
    static_cast<void>(&owner);
    std::uint64_t before = taken.load(std::memory_order_relaxed);
    unsigned free;
    do {
        free = static_cast<unsigned>(std::countr_one(before));
        if (free >= kShared) break;
    } while (
        !taken.compare_exchange_weak(before, before | std::uint64_t{1} << free, std::memory_order_acquire));
    stripe_of_thread = std::min(free, kShared);
}

void Section::wait_for(Lock& lock) {
    lock.lock();
    stripe_->inside.fetch_add(1, std::memory_order_seq_cst);
}

void Sections::wait_for_grace() const {
    // Sequentially consistent like the entry: the caller has marked the region dead before it looks here.
    heavy_barrier();
    for (const Stripe& stripe : stripes)
        for (unsigned spins = 0; stripe.inside.load(std::memory_order_seq_cst) != 0; spins++)
            if (spins > 64) sched_yield();
}

bool GraceWatch::over(const Sections& sections) {
    static_assert(Sections::kStripes == 64);
    if (open_ == 0) return true;
    const unsigned own = Section::stripe_of_this_thread();
    for (unsigned i = 0; i < Sections::kStripes; i++)
        if (sections.stripes[i].inside.load(std::memory_order_seq_cst) <= (i == own ? 1u : 0u))
            open_ &= ~(std::uint64_t{1} << i);
    return open_ == 0;
}

}  // namespace verbena::memory
