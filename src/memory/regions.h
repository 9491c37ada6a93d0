// Memory regions, memory windows and their keys (IBA 10.6). A region's key is an index into a table of
// records plus a tag that changes with every registration, so that a stale key is caught; lkeys and rkeys
// never coincide.
//
//     a region's keys:  bits 31..8: index, bits 7..1: tag, bit 0: 0 = lkey, 1 = rkey
//     a window's rkey:  bits 31..8: index, bits 7..0: the program's part, which it changes with each bind
//
// A window (IBA 10.6.7) is a record too: while it is bound it describes the part of a region that its rkey
// opens. Binding and invalidating happen in the path of packets, where nothing may wait for a grace period
// before it writes a record, so who reads a window's record looks at the tag again afterwards; each binding
// has a tag of its own. That the window's former users have let go is known later (sections.h, GraceWatch).
//
// The records are plain memory given by the owner: in a process it is the exported shared segment, from which
// the local link and the tools read them; in the simulator it is the heap.
//
// Thread safety: look-ups from any thread, inside a Section (sections.h); changes are serialized by a lock
// here.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

#include "base/free_list.h"
#include "memory/access.h"
#include "memory/outsiders.h"
#include "memory/sections.h"

namespace verbena::memory {

using PdNumber = std::uint32_t;

enum class RecordKind : std::uint32_t { region, null_region, window_type1, window_type2 };

struct RegionRecord {
    // A region's: bits 7..1 of the keys. A bound window's: bits 7..0 of the rkey, kWindowTag, and above it a
    // number that differs with each binding. kDead while the record is free, dying or an unbound window.
    std::atomic<std::uint32_t> tag;
    std::atomic<std::uint32_t> access;          // Access
    std::atomic<std::uint32_t> pd;              // PdNumber
    std::uint32_t owner_handle;                 // for tools: the verbs object's handle
    std::atomic<std::uint64_t> iova;            // the address that work requests use
    std::atomic<std::uint64_t> length;          // bytes
    std::atomic<std::uint64_t> address;         // where it lies in this process
    std::atomic<std::uint32_t> remote_invalid;  // 1 after an invalidate named the rkey
    std::atomic<RecordKind> kind;
    std::atomic<std::uint32_t> qp;  // a type 2 window's: the queue pair that bound it; otherwise 0
    std::uint32_t region;           // a bound window's: the index of its region; under the table's lock
    std::uint32_t windows;          // how many windows are bound to this region; under the table's lock
    std::uint32_t reserved;
};
static_assert(sizeof(RegionRecord) == 64);
inline constexpr std::uint32_t kDead = 0xffffffff;
inline constexpr std::uint32_t kWindowTag = 0x100;

struct Keys {
    std::uint32_t lkey, rkey;
};
inline constexpr std::uint32_t kTagMask = 0xfe;  // bits 7..1 of a key
inline constexpr std::uint32_t kRemoteBit = 1;
constexpr std::uint32_t index_of(std::uint32_t key) { return key >> 8; }
constexpr bool looks_like_lkey(std::uint32_t key) { return (key & kRemoteBit) == 0; }

enum class LookupError : std::uint8_t {
    none,
    bad_key,
    wrong_pd,
    out_of_bounds,
    no_access,
    not_mapped = 12,  // on-demand memory that is not there, or not writable
    wrong_qp = 13,    // a type 2 window that another queue pair bound
};

const char* to_string(LookupError error);

struct Lookup {
    std::uint8_t* address = nullptr;  // valid until the Section ends
    LookupError error = LookupError::none;
    explicit operator bool() const { return error == LookupError::none; }
};

// Why a bind or an invalidate failed (IBA 10.6.7.2, 10.6.5).
enum class WindowError : std::uint8_t {
    none,
    no_window,            // the key names no window of the queue pair's protection domain
    already_bound,        // type 2: must be invalidated first
    same_key,             // the new key is the old one
    no_region,            // the lkey names no region of the protection domain
    region_not_bindable,  // registered without kWindowBind
    region_not_writable,  // the window shall allow writing, and the region has no kLocalWrite
    out_of_bounds,        // not inside the region
    empty,                // type 2: length 0
    not_invalidatable,    // a type 1 window, an unbound one, or one that another queue pair bound
    region_has_windows,   // windows are bound to the region
};

const char* to_string(WindowError error);

// IBA 11.2.8.11, 10.6.7.2.
struct Binding {
    std::uint32_t rkey = 0;     // the window, with its new key
    std::uint32_t lkey = 0;     // the region; not looked at if length is 0
    std::uint64_t address = 0;  // the first byte, as the region's users name it
    std::uint64_t length = 0;   // 0: type 1 becomes unbound
    Access access = 0;          // the remote rights and kZeroBased count
};

// Whether [address, address + length) is mapped, and writable if `write`. Called for regions with kOnDemand
// only.
using MemoryProbe = bool (*)(const void* address, std::uint64_t length, bool write);

// A region of no memory (ibv_alloc_null_mr(3)): who reads it sees zeros, what is written vanishes. A look-up
// gives this much room, which is the largest path MTU.
inline constexpr std::uint64_t kNullRegionRoom = 4096;

class RegionTable {
   public:
    // All records must be zero. One record is left unused (index 0), so no key is ever 0.
    RegionTable(std::span<RegionRecord> records, Sections& sections);

    // Before the first kOnDemand region is added. Without a probe, such memory counts as mapped.
    void set_probe(MemoryProbe probe) { probe_ = probe; }

    // An lkey opens what the rkey does, and the other way round: for programs that rely on adapters whose two
    // keys are one number. Before the first look-up.
    void take_either_key() { either_ = true; }

    // ENOMEM if the table is full; EINVAL for access rights that make no sense together (remote write or
    // atomic without local write, IBA 10.6.3.1) or a range that wraps.
    int add(PdNumber pd, void* address, std::uint64_t length, std::uint64_t iova, Access access, Keys& keys);
    // Its lkey only is of use.
    int add_null(PdNumber pd, Keys& keys);

    // The keys are dead at once; returns after the last user has let go. The index is reused later with
    // another tag. EBUSY: windows are bound to it (IBA 10.6.7.2.5).
    int remove(std::uint32_t lkey);

    // ibv_rereg_mr: changes what is asked for. A new translation has new keys; otherwise the keys stay, and a
    // key that was invalidated is good again. EBUSY as for remove().
    int change(std::uint32_t lkey, const PdNumber* pd, void* const* address, const std::uint64_t* length,
               const Access* access, Keys& keys);

    // A window, unbound. `rkey`: its index and the part of the key from which the program goes on.
    int add_window(PdNumber pd, RecordKind kind, std::uint32_t& rkey);
    // Bound or not, with any key that it ever had. Returns after the last user has let go.
    int remove_window(std::uint32_t rkey);

    // The old binding of a type 1 window is dead at once. These two may be called inside a Section, and in
    // the path of packets: they wait for nobody, so users that are inside a Section may still finish.
    WindowError bind(const Binding& binding, PdNumber pd, std::uint32_t qp);
    // Local invalidate and SEND with invalidate (IBA 10.6.5, 9.4.1.1): the rkey of a type 2 window, which
    // becomes unbound, or of a region, whose lkey lives on.
    WindowError invalidate(std::uint32_t rkey, PdNumber pd, std::uint32_t qp);

    // A queue pair ends: the type 2 windows that it bound become unbound (IBA 10.6.7.2.6), since its number
    // will be another's.
    void unbind_windows_of(std::uint32_t qp);

    // Checks key, protection domain, bounds and rights. `length` 0 checks the key and nothing else needs to
    // hold. `qp`: the queue pair that asks, for type 2 windows. Call inside a Section.
    Lookup local(std::uint32_t lkey, PdNumber pd, std::uint64_t iova, std::uint64_t length,
                 Access need) const;
    Lookup remote(std::uint32_t rkey, PdNumber pd, std::uint64_t iova, std::uint64_t length, Access need,
                  std::uint32_t qp) const;

    // What a reason says about a key that was refused: "; the region is 0x1000, 64 bytes, access 0x1", or
    // that it was deregistered; empty if there never was one. Call inside a Section.
    std::array<char, 112> describe(std::uint32_t key) const;

    // The same for all that the key opens, wherever it lies.
    Lookup remote_whole(std::uint32_t rkey, PdNumber pd, Access need, std::uint32_t qp) const;

    // What a look-up in a null region gave.
    bool is_room(const std::uint8_t* address) const {
        return address == zeros_.data() || address == discarded_.data();
    }

    Sections& sections() { return sections_; }

    // Who is waited for like our own threads when a key dies; before the first region. May be null.
    void set_outsiders(Outsiders* outsiders) { outsiders_ = outsiders; }
    void wait_for_outsiders(const Work& work, Duration most) const {
        if (outsiders_) outsiders_->wait_for_them(work, most);
    }

   private:
    static constexpr Access kNull = 1u << 31;  // in a record's access only: a region without memory

    void wait_for_users(std::uint32_t index) const;
    Lookup find(RegionRecord& record, PdNumber pd, std::uint64_t iova, std::uint64_t length,
                Access need) const;
    Lookup unusual(const RegionRecord& record, std::uint8_t* address, std::uint64_t length,
                   Access need) const;
    Lookup find_window(RegionRecord& record, std::uint32_t tag, std::uint32_t rkey, PdNumber pd,
                       std::uint32_t qp, std::uint64_t iova, std::uint64_t length, Access need) const;
    int take_index(std::uint32_t& index);         // under lock_
    RegionRecord* alive(std::uint32_t lkey);      // under lock_; nullptr: no such region
    RegionRecord* window_of(std::uint32_t rkey);  // under lock_; nullptr: no such window
    void unbind(RegionRecord& window);            // under lock_

    std::span<RegionRecord> records_;
    Sections& sections_;
    Outsiders* outsiders_ = nullptr;
    MemoryProbe probe_ = nullptr;
    bool either_ = false;
    std::mutex lock_;
    FreeList<std::uint32_t> free_;         // indices given back
    std::vector<std::uint32_t> last_tag_;  // per index ever used: the keys' lowest byte
    std::uint32_t bound_type2_ = 0;        // windows
    std::uint32_t bindings_ = 0;           // how many there were; makes window tags differ
    alignas(64) mutable std::array<std::uint8_t, kNullRegionRoom> zeros_{};
    alignas(64) mutable std::array<std::uint8_t, kNullRegionRoom> discarded_{};
};

[[gnu::always_inline]] inline Lookup RegionTable::local(std::uint32_t lkey, PdNumber pd, std::uint64_t iova,
                                                        std::uint64_t length, Access need) const {
    const std::uint32_t index = index_of(lkey);
    const bool is_lkey = !(lkey & kRemoteBit) || either_;
    if (index == 0 || index >= records_.size() || !is_lkey || (lkey & kTagMask) == 0) [[unlikely]]
        return {nullptr, LookupError::bad_key};
    RegionRecord& record = records_[index];
    // Sequentially consistent: see Section's entry.
    if (record.tag.load(std::memory_order_seq_cst) != (lkey & kTagMask)) [[unlikely]]
        return {nullptr, LookupError::bad_key};
    return find(record, pd, iova, length, need);
}

// The record's key was good. The loads are acquire for find_window(), which looks at the tag again.
[[gnu::always_inline]] inline Lookup RegionTable::find(RegionRecord& record, PdNumber pd, std::uint64_t iova,
                                                       std::uint64_t length, Access need) const {
    const auto load = [](const auto& field) { return field.load(std::memory_order_acquire); };
    const std::uintptr_t base = load(record.address);
    if (length == 0) return {reinterpret_cast<std::uint8_t*>(base), LookupError::none};
    if (load(record.pd) != pd) [[unlikely]]
        return {nullptr, LookupError::wrong_pd};
    const std::uint64_t start = load(record.iova), extent = load(record.length);
    const std::uint64_t offset = iova - start;
    if (iova < start || offset >= extent || length > extent - offset) [[unlikely]]
        return {nullptr, LookupError::out_of_bounds};
    const Access access = load(record.access);
    if ((access & need) != need) [[unlikely]]
        return {nullptr, LookupError::no_access};
    // Summed as a number: the null region and the one of all memory begin at no object, at address 0.
    auto* const place = reinterpret_cast<std::uint8_t*>(base + offset);
    if (access & (kOnDemand | kNull)) [[unlikely]]
        return unusual(record, place, length, need);
    return {place, LookupError::none};
}

}  // namespace verbena::memory
