// Memory regions and their keys (IBA 10.6). A key is an index into a table of records plus a tag that changes
// with every registration, so that a stale key is caught; lkeys and rkeys never coincide.
//
//     key bits 31..8: index, bits 7..1: tag, bit 0: 0 = lkey, 1 = rkey
//
// The records are plain memory given by the owner: in a process it is the exported shared segment, from which
// the local link and the tools read them; in the simulator it is the heap.
//
// Thread safety: look-ups from any thread, inside a Section (sections.h); changes are serialized by a lock
// here.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

#include "memory/access.h"
#include "memory/sections.h"

namespace verbena::memory {

using PdNumber = std::uint32_t;

struct RegionRecord {
    std::atomic<std::uint32_t> tag;  // bits 7..1 of the keys; kDead while the record is free or dying
    std::uint32_t access;            // Access
    std::uint32_t pd;                // PdNumber
    std::uint32_t owner_handle;      // for tools: the verbs object's handle
    std::uint64_t iova;              // the address that work requests use
    std::uint64_t length;            // bytes
    std::uint64_t address;           // where it lies in this process
    std::atomic<std::uint32_t> remote_invalid;  // 1 after a SEND with invalidate named the rkey
    std::uint32_t reserved32;
    std::uint64_t reserved[2];
};
static_assert(sizeof(RegionRecord) == 64);
inline constexpr std::uint32_t kDead = 0xffffffff;

struct Keys {
    std::uint32_t lkey, rkey;
};

enum class LookupError : std::uint8_t { none, bad_key, wrong_pd, out_of_bounds, no_access };

const char* to_string(LookupError error);

struct Lookup {
    std::uint8_t* address = nullptr;  // valid until the Section ends
    LookupError error = LookupError::none;
    explicit operator bool() const { return error == LookupError::none; }
};

class RegionTable {
   public:
    // All records must be zero. One record is left unused (index 0), so no key is ever 0.
    RegionTable(std::span<RegionRecord> records, Sections& sections);

    // ENOMEM if the table is full; EINVAL for access rights that make no sense together (remote write or
    // atomic without local write, IBA 10.6.3.1) or a range that wraps.
    int add(PdNumber pd, void* address, std::uint64_t length, std::uint64_t iova, Access access, Keys& keys);

    // The keys are dead at once; returns after the last user has let go. The index is reused later with
    // another tag.
    int remove(std::uint32_t lkey);

    // ibv_rereg_mr: changes what is asked for and gives new keys.
    int change(std::uint32_t lkey, const PdNumber* pd, void* const* address, const std::uint64_t* length,
               const Access* access, Keys& keys);

    // SEND with invalidate (IBA 9.4.1.1): the rkey is dead at once, the lkey lives on. Does not wait for
    // users that are inside a Section, and so may be called from one. EINVAL without a reason text if the key
    // or domain is wrong.
    int invalidate_remote(std::uint32_t rkey, PdNumber pd);

    // Checks key, protection domain, bounds and rights. `length` 0 checks the key and nothing else needs to
    // hold. Call inside a Section.
    Lookup local(std::uint32_t lkey, PdNumber pd, std::uint64_t iova, std::uint64_t length,
                 Access need) const;
    Lookup remote(std::uint32_t rkey, PdNumber pd, std::uint64_t iova, std::uint64_t length,
                  Access need) const;

    Sections& sections() { return sections_; }

   private:
    Lookup find(std::uint32_t key, PdNumber pd, std::uint64_t iova, std::uint64_t length, Access need) const;

    std::span<RegionRecord> records_;
    Sections& sections_;
    std::mutex lock_;
    std::vector<std::uint32_t> free_;      // indices given back
    std::vector<std::uint32_t> last_tag_;  // per index ever used
};

}  // namespace verbena::memory
