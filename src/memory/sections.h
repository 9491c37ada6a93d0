// Grace periods for memory regions. Whoever touches registered memory does so inside a Section;
// deregistration marks the region dead and then waits until every section that might have seen it alive is
// over. Sections need no lock shared between queue pairs, and are cheap: a thread has a stripe of its own, as
// long as there are some, and counts there with plain stores; that its entry is seen before it reads costs
// one atomic operation, or none if it takes a lock in between (or owns it: then the barrier is that of who
// waits, base/heavy_barrier.h).
//
// Thread safety: all of it. A section must not wait for anything that may itself wait for a grace period.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "base/heavy_barrier.h"
#include "base/lock.h"
#include "base/quick_thread_local.h"

namespace verbena::memory {

// All zero is a valid start. Peer processes that read or write our memory directly have marks of their own
// (outsiders.h): a section that its holder's death leaves open would never end.
struct Sections {
    static constexpr unsigned kStripes = 256;
    struct alignas(64) Stripe {
        std::atomic<std::uint32_t> inside;
    };
    std::array<Stripe, kStripes> stripes;

    // Returns when each section that was open at the time of the call has ended. Of threads that share a
    // stripe one has to be seen without any of them inside.
    void wait_for_grace() const;
};

// A grace period that is looked at instead of waited for, by a thread that is inside a section itself.
class GraceWatch {
   public:
    void start() {
        heavy_barrier();
        open_ = ~std::uint64_t{0};
    }
    // Each section that was open at start() has ended, but for one that this thread is in. May say so late,
    // since it looks at stripes and not at sections.
    bool over(const Sections& sections);

   private:
    // Of every 64th stripe, beginning with each bit's: whether they were never all seen quiet in one look
    // since.
    std::uint64_t open_ = 0;
};

// The calling thread's; kStripes: it has none yet.
extern VERBENA_QUICK_THREAD_LOCAL constinit unsigned stripe_of_thread;

class Section {
   public:
    explicit Section(Sections& sections) : Section(stripe_in(sections)) {
        // Sequentially consistent: the entry must be visible before the region's state is read, and vice
        // versa for the thread that marks a region dead and then looks at the stripes.
        stripe_->inside.fetch_add(1, std::memory_order_seq_cst);
    }
    // Takes the lock, too, which the caller gives back.
    Section(Sections& sections, Lock& lock) : Section(stripe_in(sections)) {
        if (!own_ || !enter_with(lock)) [[unlikely]]
            wait_for(lock);
    }
    ~Section() {
        if (own_)
            stripe_->inside.store(stripe_->inside.load(std::memory_order_relaxed) - 1,
                                  std::memory_order_release);
        else
            stripe_->inside.fetch_sub(1, std::memory_order_release);
    }
    Section(const Section&) = delete;
    Section& operator=(const Section&) = delete;

   private:
    friend class GraceWatch;
    static constexpr unsigned kShared = Sections::kStripes - 1;  // of threads that find all others taken

    struct Place {
        Sections::Stripe* stripe;
        bool own;
    };
    explicit Section(Place place) : stripe_(place.stripe), own_(place.own) {}

    static unsigned stripe_of_this_thread() {
        if (stripe_of_thread == Sections::kStripes) [[unlikely]]
            take_stripe();
        return stripe_of_thread;
    }
    static void take_stripe();
    static Place stripe_in(Sections& sections) {
        const unsigned mine = stripe_of_this_thread();
        return {&sections.stripes[mine], mine != kShared};
    }
    bool enter_with(Lock& lock) {
        const std::uint32_t before = stripe_->inside.load(std::memory_order_relaxed);
        stripe_->inside.store(before + 1, std::memory_order_relaxed);
        std::atomic_signal_fence(std::memory_order_seq_cst);
        if (!lock.try_lock()) [[unlikely]] {
            // Who waits for a lock is not inside: whoever has it may look for the end of a grace period.
            stripe_->inside.store(before, std::memory_order_release);
            return false;
        }
        behind_a_lock();
        return true;
    }
    void wait_for(Lock& lock);
    // Taking a lock that cannot be owned is a full barrier already on x86.
    static void behind_a_lock() {
#if defined(__x86_64__)
        std::atomic_signal_fence(std::memory_order_seq_cst);
#else
        light_barrier();
#endif
    }

    Sections::Stripe* const stripe_;
    const bool own_;  // the stripe is no other thread's
};

}  // namespace verbena::memory
