// Where segmentation bursts may be used: not at all if the kernel does not have them, and not towards peers
// for which a burst was refused or never arrived. Thread safety: all calls.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>

#include "base/gid.h"

namespace verbena::link {

class BurstPolicy {
   public:
    explicit BurstPolicy(bool enabled) : enabled_(enabled) {}

    bool allowed(const Gid& destination) const {
        if (!enabled_.load(std::memory_order_relaxed)) return false;
        const std::uint64_t key = key_of(destination);
        return avoided_[key % kSlots].load(std::memory_order_relaxed) != key;
    }

    // Remembered for a while: another peer may take the slot, which costs a repetition of the discovery.
    void avoid(const Gid& destination) {
        const std::uint64_t key = key_of(destination);
        avoided_[key % kSlots].store(key, std::memory_order_relaxed);
    }

    void disable() { enabled_.store(false, std::memory_order_relaxed); }

   private:
    static constexpr unsigned kSlots = 61;

    // Never 0, which marks a free slot.
    static std::uint64_t key_of(const Gid& gid) {
        std::uint64_t halves[2];
        std::memcpy(halves, gid.bytes.data(), sizeof halves);
        return (halves[0] ^ (halves[1] * 0x9e3779b97f4a7c15)) | 1;
    }

    std::atomic<bool> enabled_;
    std::array<std::atomic<std::uint64_t>, kSlots> avoided_{};
};

}  // namespace verbena::link
