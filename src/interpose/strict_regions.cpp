#include "interpose/strict_regions.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "base/memcheck.h"

namespace verbena::interpose {
namespace {

// Not a good hash; a change of some bytes shows.
std::uint64_t mix(std::uint64_t sum, const char* bytes, std::size_t size) {
    constexpr std::uint64_t kPrime = 0x9e3779b97f4a7c15;
    for (; size >= 8; bytes += 8, size -= 8) {
        std::uint64_t word;
        std::memcpy(&word, bytes, 8);
        sum = (sum ^ word) * kPrime;
        sum ^= sum >> 29;
    }
    for (; size > 0; bytes++, size--) sum = (sum ^ static_cast<unsigned char>(*bytes)) * kPrime;
    return sum;
}

bool holds(const Regions::Region& region, const StrictBuffer& buffer) {
    return buffer.address >= region.first && buffer.length <= region.length &&
           buffer.address - region.first <= region.length - buffer.length;
}

}  // namespace

bool is_mapped(const char* begin, std::uint64_t size) {
    static const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
    const auto first = reinterpret_cast<std::uintptr_t>(begin) & ~(page - 1);
    const auto length = reinterpret_cast<std::uintptr_t>(begin) + size - first;
    unsigned char state[64];
    for (std::uintptr_t at = 0; at < length; at += page * sizeof state)
        if (mincore(reinterpret_cast<void*>(first + at),
                    std::min<std::uintptr_t>(length - at, page * sizeof state), state) != 0)
            return false;
    return true;
}

void Regions::made(const Key& key, Region region) {
    gone_.remove(key);
    region.number = ++made_;
    regions_[key] = std::move(region);
}

void Regions::imported(const Key& key, Region region) {
    if (!find(key)) made(key, std::move(region));
}

void Regions::gone(const Key& key, const char* how) {
    const auto found = regions_.find(key);
    if (found == regions_.end()) return;
    gone_.add(key, {std::move(found->second.name), how});
    regions_.erase(found);
}

const Regions::Region* Regions::find(const Key& key) const {
    const auto found = regions_.find(key);
    return found == regions_.end() ? nullptr : &found->second;
}

std::optional<std::uint64_t> Regions::begin_of(const StrictBuffer& buffer) const {
    const Region* region = find({buffer.context, buffer.lkey});
    if (!region) return buffer.address;
    if (region->backing == Backing::elsewhere) return std::nullopt;
    return holds(*region, buffer) ? region->address + (buffer.address - region->first) : buffer.address;
}

const char* Regions::memory_of(const StrictBuffer& buffer, const Region** out) const {
    const Region* region = find({buffer.context, buffer.lkey});
    if (!region || region->backing != Backing::memory || !holds(*region, buffer)) return nullptr;
    if (out) *out = region;
    return reinterpret_cast<const char*>(region->address + (buffer.address - region->first));
}

bool Regions::sum(const std::vector<StrictBuffer>& buffers, std::uint64_t& out) const {
    const memcheck::Unjudged unjudged;  // gaps are summed, too
    out = 0;
    for (const StrictBuffer& buffer : buffers) {
        if (!buffer.length) continue;
        const char* memory = memory_of(buffer);
        if (!memory || !is_mapped(memory, buffer.length)) return false;
        out = mix(out, memory, buffer.length);
    }
    memcheck::set_defined(&out, sizeof out);
    return true;
}

}  // namespace verbena::interpose
