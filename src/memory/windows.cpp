// Memory windows (IBA 10.6.7). A window's record is bound (its tag has kWindowTag) or not (kDead); a region
// counts the windows that are bound to it. Type 1 windows are bound again and again, and unbound by length 0;
// type 2 windows are bound once, by one queue pair, whose alone they are then (type 2B: the protection domain
// must be the same too), and must be invalidated before the next time. That may be by the same key: another
// one would be wiser, since a late request by the old one then finds the new binding, but no adapter insists.
#include <cerrno>

#include "base/mutation.h"
#include "base/reason.h"
#include "memory/regions.h"

namespace verbena::memory {
namespace {

constexpr Access kRights = kRemoteRead | kRemoteWrite | kRemoteAtomic | kFlushGlobal | kFlushPersistent;

std::uint32_t byte_of(std::uint32_t key) { return key & 0xff; }

bool is_window(const RegionRecord& record) {
    return record.kind == RecordKind::window_type1 || record.kind == RecordKind::window_type2;
}

bool is_bound(const RegionRecord& window) { return window.tag != kDead; }

// IBA 10.6.7.2.2 and 11.2.8.11. The window's rights need not be the region's, except that what is written
// remotely must be writable locally.
WindowError check(const Binding& binding, const RegionRecord& region, Access rights) {
    const Access access = region.access;
    if (!(access & kWindowBind)) return WindowError::region_not_bindable;
    if ((rights & (kRemoteWrite | kRemoteAtomic)) && !(access & kLocalWrite))
        return WindowError::region_not_writable;
    const std::uint64_t offset = binding.address - region.iova;
    if (binding.address < region.iova || offset >= region.length || binding.length > region.length - offset)
        return WindowError::out_of_bounds;
    return WindowError::none;
}

}  // namespace

const char* to_string(WindowError error) {
    switch (error) {
        case WindowError::none:
            return "none";
        case WindowError::no_window:
            return "no window of the protection domain has this key";
        case WindowError::already_bound:
            return "the type 2 window is bound; it must be invalidated first";
        case WindowError::same_key:
            return "the window has this key already";
        case WindowError::no_region:
            return "no region of the protection domain has this lkey";
        case WindowError::region_not_bindable:
            return "the region was registered without IBV_ACCESS_MW_BIND";
        case WindowError::region_not_writable:
            return "remote write or atomic needs a region with IBV_ACCESS_LOCAL_WRITE";
        case WindowError::out_of_bounds:
            return "outside the region";
        case WindowError::empty:
            return "a type 2 window of no bytes";
        case WindowError::not_invalidatable:
            return "only a type 2 window that this queue pair bound, or a region's rkey";
        case WindowError::region_has_windows:
            return "windows are bound to the region";
    }
    return "?";
}

int RegionTable::add_window(PdNumber pd, RecordKind kind, std::uint32_t& rkey) {
    std::lock_guard guard(lock_);
    std::uint32_t index;
    if (int error = take_index(index)) return error;
    RegionRecord& record = records_[index];
    record.tag = kDead;
    record.access = 0;
    record.pd = pd;
    record.owner_handle = 0;
    record.kind = kind;
    record.qp = record.region = record.windows = 0;
    last_tag_[index] = byte_of(last_tag_[index] + 1);
    rkey = index << 8 | last_tag_[index];
    return 0;
}

RegionRecord* RegionTable::window_of(std::uint32_t rkey) {
    const std::uint32_t index = index_of(rkey);
    if (index == 0 || index >= last_tag_.size() || !is_window(records_[index])) return nullptr;
    return &records_[index];
}

void RegionTable::unbind(RegionRecord& window) {
    if (!is_bound(window)) return;
    window.tag.store(kDead, std::memory_order_seq_cst);
    records_[window.region].windows--;
    if (window.kind == RecordKind::window_type2) bound_type2_--;
    window.region = 0;
}

int RegionTable::remove_window(std::uint32_t rkey) {
    {
        std::lock_guard guard(lock_);
        RegionRecord* window = window_of(rkey);
        if (!window) return fail(EINVAL, "rkey 0x%x names no memory window", rkey);
        unbind(*window);
        window->kind = RecordKind::region;  // nobody binds it any more
    }
    wait_for_users(index_of(rkey));
    std::lock_guard guard(lock_);
    free_.give_back(index_of(rkey));
    return 0;
}

WindowError RegionTable::bind(const Binding& binding, PdNumber pd, std::uint32_t qp) {
    std::lock_guard guard(lock_);
    RegionRecord* window = window_of(binding.rkey);
    if (!window || window->pd != pd) return WindowError::no_window;
    std::uint32_t& last = last_tag_[index_of(binding.rkey)];
    const bool type2 = window->kind == RecordKind::window_type2;
    if (!type2 && byte_of(binding.rkey) == last) return WindowError::same_key;
    if (type2 && is_bound(*window)) return WindowError::already_bound;
    if (binding.length == 0) {
        if (type2) return WindowError::empty;
        unbind(*window);
        last = byte_of(binding.rkey);
        return WindowError::none;
    }
    RegionRecord* region = alive(binding.lkey);
    if (!region || region->pd != pd || region->kind != RecordKind::region) return WindowError::no_region;
    const Access rights = binding.access & kRights;
    if (WindowError error = check(binding, *region, rights); error != WindowError::none) return error;

    unbind(*window);
    window->access = rights | (region->access & kOnDemand);
    window->iova = binding.access & kZeroBased ? 0 : binding.address;
    window->length = mutated(Mutation::window_bounds_ignored)
                         ? region->length - (binding.address - region->iova)
                         : binding.length;
    window->address = region->address + (binding.address - region->iova);
    window->qp = type2 ? qp : 0;
    window->region = static_cast<std::uint32_t>(region - records_.data());
    region->windows++;
    if (type2) bound_type2_++;
    last = byte_of(binding.rkey);
    constexpr std::uint32_t kBindingBits = 22;  // so that no tag is kDead
    bindings_ = (bindings_ + 1) & ((1u << kBindingBits) - 1);
    window->tag.store(bindings_ << 9 | kWindowTag | last, std::memory_order_seq_cst);
    return WindowError::none;
}

WindowError RegionTable::invalidate(std::uint32_t rkey, PdNumber pd, std::uint32_t qp) {
    std::lock_guard guard(lock_);
    if (RegionRecord* window = window_of(rkey)) {
        if (window->pd != pd || byte_of(rkey) != last_tag_[index_of(rkey)]) return WindowError::no_window;
        if (window->kind != RecordKind::window_type2 || !is_bound(*window) || window->qp != qp)
            return WindowError::not_invalidatable;
        if (!mutated(Mutation::window_survives_invalidate)) unbind(*window);
        return WindowError::none;
    }
    RegionRecord* region = rkey & 1 ? alive(rkey & ~1u) : nullptr;
    if (!region || region->pd != pd || region->kind != RecordKind::region || region->remote_invalid)
        return WindowError::no_window;
    if (region->windows > 0) return WindowError::region_has_windows;
    region->remote_invalid = 1;
    return WindowError::none;
}

void RegionTable::unbind_windows_of(std::uint32_t qp) {
    std::lock_guard guard(lock_);
    for (std::size_t i = 1; i < last_tag_.size() && bound_type2_ > 0; i++)
        if (records_[i].kind == RecordKind::window_type2 && records_[i].qp == qp) unbind(records_[i]);
}

// Whatever happens to the record meanwhile: what is returned belongs to the binding that `tag` stands for.
Lookup RegionTable::find_window(RegionRecord& record, std::uint32_t tag, std::uint32_t rkey, PdNumber pd,
                                std::uint32_t qp, std::uint64_t iova, std::uint64_t length,
                                Access need) const {
    if (tag == kDead || byte_of(tag) != byte_of(rkey)) return {nullptr, LookupError::bad_key};
    const std::uint32_t owner = record.qp.load(std::memory_order_acquire);
    const Lookup found = find(record, pd, iova, length, need);
    if (record.tag.load(std::memory_order_acquire) != tag) return {nullptr, LookupError::bad_key};
    if (owner != 0 && owner != qp && !mutated(Mutation::window_of_other_qp_accepted))
        return {nullptr, LookupError::wrong_qp};
    return found;
}

Lookup RegionTable::remote_whole(std::uint32_t rkey, PdNumber pd, Access need, std::uint32_t qp) const {
    if (const Lookup found = remote(rkey, pd, 0, 0, 0, qp); !found) return found;
    const RegionRecord& record = records_[index_of(rkey)];
    return remote(rkey, pd, record.iova, record.length, need, qp);
}

}  // namespace verbena::memory
