// The only packet of a short message of RC, for paths on which each instruction counts: already as it
// travels, word by word.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/small_copy.h"
#include "wire/bth.h"
#include "wire/path.h"

namespace verbena::wire {

// Bytes of payload that every link to a peer of the same host takes so, of a SEND; a wire takes what it does
// of others.
inline constexpr std::uint32_t kMostShort = 116;

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
    std::size_t padded_length() const { return header_length() + length + pad_count; }
    // Its headers and payload; the end, where the pad belongs.
    [[gnu::always_inline]] std::uint8_t* write(std::uint8_t* at) const {
        const auto put = [&at](std::uint32_t word) {  // as it was made, so that its store can be forwarded
            std::memcpy(at, &word, sizeof word);
            at += sizeof word;
        };
        for (const std::uint32_t word : bth) put(word);
        for (unsigned i = 0; i < extended_words; i++) put(extended[i]);
        small_copy(at, payload, length);
        return at + length;
    }
};

}  // namespace verbena::wire
