// The heap grows with the number of connections. A page that is touched for the first time interrupts whoever
// does it, for as long as a whole step of a connection takes where the machine is a virtual one; so the heap
// grows by many pages at a time, which are made with one call. By itself it shrinks only from its end, where
// something small may stay for long.
//
// Thread safety: none; one for the process.
#pragma once

#include <malloc.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace verbena::daemon {

class Heap {
   public:
    Heap() : end_(end()) {
        mallopt(M_TOP_PAD, kStep);
        mallopt(M_TRIM_THRESHOLD, kKept);
        mallopt(M_MMAP_THRESHOLD, kKept);  // large tables lie in it, too
    }

    // Now and then: makes what the heap has grown by. Another allocator's is left alone, as are kernels
    // before Linux 5.14.
    void make_pages() {
        if (const std::uintptr_t end = this->end(); end != end_) [[unlikely]] {
            if (end > end_) madvise(pointer(end_), end - end_, MADV_POPULATE_WRITE);
            end_ = end;
        }
    }

    // How many things there are that lie in it. When half of the most are gone, so are their pages.
    void holds(std::size_t things) {
        most_ = std::max(most_, things);
        if (most_ < kMany || things > most_ / 2) [[likely]]
            return;
        malloc_trim(kKept);
        most_ = things;
    }

   private:
    static constexpr std::size_t kMany = 4096;                // some MiB
    static constexpr int kStep = 256 << 10, kKept = 4 << 20;  // bytes

    static void* pointer(std::uintptr_t address) { return reinterpret_cast<void*>(address); }
    std::uintptr_t end() const { return reinterpret_cast<std::uintptr_t>(sbrk(0)) & ~(page_ - 1); }

    const std::uintptr_t page_ = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));  // bytes
    std::uintptr_t end_;
    std::size_t most_ = 0;  // since pages were given back
};

}  // namespace verbena::daemon
