// Grace periods for memory regions. Whoever touches registered memory does so inside a Section;
// deregistration marks the region dead and then waits until every section that might have seen it alive is
// over. Sections need no lock shared between queue pairs, and are cheap: a thread has a stripe of its own, as
// long as there are some, and counts there with plain stores; that its entry is seen before it reads costs
// one atomic operation, or none if it takes a lock in between.
//
// Thread safety: all of it. A section must not wait for anything that may itself wait for a grace period.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "base/lock.h"

namespace verbena::memory {

// All zero is a valid start. Peer processes that read or write our memory directly have marks of their own
// (outsiders.h): a section that its holder's death leaves open would never end.
struct Sections {
    static constexpr unsigned kStripes = 64;
    struct alignas(64) Stripe {
        std::atomic<std::uint32_t> inside;
    };
    std::array<Stripe, kStripes> stripes;

    // Returns when each section that was open at the time of the call has ended.
    void wait_for_grace() const;
};

// A grace period that is looked at instead of waited for, by a thread that is inside a section itself.
class GraceWatch {
   public:
    void start() { open_ = ~std::uint64_t{0}; }
    // Each section that was open at start() has ended, but for one that this thread is in. May say so late,
    // since it looks at stripes and not at sections.
    bool over(const Sections& sections);

   private:
    std::uint64_t open_ = 0;  // one bit for each stripe that was never seen quiet since
};

class Section {
   public:
    explicit Section(Sections& sections);
    // Takes the lock, too, which the caller gives back; without one (nullptr) it is no section.
    Section(Sections& sections, Lock* lock);
    ~Section() {
        if (own_)
            stripe_->inside.store(stripe_->inside.load(std::memory_order_relaxed) - 1,
                                  std::memory_order_release);
        else if (stripe_)
            stripe_->inside.fetch_sub(1, std::memory_order_release);
    }
    Section(const Section&) = delete;
    Section& operator=(const Section&) = delete;

   private:
    Sections::Stripe* const stripe_;
    const bool own_;  // the stripe is no other thread's
};

}  // namespace verbena::memory
