// Asks for a cache line that is wanted soon. One that another processor has, and that is to be written, makes
// the store to it wait otherwise, and all stores behind it. (__builtin_prefetch() asks for reading only where
// the compiler has to care for the oldest processors; those without the instruction ignore it. And a function
// that does nothing else may lose it to the compiler, which finds no effect in it.)
#pragma once

#include <cstddef>
#include <cstdint>

namespace verbena {

inline void prefetch_to_read(const void* line) {
#if defined(__x86_64__)
    asm volatile("prefetcht0 %0" : : "m"(*static_cast<const char*>(line)));
#else
    __builtin_prefetch(line);
#endif
}

inline void prefetch_to_write(const void* line) {
#if defined(__x86_64__)
    asm volatile("prefetchw %0" : : "m"(*static_cast<const char*>(line)));
#else
    __builtin_prefetch(line, 1);
#endif
}

// The so manyth line behind `begin`. Nothing is read there: `begin` may be of what is no more.
inline const void* cache_line(const void* begin, unsigned line) {
    return reinterpret_cast<const void*>(reinterpret_cast<std::uintptr_t>(begin) + std::size_t{64} * line);
}

}  // namespace verbena
