// Threads have numbers, in the order in which they first asked, and never another's: to tell them apart, and
// to spread them over places of which there are few, so that each finds the one again that its cache holds.
//
// Thread safety: all calls.
#pragma once

#include <cstdint>

#include "base/quick_thread_local.h"

namespace verbena {

inline constexpr std::uint32_t kNoThreadNumber = 0;
// The calling thread's; kNoThreadNumber: it has not asked.
extern VERBENA_QUICK_THREAD_LOCAL constinit std::uint32_t thread_number;

void take_thread_number();
inline std::uint32_t number_of_this_thread() {
    if (thread_number == kNoThreadNumber) [[unlikely]]
        take_thread_number();
    return thread_number;
}

}  // namespace verbena
