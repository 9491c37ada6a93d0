// Between packets and scatter/gather lists. All calls inside a memory::Section; no call allocates.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "memory/regions.h"
#include "transport/requests.h"

namespace verbena::transport {

inline std::uint64_t total_length(std::span<const Sge> sges) {
    std::uint64_t total = 0;
    for (const Sge& sge : sges) total += sge.length;
    return total;
}

// Checks key, domain, bounds and rights of every element that is not empty.
memory::LookupError check(const memory::RegionTable& regions, memory::PdNumber pd, std::span<const Sge> sges,
                          memory::Access need);

// Describes bytes [offset, offset + length) of the list by iovecs; `out` has room for sges.size(). `count` is
// how many were written. A null region serves as much as a packet carries (memory::kNullRegionRoom); more is
// refused. `need`: kLocalWrite if they are to be written.
memory::LookupError gather(const memory::RegionTable& regions, memory::PdNumber pd, std::span<const Sge> sges,
                           std::uint64_t offset, std::uint32_t length, iovec* out, unsigned& count,
                           memory::Access need = 0);

// Writes `bytes` at `offset` of the list, which must be long enough. On an error some may have been written.
memory::LookupError scatter(const memory::RegionTable& regions, memory::PdNumber pd,
                            std::span<const Sge> sges, std::uint64_t offset,
                            std::span<const std::uint8_t> bytes);

// Stores an aligned word whole.
template <typename Word>
void store_release(std::uint8_t* to, const std::uint8_t* from) {
    Word word;
    std::memcpy(&word, from, sizeof word);
    __atomic_store_n(reinterpret_cast<Word*>(to), word, __ATOMIC_RELEASE);
}

// Copies so that whoever polls the last byte sees the others when it changes, and so that an aligned word of
// up to eight bytes never tears: programs wait for RDMA WRITEs that way.
void place_any(std::uint8_t* to, const std::uint8_t* from, std::size_t length);
// The same, one aligned word at once.
inline void place(std::uint8_t* to, const std::uint8_t* from, std::size_t length) {
    if (length == 8 && reinterpret_cast<std::uintptr_t>(to) % 8 == 0)
        return store_release<std::uint64_t>(to, from);
    place_any(to, from, length);
}

}  // namespace verbena::transport
