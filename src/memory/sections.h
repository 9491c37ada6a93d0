// Grace periods for memory regions. Whoever touches registered memory does so inside a Section;
// deregistration marks the region dead and then waits until every section that might have seen it alive is
// over. Sections are cheap (one uncontended atomic each way) and need no lock shared between queue pairs.
//
// Thread safety: all of it. A section must not wait for anything that may itself wait for a grace period.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

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
    ~Section() { stripe_.inside.fetch_sub(1, std::memory_order_release); }
    Section(const Section&) = delete;
    Section& operator=(const Section&) = delete;

   private:
    Sections::Stripe& stripe_;
};

}  // namespace verbena::memory
