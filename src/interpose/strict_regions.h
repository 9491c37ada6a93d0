// The memory that requests name: which region a key is of, where its bytes are, and whether they are there.
//
// Not thread-safe; strict.cpp holds a lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "interpose/strict_remembered.h"

namespace verbena::interpose {

struct StrictBuffer {
    std::uint64_t address = 0;
    std::uint32_t length = 0;
    std::uint32_t lkey = 0;
    const void* context = nullptr;  // of the queue: adapters have keys of their own
};

// Whether the pages of this range exist; whoever reads others dies.
bool is_mapped(const char* begin, std::uint64_t size);

class Regions {
   public:
    using Key = std::pair<const void*, std::uint32_t>;  // context, lkey

    enum class Backing : std::uint8_t {
        memory,
        on_demand,  // memory whose pages come and go
        elsewhere,  // the device's, nobody's
    };
    struct Region {
        const void* object = nullptr;
        std::string name;
        std::uint64_t first = 0;    // the address by which requests name its first byte (iova)
        std::uint64_t address = 0;  // where that is
        std::uint64_t length = 0;
        Backing backing = Backing::elsewhere;
        int access = 0;
        std::uint64_t number = 0;  // made()'s
    };
    struct Gone {
        std::string name;
        const char* how;  // the call
    };

    void made(const Key& key, Region region);
    // It may be a region's that is known already.
    void imported(const Key& key, Region region);
    void gone(const Key& key, const char* how);
    const Region* find(const Key& key) const;
    // What had the key last; nullptr if a region has it, or none that is remembered had.
    const Gone* find_gone(const Key& key) const { return gone_.find(key); }
    void forget_gone() { gone_.clear(); }

    // Where a buffer is in the program's memory, as far as is known; nullopt: elsewhere.
    std::optional<std::uint64_t> begin_of(const StrictBuffer& buffer) const;
    // The same, if it can be read there.
    const char* memory_of(const StrictBuffer& buffer, const Region** region = nullptr) const;
    // A checksum of them all; false if some cannot be read.
    bool sum(const std::vector<StrictBuffer>& buffers, std::uint64_t& out) const;

   private:
    // Fewer than the tags of a place (memory/regions.h): a key comes again after so many, perhaps by a call
    // that nobody sees.
    static constexpr std::size_t kRemembered = 100;
    std::map<Key, Region> regions_;
    Remembered<Key, Gone> gone_{kRemembered};
    std::uint64_t made_ = 0;
};

}  // namespace verbena::interpose
