// One endpoint's memory, and beside it what it is expected to hold. Everything registered lies in it, with
// guard bytes between; at the end the two must be equal, so that a byte written where none belongs shows.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "sim/pattern.h"

namespace verbena::sim {

class Arena {
   public:
    // First all reservations, then allocate().
    std::uint32_t reserve(std::uint32_t length, std::uint32_t alignment, std::uint32_t guard = kGuard) {
        size_ = (size_ + guard + alignment - 1) / alignment * alignment;
        const std::uint32_t offset = size_;
        size_ += length;
        return offset;
    }
    void allocate(std::uint64_t key) {
        size_ = (size_ + kGuard + 63) / 64 * 64;
        memory_.reset(static_cast<std::uint8_t*>(::operator new (size_, std::align_val_t{64})));
        fill_pattern(key, 0, actual(0, size_));
        expected_.assign(memory_.get(), memory_.get() + size_);
    }

    std::uint32_t size() const { return size_; }
    std::uint8_t* address(std::uint32_t offset) const { return memory_.get() + offset; }
    std::span<std::uint8_t> actual(std::uint32_t offset, std::uint32_t length) const {
        return {memory_.get() + offset, length};
    }
    std::span<std::uint8_t> expected(std::uint32_t offset, std::uint32_t length) {
        return std::span(expected_).subspan(offset, length);
    }
    // What is there now is as good as anything else allowed.
    void accept(std::uint32_t offset, std::uint32_t length) {
        std::memcpy(expected_.data() + offset, memory_.get() + offset, length);
    }
    // The first byte that is not as expected, or size().
    std::uint32_t first_difference() const {
        if (std::memcmp(memory_.get(), expected_.data(), size_) == 0) return size_;
        std::uint32_t i = 0;
        while (memory_.get()[i] == expected_[i]) i++;
        return i;
    }

   private:
    static constexpr std::uint32_t kGuard = 24;
    struct Free {
        void operator()(std::uint8_t* p) const { ::operator delete (p, std::align_val_t{64}); }
    };

    std::uint32_t size_ = 0;
    std::unique_ptr<std::uint8_t, Free> memory_;
    std::vector<std::uint8_t> expected_;
};

}  // namespace verbena::sim
