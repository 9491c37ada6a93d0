#include "base/dense_memory.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sys/mman.h>

#include <memory>
#include <mutex>
#include <new>
#include <span>

#include "base/memcheck.h"

namespace verbena {
namespace {

class DenseMemory final : public std::pmr::memory_resource {
   public:
    // A child may have been made at any moment of another thread's: it begins anew, and keeps what is freed
    // of its parent's.
    DenseMemory() {
        pthread_atfork(nullptr, nullptr, [] { of_process().parts_ = new Parts; });
    }
    // Never destroyed: what lies there may be freed after the destructors at a program's end.
    static DenseMemory& of_process() {
        static DenseMemory& memory = *new DenseMemory;
        return memory;
    }

   private:
    static constexpr std::size_t kLargest = 4096;  // bytes: pages of its own are dense enough
    // With what a pool has beside them they fill nearly half a page, or divide it.
    static constexpr std::size_t kTogether = 240;
    static constexpr std::pmr::pool_options kPools{kTogether, kLargest};
    struct Parts {
        std::mutex mutex;
        LargePages pages;
        std::pmr::unsynchronized_pool_resource pools{kPools, &pages};
    };

    void* do_allocate(std::size_t size, std::size_t alignment) override {
        if (size > kLargest) return std::pmr::new_delete_resource()->allocate(size, alignment);
        std::lock_guard guard(parts_->mutex);
        void* const place = parts_->pools.allocate(size, alignment);
        if (!place) throw std::bad_alloc();
        return place;
    }
    void do_deallocate(void* place, std::size_t size, std::size_t alignment) override {
        if (size > kLargest) return std::pmr::new_delete_resource()->deallocate(place, size, alignment);
        std::lock_guard guard(parts_->mutex);
        parts_->pools.deallocate(place, size, alignment);
    }
    bool do_is_equal(const memory_resource& other) const noexcept override { return this == &other; }

    Parts* parts_ = new Parts;
};

// Also of the program: its leak checker looks for pointers in the heap, not in mappings.
bool each_object_is_watched() {
#ifdef VERBENA_SANITIZED
    return true;
#else
    return memcheck::watches() || dlsym(RTLD_DEFAULT, "__asan_init") ||
           dlsym(RTLD_DEFAULT, "__lsan_do_leak_check");
#endif
}

constexpr std::size_t round_up(std::size_t size, std::size_t unit) { return (size + unit - 1) / unit * unit; }

// Empty: there is no more.
std::span<std::byte> map_ordinary(std::size_t length) {
    void* const memory =
        mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) return {};
    return {static_cast<std::byte*>(memory), length};
}

// Large pages begin where their size divides the address.
std::span<std::byte> map_large(std::size_t length) {
    const std::span<std::byte> memory = map_ordinary(length + LargePages::kPage);
    if (memory.empty()) return {};
    void* aligned = memory.data();
    std::size_t room = memory.size();
    std::align(LargePages::kPage, length, aligned, room);
    auto* const begin = static_cast<std::byte*>(aligned);
    if (begin != memory.data()) munmap(memory.data(), memory.size() - room);
    if (room > length) munmap(begin + length, room - length);
    madvise(begin, length, MADV_HUGEPAGE);
    return {begin, length};
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

// Room for so many bytes; in ordinary pages where no more can be had.
void LargePages::map(std::size_t size) {
    const bool large = newest_ != nullptr || size + sizeof(Mapping) > kFirst;
    std::span<std::byte> memory =
        large ? map_large(round_up(size + sizeof(Mapping), kPage)) : std::span<std::byte>();
    if (memory.empty()) memory = map_ordinary(round_up(size + sizeof(Mapping), kFirst));
    if (memory.empty()) throw std::bad_alloc();
    newest_ = new (memory.data()) Mapping{newest_, memory.size()};
    rest_ = newest_ + 1;
    left_ = memory.size() - sizeof(Mapping);
}

}  // namespace verbena
