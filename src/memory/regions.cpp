// Keys and their records. A record's life: free (kDead or never used) -> alive (tag published last) -> dying
// (kDead, then a grace period) -> free. Readers look at the tag first, inside a Section, so they see either a
// whole record or none.
#include "memory/regions.h"

#include <cerrno>

#include "base/mutation.h"
#include "base/reason.h"

namespace verbena::memory {
namespace {

constexpr std::uint32_t kTagMask = 0xfe;  // bits 7..1 of a key
constexpr std::uint32_t kRemoteBit = 1;

std::uint32_t index_of(std::uint32_t key) { return key >> 8; }

Keys keys_of(std::uint32_t index, std::uint32_t tag) {
    const std::uint32_t lkey = index << 8 | tag;
    return {lkey, lkey | kRemoteBit};
}

// Never 0, so that an untouched record matches no key.
std::uint32_t next_tag(std::uint32_t tag) { return tag >= kTagMask ? 2 : tag + 2; }

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
    }
    return "?";
}

RegionTable::RegionTable(std::span<RegionRecord> records, Sections& sections)
    : records_(records), sections_(sections), last_tag_(1, 0) {}

int RegionTable::add(PdNumber pd, void* address, std::uint64_t length, std::uint64_t iova, Access access,
                     Keys& keys) {
    if (int error = check_access(access)) return error;
    if (int error = check_range(address_bits(address), length, "address")) return error;
    if (int error = check_range(iova, length, "iova")) return error;

    std::lock_guard guard(lock_);
    std::uint32_t index;
    if (!free_.empty()) {
        index = free_.back();
        free_.pop_back();
    } else if (last_tag_.size() < records_.size()) {
        index = static_cast<std::uint32_t>(last_tag_.size());
        last_tag_.push_back(0);
    } else {
        return fail(ENOMEM, "all %zu memory regions are in use", records_.size() - 1);
    }
    RegionRecord& record = records_[index];
    record.access = access;
    record.pd = pd;
    record.owner_handle = 0;
    record.iova = iova;
    record.length = length;
    record.address = address_bits(address);
    record.remote_invalid.store(0, std::memory_order_relaxed);
    last_tag_[index] = next_tag(last_tag_[index]);
    record.tag.store(last_tag_[index], std::memory_order_release);
    keys = keys_of(index, last_tag_[index]);
    return 0;
}

int RegionTable::remove(std::uint32_t lkey) {
    const std::uint32_t index = index_of(lkey);
    {
        std::lock_guard guard(lock_);
        if (index == 0 || index >= last_tag_.size() || (lkey & kRemoteBit) ||
            records_[index].tag.load(std::memory_order_relaxed) != (lkey & kTagMask))
            return fail(EINVAL, "lkey 0x%x names no region", lkey);
        records_[index].tag.store(kDead, std::memory_order_seq_cst);
    }
    sections_.wait_for_grace();
    std::lock_guard guard(lock_);
    free_.push_back(index);
    return 0;
}

int RegionTable::change(std::uint32_t lkey, const PdNumber* pd, void* const* address,
                        const std::uint64_t* length, const Access* access, Keys& keys) {
    const std::uint32_t index = index_of(lkey);
    std::lock_guard guard(lock_);
    if (index == 0 || index >= last_tag_.size() || (lkey & kRemoteBit) ||
        records_[index].tag.load(std::memory_order_relaxed) != (lkey & kTagMask))
        return fail(EINVAL, "lkey 0x%x names no region", lkey);
    RegionRecord& record = records_[index];
    const std::uint64_t new_length = length ? *length : record.length;
    if (access)
        if (int error = check_access(*access)) return error;
    if (int error = check_range(address ? address_bits(*address) : record.address, new_length, "address"))
        return error;

    record.tag.store(kDead, std::memory_order_seq_cst);
    sections_.wait_for_grace();
    if (pd) record.pd = *pd;
    if (address) record.address = record.iova = address_bits(*address);
    record.length = new_length;
    if (access) record.access = *access;
    record.remote_invalid.store(0, std::memory_order_relaxed);
    last_tag_[index] = next_tag(last_tag_[index]);
    record.tag.store(last_tag_[index], std::memory_order_release);
    keys = keys_of(index, last_tag_[index]);
    return 0;
}

Lookup RegionTable::find(std::uint32_t key, PdNumber pd, std::uint64_t iova, std::uint64_t length,
                         Access need) const {
    const std::uint32_t index = index_of(key);
    if (index == 0 || index >= records_.size() || (key & kTagMask) == 0)
        return {nullptr, LookupError::bad_key};
    const RegionRecord& record = records_[index];
    // Sequentially consistent: see Section's entry.
    if (record.tag.load(std::memory_order_seq_cst) != (key & kTagMask))
        return {nullptr, LookupError::bad_key};
    if (length == 0) return {reinterpret_cast<std::uint8_t*>(record.address), LookupError::none};
    if (record.pd != pd) return {nullptr, LookupError::wrong_pd};
    const std::uint64_t offset = iova - record.iova;
    const std::uint64_t checked = mutated(Mutation::rkey_bounds_ignored) ? 1 : length;
    if (iova < record.iova || offset >= record.length || checked > record.length - offset)
        return {nullptr, LookupError::out_of_bounds};
    if ((record.access & need) != need) return {nullptr, LookupError::no_access};
    return {reinterpret_cast<std::uint8_t*>(record.address + offset), LookupError::none};
}

Lookup RegionTable::local(std::uint32_t lkey, PdNumber pd, std::uint64_t iova, std::uint64_t length,
                          Access need) const {
    if (lkey & kRemoteBit) return {nullptr, LookupError::bad_key};
    return find(lkey, pd, iova, length, need);
}

Lookup RegionTable::remote(std::uint32_t rkey, PdNumber pd, std::uint64_t iova, std::uint64_t length,
                           Access need) const {
    if (!(rkey & kRemoteBit)) return {nullptr, LookupError::bad_key};
    const Lookup found = find(rkey, pd, iova, length, need);
    if (found && records_[index_of(rkey)].remote_invalid.load(std::memory_order_acquire))
        return {nullptr, LookupError::bad_key};
    return found;
}

int RegionTable::invalidate_remote(std::uint32_t rkey, PdNumber pd) {
    const std::uint32_t index = index_of(rkey);
    if (!(rkey & kRemoteBit) || !find(rkey, pd, 0, 0, 0)) return EINVAL;
    RegionRecord& record = records_[index];
    if (record.pd != pd || record.remote_invalid.exchange(1, std::memory_order_acq_rel)) return EINVAL;
    return 0;
}

}  // namespace verbena::memory
