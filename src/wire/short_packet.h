// The only packet of a short message of RC, for paths on which each instruction counts: already as it
// travels, word by word.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "wire/bth.h"
#include "wire/path.h"

namespace verbena::wire {

struct ShortPacket {
    const Path* path;
    std::uint32_t destination_qp;
    // Words in network order: the BTH, and so many of what follows it.
    std::array<std::uint32_t, kBthLength / 4> bth;
    std::array<std::uint32_t, kRethLength / 4> extended;
    unsigned extended_words;
    const void* payload;
    std::uint32_t length;  // bytes, without the pad
    std::uint8_t pad_count;
    bool acknowledges;           // as in wire::Aside
    std::uint32_t acknowledged;  // ... 24 bits

    std::size_t header_length() const { return kBthLength + 4 * extended_words; }
};

}  // namespace verbena::wire
