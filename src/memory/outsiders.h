// Other processes of this host that work on our regions by themselves (the local link). Memory, or a queue
// pair that leads to it, is taken away in three steps: what they look at says so (a dead key, a state), those
// of our own threads that may have seen the time before are waited for (sections.h), and so are they.
#pragma once

#include "base/time.h"

namespace verbena::memory {

class Outsiders {
   public:
    virtual ~Outsiders() = default;
    // Returns when none of them works any more on what it may have found before the call. Any thread, with
    // any lock held but the peers': who is at work waits for nobody. At most so long; kNever: also for one
    // that was stopped.
    virtual void wait_for_them(Duration most) = 0;
};

}  // namespace verbena::memory
