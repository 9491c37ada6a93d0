// Asks for a cache line that is wanted soon. One that another processor has, and that is to be written, makes
// the store to it wait otherwise, and all stores behind it. (__builtin_prefetch() asks for reading only where
// the compiler has to care for the oldest processors; those without the instruction ignore it. And a function
// that does nothing else may lose it to the compiler, which finds no effect in it.)
#pragma once

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

}  // namespace verbena
