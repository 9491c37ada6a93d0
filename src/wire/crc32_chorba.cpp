// CRC-32 by shifts alone, for processors without an instruction for it ("Chorba", S. Russell, 2024). A
// multiple of the CRC's polynomial that has few terms says where a bit may go: one at some place of a message
// leaves the same state as ones 145, 183, 211 and 300 places behind it. So each word is cleared by
// exclusive-ors into the words two to five behind, until five are left, which the tables take. Eight bytes
// cost one load and eight shifts in place of eight look-ups.
#include "wire/byte_order.h"
#include "wire/crc32.h"
#include "wire/crc32_math.h"

namespace verbena::wire {
namespace {

static_assert([] {
    using crc32_math::power_of_x;
    return power_of_x(300) ==
           (power_of_x(300 - 145) ^ power_of_x(300 - 183) ^ power_of_x(300 - 211) ^ power_of_x(0));
}());

constexpr std::size_t kWord = 8;
constexpr std::size_t kAhead = 5 * kWord;
constexpr std::size_t kWorth = 2 * kAhead;  // for less the tables are as fast

std::uint32_t update(std::uint32_t state, const void* data, std::size_t size) {
    if (size < kWorth) return crc32_update_table(state, data, size);
    const auto* p = static_cast<const std::uint8_t*>(data);
    // What is to be added to the next word and the four behind it.
    std::uint64_t a = state, b = 0, c = 0, d = 0, e = 0;
#pragma GCC unroll 5
    for (; size >= kAhead + kWord; p += kWord, size -= kWord) {
        const std::uint64_t word = load_le64(p) ^ a;
        a = b;
        b = c ^ word << (145 - 128) ^ word << (183 - 128);
        c = d ^ word >> (192 - 145) ^ word >> (192 - 183) ^ word << (211 - 192);
        d = e ^ word >> (256 - 211) ^ word << (300 - 256);
        e = word >> (320 - 300);
    }
    std::uint8_t last[kAhead];
    store_le64(last, load_le64(p) ^ a);
    store_le64(last + kWord, load_le64(p + kWord) ^ b);
    store_le64(last + 2 * kWord, load_le64(p + 2 * kWord) ^ c);
    store_le64(last + 3 * kWord, load_le64(p + 3 * kWord) ^ d);
    store_le64(last + 4 * kWord, load_le64(p + 4 * kWord) ^ e);
    return crc32_update_table(crc32_update_table(0, last, kAhead), p + kAhead, size - kAhead);
}

std::uint32_t update_headed(std::uint32_t state, const std::uint8_t* head, const void* data,
                            std::size_t size) {
    return update(crc32_update_table(state, head, kCrc32Head), data, size);
}

}  // namespace

const Crc32Version* crc32_chorba_version() {
    static constexpr Crc32Version kVersion{update, update_headed};
    return &kVersion;
}

}  // namespace verbena::wire
