// Memory for objects of which a process may have thousands, while what it does next touches a few cache lines
// of one and then of another: queue pairs and what belongs to them. Those of one size lie close together and,
// where there are many, in large pages, since else what takes the time is the translation of their addresses,
// and fetching the lines in between.
//
// Who has few takes none of the large pages. What is freed is kept for objects of its size.
//
// Under valgrind's memcheck, and in a program with AddressSanitizer or a leak checker, which are to see each
// object, it is the heap.
//
// Thread safety: all calls; in the child of a fork(), too.
#pragma once

#include <cstddef>
#include <memory>
#include <memory_resource>
#include <new>
#include <type_traits>
#include <utility>

namespace verbena {

std::pmr::memory_resource& dense_memory();

// A base of such objects.
struct Dense {
    static void* operator new(std::size_t size, std::align_val_t alignment) {
        return dense_memory().allocate(size, static_cast<std::size_t>(alignment));
    }
    static void* operator new(std::size_t size, std::align_val_t alignment, const std::nothrow_t&) noexcept {
        try {
            return operator new(size, alignment);
        } catch (const std::bad_alloc&) {
            return nullptr;
        }
    }
    static void operator delete(void* object, std::size_t size, std::align_val_t alignment) {
        dense_memory().deallocate(object, size, static_cast<std::size_t>(alignment));
    }
};

// An array there, of values that need no destructor. Who wants to keep no more than its address releases it,
// and takes it back to be freed.
template <class T>
class DenseArray {
   public:
    static_assert(std::is_trivially_destructible_v<T>);

    explicit DenseArray(std::size_t count)
        : DenseArray(static_cast<T*>(dense_memory().allocate(count * sizeof(T), alignof(T))), count) {
        std::uninitialized_value_construct_n(data_, count);
    }
    DenseArray(T* released, std::size_t count) : data_(released), count_(count) {}
    DenseArray(DenseArray&& other) noexcept : data_(other.release()), count_(other.count_) {}
    ~DenseArray() {
        if (data_) dense_memory().deallocate(data_, count_ * sizeof(T), alignof(T));
    }
    DenseArray& operator=(const DenseArray&) = delete;

    T* release() { return std::exchange(data_, nullptr); }

   private:
    T* data_;
    std::size_t count_;
};

// Where dense_memory() takes it from: it gives out pieces of large pages, but for the first few, and takes
// none back before its end.
//
// Thread safety: none.
class LargePages final : public std::pmr::memory_resource {
   public:
    static constexpr std::size_t kPage = std::size_t{2} << 20;
    static constexpr std::size_t kFirst = std::size_t{256} << 10;  // bytes of ordinary ones

    LargePages() = default;
    ~LargePages() override;
    LargePages(const LargePages&) = delete;
    LargePages& operator=(const LargePages&) = delete;

   private:
    struct Mapping;

    void* do_allocate(std::size_t size, std::size_t alignment) override;
    void do_deallocate(void*, std::size_t, std::size_t) override {}
    bool do_is_equal(const memory_resource& other) const noexcept override { return this == &other; }
    void map(std::size_t size);

    Mapping* newest_ = nullptr;
    void* rest_ = nullptr;
    std::size_t left_ = 0;  // bytes
};

}  // namespace verbena
