// Giving the processor away for a moment.
#pragma once

#include "base/time.h"

namespace verbena::adapter {

inline constexpr Duration kSwitch = 2 * kMicrosecond;      // a yield that took less had nobody to yield to
inline constexpr Duration kLongYield = 20 * kMicrosecond;  // somebody else ran in between

// Lets others run, and says for how long they did. Where the call alone takes long, as in an emulator, or the
// processor is taken away from the whole virtual machine, only a switch to another thread counts: that is
// looked at while calls usually take long, and for a while after one that did.
Duration yield_to_others();

}  // namespace verbena::adapter
