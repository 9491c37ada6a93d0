// A program under valgrind's memcheck sees of us what an adapter would let it see: received bytes are defined
// when they are placed, and what leaves need not have been set. For memcheck follows what a process does to
// its own memory, peers of this host are then reached by packets (verbs/process.cpp): nobody else writes into
// it.
//
// Outside of memcheck, under valgrind's other tools too, this is a look at a constant; built without
// valgrind's header, nothing.
//
// Thread safety: all.
#pragma once

#if __has_include(<valgrind/memcheck.h>)
#include <valgrind/memcheck.h>
#endif

namespace verbena::memcheck {

#ifdef VALGRIND_MAKE_MEM_DEFINED
// Only memcheck answers this request.
inline const bool watches = [] {
    const char byte = 0;
    return VALGRIND_MAKE_MEM_DEFINED(&byte, sizeof byte) != 0;
}();

inline void report(bool on) {
    if (!watches) return;
    if (on)
        VALGRIND_ENABLE_ERROR_REPORTING;
    else
        VALGRIND_DISABLE_ERROR_REPORTING;
}
#else
inline constexpr bool watches = false;

inline void report(bool) {}
#endif

// While one lives, this thread hands bytes to the kernel that the program need not have set.
class PayloadLeaves {
   public:
    PayloadLeaves() { report(false); }
    ~PayloadLeaves() { report(true); }
    PayloadLeaves(const PayloadLeaves&) = delete;
    PayloadLeaves& operator=(const PayloadLeaves&) = delete;
};

}  // namespace verbena::memcheck
