#include "memory/sections.h"

#include <sched.h>

#include <algorithm>
#include <array>
#include <bit>

#include "base/thread_end.h"

namespace verbena::memory {
namespace {

// Stripes that are a thread's own, one bit each, and how many ever were.
std::array<std::atomic<std::uint64_t>, Sections::kStripes / 64> taken{};
std::atomic<unsigned> used{0};

// 0 to kStripes: all are taken.
unsigned take_free_stripe() {
    for (unsigned word = 0; word < taken.size(); word++)
        for (std::uint64_t before = taken[word].load(std::memory_order_relaxed); ~before != 0;) {
            const auto free = static_cast<unsigned>(std::countr_one(before));
            if (taken[word].compare_exchange_weak(before, before | std::uint64_t{1} << free,
                                                  std::memory_order_acquire))
                return word * 64 + free;
        }
    return Sections::kStripes;
}

void give_back(unsigned stripe) {
    taken[stripe / 64].fetch_and(~(std::uint64_t{1} << stripe % 64), std::memory_order_release);
}

}  // namespace

VERBENA_QUICK_THREAD_LOCAL constinit unsigned stripe_of_thread = Sections::kStripes;

void Section::take_stripe() {
    constinit static ThreadEnd end{[](void*) {
        give_back(stripe_of_thread);
        stripe_of_thread = kShared;  // for what of others ends later
    }};
    unsigned stripe = std::min(take_free_stripe(), kShared);
    if (stripe < kShared && !end.await(&taken)) {  // or nobody would give it back
        give_back(stripe);
        stripe = kShared;
    }
    // Before any entry there: who has looked at this without seeing it is seen by what we look at then.
    for (unsigned before = used.load();
         before <= stripe && !used.compare_exchange_weak(before, stripe + 1);) {
    }
    stripe_of_thread = stripe;
}

void Section::wait_for(Lock& lock) {
    lock.lock();
    stripe_->inside.fetch_add(1, std::memory_order_seq_cst);
}

void Sections::wait_for_grace() const {
    // Sequentially consistent like the entry: the caller has marked the region dead before it looks here.
    heavy_barrier();
    for (unsigned i = 0, count = used.load(); i < count; i++)
        for (unsigned spins = 0; stripes[i].inside.load(std::memory_order_seq_cst) != 0; spins++)
            if (spins > 64) sched_yield();
}

bool GraceWatch::over(const Sections& sections) {
    static_assert(Sections::kStripes % 64 == 0);
    if (open_ == 0) return true;
    const unsigned own = Section::stripe_of_this_thread();
    std::uint64_t busy = 0;
    for (unsigned i = 0, count = used.load(); i < count; i++)
        if (sections.stripes[i].inside.load(std::memory_order_seq_cst) > (i == own ? 1u : 0u))
            busy |= std::uint64_t{1} << i % 64;
    open_ &= busy;
    return open_ == 0;
}

}  // namespace verbena::memory
