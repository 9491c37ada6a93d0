// Asks for a cache line that another processor has, to be written soon: a store to it waits otherwise, and
// all stores behind it. (__builtin_prefetch() asks for reading only where the compiler has to care for the
// oldest processors. Those without the instruction ignore it.)
#pragma once

namespace verbena {

inline void prefetch_to_write(const void* line) {
#if defined(__x86_64__)
    asm volatile("prefetchw %0" : : "m"(*static_cast<const char*>(line)));
#else
    __builtin_prefetch(line, 1);
#endif
}

}  // namespace verbena
