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

// Lives in the process's shared segment, so that a peer process which reads or writes our memory directly
// holds a section here like our own threads do. All zero is a valid start.
struct Sections {
    static constexpr unsigned kStripes = 64;
    struct alignas(64) Stripe {
        std::atomic<std::uint32_t> inside;
    };
    std::array<Stripe, kStripes> stripes;

    // Returns when each section that was open at the time of the call has ended.
    void wait_for_grace() const;
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
