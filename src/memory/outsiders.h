// Other processes of this host that work on our regions by themselves (the local link). Memory, or a queue
// pair that leads to it, is taken away in three steps: what they look at says so (a dead key, a state), those
// of our own threads that may have seen the time before are waited for (sections.h), and so are they.
#pragma once

#include <cstdint>

#include "base/time.h"

namespace verbena::memory {

// What somebody works on: by which queue pair of ours, and in which region (its index). 0: any of them, or
// one that is not known yet.
struct Work {
    std::uint32_t qp = 0;      // 24 bits
    std::uint32_t region = 0;  // 24 bits

    bool touches(const Work& other) const { return meet(qp, other.qp) && meet(region, other.region); }

   private:
    static bool meet(std::uint32_t one, std::uint32_t other) {
        return one == 0 || other == 0 || one == other;
    }
};

class Outsiders {
   public:
    virtual ~Outsiders() = default;
    // Returns when none of them works any more on this, as it may have found it before the call. Any thread,
    // with any lock held but the peers': who is at work waits for nobody. At most so long; kNever: also for
    // one that was stopped.
    virtual void wait_for_them(const Work& work, Duration most) = 0;
};

}  // namespace verbena::memory
