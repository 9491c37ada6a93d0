// A page of memory that two processes share: one makes it, the other is given its descriptor, and need not
// trust who made it that reading it will always work: nobody can take the memory away again.
//
// Thread safety: as a value's.
#pragma once

#include <cstddef>
#include <new>
#include <type_traits>
#include <utility>

namespace verbena {

class SharedPage {
   public:
    static constexpr std::size_t kSize = 4096;  // bytes; zeros at first

    SharedPage() = default;
    SharedPage(SharedPage&& other) noexcept : address_(std::exchange(other.address_, nullptr)) {}
    SharedPage& operator=(SharedPage&& other) noexcept {
        std::swap(address_, other.address_);
        return *this;
    }
    ~SharedPage();

    // `fd` is set to what the other process is to get, and the caller's to close. Empty, with fd -1, where
    // there are no such files (memfd_create, or the feature `memfd` is off).
    static SharedPage make(const char* name, int& fd);
    // 0 or an errno with a reason: the file can still shrink, or is too small. `fd` stays the caller's.
    static int open(int fd, SharedPage& page);

    explicit operator bool() const { return address_ != nullptr; }
    // What lies at its beginning.
    template <class T>
    T& as() const {
        static_assert(sizeof(T) <= kSize && std::is_standard_layout_v<T>);
        return *std::launder(static_cast<T*>(address_));
    }

   private:
    explicit SharedPage(void* address) : address_(address) {}
    static SharedPage map(int fd);
    void* address_ = nullptr;
};

}  // namespace verbena
