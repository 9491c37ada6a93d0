#include "memory/sections.h"

#include <sched.h>

namespace verbena::memory {
namespace {

constexpr unsigned kNone = Sections::kStripes;
thread_local unsigned own_stripe = kNone;

unsigned stripe_of_this_thread() {
    static std::atomic<unsigned> next{0};
    if (own_stripe == kNone) own_stripe = next.fetch_add(1, std::memory_order_relaxed) % Sections::kStripes;
    return own_stripe;
}

}  // namespace

Section::Section(Sections& sections) : stripe_(sections.stripes[stripe_of_this_thread()]) {
    // Sequentially consistent: the entry must be visible before the region's state is read, and vice versa
    // for the thread that marks a region dead and then looks at the stripes.
    stripe_.inside.fetch_add(1, std::memory_order_seq_cst);
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
