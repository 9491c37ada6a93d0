// Keys and their records. A record's life: free (kDead or never used) -> alive (tag published last) -> dying
// (kDead, then a grace period) -> free. Readers look at the tag first, inside a Section, so they see either a
// whole record or none. Windows: windows.cpp.
#include "memory/regions.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>

#include "base/mutation.h"
#include "base/reason.h"

namespace verbena::memory {
namespace {

Keys keys_of(std::uint32_t index, std::uint32_t tag) {
    const std::uint32_t lkey = index << 8 | tag;
    return {lkey, lkey | kRemoteBit};
}

// Never 0, so that an untouched record matches no key. An index that was a window's may have an odd one.
std::uint32_t next_tag(std::uint32_t tag) { return (tag & kTagMask) >= kTagMask ? 2 : (tag & kTagMask) + 2; }

// IBA 10.6.3.1: remote write and remote atomic need local write.
int check_access(Access access) {
    if (access & ~(kAllRequired | kOptionalMask))
        return fail(EINVAL, "access flags 0x%x contain unknown bits", access);
    if ((access & (kRemoteWrite | kRemoteAtomic)) && !(access & kLocalWrite))
        return fail(
            EINVAL,
            "access flags 0x%x: remote write and remote atomic need local write (IBV_ACCESS_LOCAL_WRITE)",
            access);
    return 0;
}

int check_range(std::uint64_t start, std::uint64_t length, const char* what) {
    if (start + length < start)
        return fail(EINVAL, "%s 0x%llx + length %llu wraps around the address space", what,
                    static_cast<unsigned long long>(start), static_cast<unsigned long long>(length));
    return 0;
}

std::uint64_t address_bits(const void* p) { return reinterpret_cast<std::uintptr_t>(p); }

}  // namespace

const char* to_string(LookupError error) {
    switch (error) {
        case LookupError::none:
            return "none";
        case LookupError::bad_key:
            return "no region has this key";
        case LookupError::wrong_pd:
            return "the region belongs to another protection domain";
        case LookupError::out_of_bounds:
            return "outside the region";
        case LookupError::no_access:
            return "the region was registered without this access right";
        case LookupError::not_mapped:
            return "the on-demand region's memory is not mapped, or not writable";
        case LookupError::wrong_qp:
            return "the window was bound by another queue pair";
    }
    return "?";
}

RegionTable::RegionTable(std::span<RegionRecord> records, Sections& sections)
    : records_(records), sections_(sections), last_tag_(1, 0) {}

void RegionTable::wait_for_users(std::uint32_t index) const {
    sections_.wait_for_grace();
    wait_for_outsiders({.region = index}, kNever);
}

int RegionTable::take_index(std::uint32_t& index) {
    if (free_.take(index)) return 0;
    if (last_tag_.size() == records_.size())
        return fail(ENOMEM, "all %zu memory regions and windows are in use", records_.size() - 1);
    free_.make_room_for(last_tag_.size() + 1);
    last_tag_.push_back(0);
    index = static_cast<std::uint32_t>(last_tag_.size() - 1);
    return 0;
}

int RegionTable::add(PdNumber pd, void* address, std::uint64_t length, std::uint64_t iova, Access access,
                     Keys& keys) {
    if (!(access & kNull)) {
        if (int error = check_access(access)) return error;
        if (int error = check_range(address_bits(address), length, "address")) return error;
        if (int error = check_range(iova, length, "iova")) return error;
    }
    std::lock_guard guard(lock_);
    std::uint32_t index;
    if (int error = take_index(index)) return error;
    RegionRecord& record = records_[index];
    record.access = access;
    record.pd = pd;
    record.owner_handle = 0;
    record.iova = iova;
    record.length = length;
    record.address = address_bits(address);
    record.remote_invalid = 0;
    record.kind = access & kNull ? RecordKind::null_region : RecordKind::region;
    record.qp = record.region = record.windows = 0;
    last_tag_[index] = next_tag(last_tag_[index]);
    record.tag.store(last_tag_[index], std::memory_order_release);
    keys = keys_of(index, last_tag_[index]);
    return 0;
}

int RegionTable::add_null(PdNumber pd, Keys& keys) {
    return add(pd, nullptr, ~std::uint64_t{0}, 0, kNull | kLocalWrite, keys);
}

RegionRecord* RegionTable::alive(std::uint32_t lkey) {
    const std::uint32_t index = index_of(lkey);
    if (index == 0 || index >= last_tag_.size() || (lkey & kRemoteBit) ||
        records_[index].tag.load(std::memory_order_relaxed) != (lkey & kTagMask))
        return nullptr;
    return &records_[index];
}

int RegionTable::remove(std::uint32_t lkey) {
    {
        std::lock_guard guard(lock_);
        RegionRecord* record = alive(lkey);
        if (!record) return fail(EINVAL, "lkey 0x%x names no region", lkey);
        if (record->windows > 0) return fail(EBUSY, "%u memory windows are bound to it", record->windows);
        record->tag.store(kDead, std::memory_order_seq_cst);
    }
    wait_for_users(index_of(lkey));
    std::lock_guard guard(lock_);
    free_.give_back(index_of(lkey));
    return 0;
}

int RegionTable::change(std::uint32_t lkey, const PdNumber* pd, void* const* address,
                        const std::uint64_t* length, const Access* access, Keys& keys) {
    RegionRecord* record;
    std::uint64_t new_length;
    {
        std::lock_guard guard(lock_);
        record = alive(lkey);
        if (!record) return fail(EINVAL, "lkey 0x%x names no region", lkey);
        if (record->windows > 0) return fail(EBUSY, "%u memory windows are bound to it", record->windows);
        new_length = length ? *length : record->length.load();
        if (access)
            if (int error = check_access(*access)) return error;
        if (int error =
                check_range(address ? address_bits(*address) : record->address.load(), new_length, "address"))
            return error;
        record->tag.store(kDead, std::memory_order_seq_cst);
    }
    // Without the lock, which users inside a section may want (bind). The record is nobody's meanwhile.
    wait_for_users(index_of(lkey));
    std::lock_guard guard(lock_);
    const std::uint32_t index = index_of(lkey);
    if (pd) record->pd = *pd;
    if (access) record->access = *access;
    if (address) {
        record->address = address_bits(*address);
        record->iova = record->access & kZeroBased ? 0 : address_bits(*address);
    }
    record->length = new_length;
    record->remote_invalid = 0;
    if (address || length) last_tag_[index] = next_tag(last_tag_[index]);
    record->tag.store(last_tag_[index], std::memory_order_release);
    keys = keys_of(index, last_tag_[index]);
    return 0;
}

Lookup RegionTable::unusual(const RegionRecord& record, std::uint8_t* address, std::uint64_t length,
                            Access need) const {
    constexpr Access kWrites = kLocalWrite | kRemoteWrite | kRemoteAtomic;
    if (record.access & kNull) return {need & kWrites ? discarded_.data() : zeros_.data(), LookupError::none};
    if (probe_ && !probe_(address, length, need & kWrites)) return {nullptr, LookupError::not_mapped};
    return {address, LookupError::none};
}

std::array<char, 112> RegionTable::describe(std::uint32_t key) const {
    std::array<char, 112> text{};
    const std::uint32_t index = index_of(key);
    if (index == 0 || index >= records_.size()) return text;
    const RegionRecord& record = records_[index];
    const std::uint32_t tag = record.tag.load(std::memory_order_seq_cst);
    const RecordKind kind = record.kind.load(std::memory_order_relaxed);
    if (tag == 0 || (kind != RecordKind::region && tag != kDead)) return text;
    if (tag == kDead || tag != (key & kTagMask))
        std::snprintf(text.data(), text.size(), "; the region of that key was deregistered");
    else if (record.remote_invalid.load() && (key & kRemoteBit))
        std::snprintf(text.data(), text.size(), "; the region's rkey was invalidated");
    else
        std::snprintf(text.data(), text.size(), "; the region is 0x%llx, %llu bytes, access 0x%x",
                      static_cast<unsigned long long>(record.iova.load()),
                      static_cast<unsigned long long>(record.length.load()), record.access.load());
    return text;
}

Lookup RegionTable::remote(std::uint32_t rkey, PdNumber pd, std::uint64_t iova, std::uint64_t length,
                           Access need, std::uint32_t qp) const {
    const std::uint32_t index = index_of(rkey);
    if (index == 0 || index >= records_.size()) return {nullptr, LookupError::bad_key};
    RegionRecord& record = records_[index];
    const std::uint32_t tag = record.tag.load(std::memory_order_seq_cst);
    if (tag & kWindowTag) return find_window(record, tag, rkey, pd, qp, iova, length, need);
    const bool is_rkey = (rkey & kRemoteBit) || either_;
    if (!is_rkey || tag == 0 || tag != (rkey & kTagMask) ||
        record.remote_invalid.load(std::memory_order_acquire) ||
        record.kind.load(std::memory_order_relaxed) != RecordKind::region)
        return {nullptr, LookupError::bad_key};
    if (mutated(Mutation::rkey_bounds_ignored)) length = std::min<std::uint64_t>(length, 1);
    return find(record, pd, iova, length, need);
}

}  // namespace verbena::memory
