// Pages of shared memory become real when they are touched for the first time, each by an interruption that
// takes longer than what most touch it for. Whoever goes through memory from its beginning has them made in
// passing, many with one call, which takes a tenth of the time.
//
// Thread safety: none.
#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace verbena::link {

class FirstTouch {
   public:
    enum class For : int { writing = MADV_POPULATE_WRITE, reading = MADV_POPULATE_READ };
    static constexpr std::uint64_t kAll = UINT64_MAX / 2;

    // The first call makes `first` bytes real, each other twice as many as the one before: who comes to
    // little takes little. Both are multiples of a page.
    FirstTouch(std::uint8_t* memory, std::size_t size, std::size_t first, For purpose)
        : memory_(memory), size_(size), step_(first), advice_(static_cast<int>(purpose)) {}

    // To which place pages are real now, at least `wanted`; kAll once they all are. Where a call fails, as
    // before Linux 5.14, they are left to be touched.
    std::uint64_t reach(std::uint64_t wanted) {
        if (wanted > real_) [[unlikely]]
            make_real(wanted);
        return real_;
    }

   private:
    void make_real(std::uint64_t wanted) {
        while (real_ < wanted) {
            const std::uint64_t length = std::min(step_, size_ - real_);
            madvise(memory_ + real_, length, advice_);
            real_ += length;
            step_ *= 2;
            if (real_ == size_) real_ = kAll;
        }
    }

    std::uint8_t* memory_;
    std::uint64_t size_, step_;
    std::uint64_t real_ = 0;
    int advice_;
};

}  // namespace verbena::link
