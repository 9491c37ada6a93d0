#include "transport/copy.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace verbena::transport {
namespace {

using memory::LookupError;

// One aligned word.
void place_word(std::uint8_t* to, const std::uint8_t* from, std::size_t length) {
    switch (length) {
        case 8:
            return store_release<std::uint64_t>(to, from);
        case 4:
            return store_release<std::uint32_t>(to, from);
        case 2:
            return store_release<std::uint16_t>(to, from);
        default:
            return store_release<std::uint8_t>(to, from);
    }
}

// 1..8 bytes that lie inside one aligned word of eight: by the largest words that are aligned there.
void place_tail(std::uint8_t* to, const std::uint8_t* from, std::size_t length) {
    for (std::size_t word; length > 0; to += word, from += word, length -= word) {
        const auto at = reinterpret_cast<std::uintptr_t>(to) | 8;
        word = std::min(at & -at, std::bit_floor(length));
        place_word(to, from, word);
    }
}

// Calls each(sge, offset inside it, bytes) for the parts of the list that [offset, offset + length) covers.
template <typename Each>
LookupError for_range(std::span<const Sge> sges, std::uint64_t offset, std::uint64_t length, Each each) {
    for (const Sge& sge : sges) {
        if (length == 0) break;
        if (offset >= sge.length) {
            offset -= sge.length;
            continue;
        }
        const std::uint64_t part = std::min<std::uint64_t>(length, sge.length - offset);
        if (LookupError error = each(sge, offset, part); error != LookupError::none) return error;
        length -= part;
        offset = 0;
    }
    return LookupError::none;
}

}  // namespace

LookupError check(const memory::RegionTable& regions, memory::PdNumber pd, std::span<const Sge> sges,
                  memory::Access need) {
    for (const Sge& sge : sges)
        if (sge.length != 0)
            if (auto found = regions.local(sge.lkey, pd, sge.address, sge.length, need); !found)
                return found.error;
    return LookupError::none;
}

LookupError gather(const memory::RegionTable& regions, memory::PdNumber pd, std::span<const Sge> sges,
                   std::uint64_t offset, std::uint32_t length, iovec* out, unsigned& count,
                   memory::Access need) {
    count = 0;
    return for_range(sges, offset, length, [&](const Sge& sge, std::uint64_t at, std::uint64_t bytes) {
        const auto found = regions.local(sge.lkey, pd, sge.address + at, bytes, need);
        if (found && bytes > memory::kNullRegionRoom && regions.is_room(found.address))
            return LookupError::out_of_bounds;
        if (found) out[count++] = {found.address, bytes};
        return found.error;
    });
}

LookupError scatter(const memory::RegionTable& regions, memory::PdNumber pd, std::span<const Sge> sges,
                    std::uint64_t offset, std::span<const std::uint8_t> bytes) {
    const std::uint8_t* from = bytes.data();
    return for_range(sges, offset, bytes.size(), [&](const Sge& sge, std::uint64_t at, std::uint64_t n) {
        const auto found = regions.local(sge.lkey, pd, sge.address + at, n, memory::kLocalWrite);
        const bool vanishes = n > memory::kNullRegionRoom && found && regions.is_room(found.address);
        if (found && !vanishes) place(found.address, from, n);
        from += n;
        return found.error;
    });
}

void place_any(std::uint8_t* to, const std::uint8_t* from, std::size_t length) {
    if (length == 0) return;
    // The aligned word of eight bytes that holds the last byte goes last.
    const std::size_t into_word = (reinterpret_cast<std::uintptr_t>(to) + length - 1) & 7;
    const std::size_t tail = std::min(length, into_word + 1);
    std::memcpy(to, from, length - tail);
    place_tail(to + length - tail, from + length - tail, tail);
}

}  // namespace verbena::transport
