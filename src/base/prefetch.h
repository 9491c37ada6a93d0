// Memory that is about to be used and may be cold: its cache lines come together, not one after the other as
// each is needed. A hint, which reads nothing: what it is given need not exist any more.
#pragma once

#include <cstddef>

namespace verbena {

inline void prefetch(const void* begin, std::size_t size) {
    constexpr std::size_t kLine = 64;
    for (std::size_t at = 0; at < size; at += kLine)
        __builtin_prefetch(static_cast<const std::byte*>(begin) + at);
}

}  // namespace verbena
