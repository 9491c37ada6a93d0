// Bytes that tell where they come from: the data of each message is drawn from its key, so that a wrong,
// missing or doubled byte shows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "sim/random.h"

namespace verbena::sim {

inline std::uint8_t pattern_byte(std::uint64_t key, std::size_t offset) {
    return static_cast<std::uint8_t>(mix(key + offset / 8) >> (offset % 8 * 8));
}

inline void fill_pattern(std::uint64_t key, std::size_t offset, std::span<std::uint8_t> out) {
    std::size_t i = 0;
    while (i < out.size() && (offset + i) % 8 != 0) out[i] = pattern_byte(key, offset + i), i++;
    for (; i + 8 <= out.size(); i += 8) {
        const std::uint64_t word = mix(key + (offset + i) / 8);
        for (unsigned b = 0; b < 8; b++) out[i + b] = static_cast<std::uint8_t>(word >> (8 * b));
    }
    for (; i < out.size(); i++) out[i] = pattern_byte(key, offset + i);
}

// How many of the first bytes of `data` are the pattern's.
inline std::size_t matching_prefix(std::uint64_t key, std::size_t offset,
                                   std::span<const std::uint8_t> data) {
    std::size_t i = 0;
    if (offset % 8 == 0) {
        for (; i + 8 <= data.size(); i += 8) {
            std::uint8_t word[8];
            fill_pattern(key, offset + i, word);
            if (std::memcmp(word, data.data() + i, 8) != 0) break;
        }
    }
    while (i < data.size() && data[i] == pattern_byte(key, offset + i)) i++;
    return i;
}

}  // namespace verbena::sim
