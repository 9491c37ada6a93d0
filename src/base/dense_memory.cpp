#include "base/dense_memory.h"

#include <pthread.h>
#include <sys/mman.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <new>

#include "base/memcheck.h"

namespace verbena {
namespace {

class DenseMemory final : public std::pmr::memory_resource {
   public:
    DenseMemory() {
        pthread_atfork([] { of_process().mutex_.lock(); }, [] { of_process().mutex_.unlock(); },
                       [] { of_process().mutex_.unlock(); });
    }
    // Never destroyed: what lies there may be freed after the destructors at a program's end.
    static DenseMemory& of_process() {
        static DenseMemory& memory = *new DenseMemory;
        return memory;
    }

   private:
    static constexpr std::size_t kLargest = 4096;  // bytes: pages of its own are dense enough

    void* do_allocate(std::size_t size, std::size_t alignment) override {
        if (size > kLargest) return std::pmr::new_delete_resource()->allocate(size, alignment);
        std::lock_guard guard(mutex_);
        return pools_.allocate(size, alignment);
    }
    void do_deallocate(void* place, std::size_t size, std::size_t alignment) override {
        if (size > kLargest) return std::pmr::new_delete_resource()->deallocate(place, size, alignment);
        std::lock_guard guard(mutex_);
        pools_.deallocate(place, size, alignment);
    }
    bool do_is_equal(const memory_resource& other) const noexcept override { return this == &other; }

    std::mutex mutex_;
    LargePages pages_;
    std::pmr::unsynchronized_pool_resource pools_{
        {.max_blocks_per_chunk = 256, .largest_required_pool_block = kLargest}, &pages_};
};

bool each_object_is_watched() {
#ifdef VERBENA_SANITIZED
    return true;
#else
    return memcheck::watches();
#endif
}

}  // namespace

std::pmr::memory_resource& dense_memory() {
    static std::pmr::memory_resource& memory =
        each_object_is_watched() ? *std::pmr::new_delete_resource() : DenseMemory::of_process();
    return memory;
}

// At its own beginning.
struct LargePages::Mapping {
    Mapping* before;
    std::size_t size;
};

LargePages::~LargePages() {
    while (newest_) {
        const Mapping mapping = *newest_;
        munmap(newest_, mapping.size);
        newest_ = mapping.before;
    }
}

void* LargePages::do_allocate(std::size_t size, std::size_t alignment) {
    if (!std::align(alignment, size, rest_, left_)) {
        map(size + alignment);
        std::align(alignment, size, rest_, left_);
    }
    void* const place = rest_;
    rest_ = static_cast<std::byte*>(rest_) + size;
    left_ -= size;
    return place;
}

// Room for so many bytes. Large pages begin where their size divides the address.
void LargePages::map(std::size_t size) {
    const bool large = newest_ != nullptr || size + sizeof(Mapping) > kFirst;
    const std::size_t unit = large ? kPage : kFirst;
    const std::size_t length = (size + sizeof(Mapping) + unit - 1) / unit * unit;
    const std::size_t reserved = large ? length + kPage : length;
    void* const memory =
        mmap(nullptr, reserved, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    void* begin = memory;
    if (large) {
        std::size_t room = reserved;
        std::align(kPage, length, begin, room);
        const auto before =
            static_cast<std::size_t>(static_cast<std::byte*>(begin) - static_cast<std::byte*>(memory));
        if (before > 0) munmap(memory, before);
        if (reserved - before > length)
            munmap(static_cast<std::byte*>(begin) + length, reserved - before - length);
        madvise(begin, length, MADV_HUGEPAGE);
    }
    newest_ = new (begin) Mapping{newest_, length};
    rest_ = newest_ + 1;
    left_ = length - sizeof(Mapping);
}

}  // namespace verbena
