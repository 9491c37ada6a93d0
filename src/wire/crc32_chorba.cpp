// CRC-32 by shifts alone, for processors without an instruction for it ("Chorba", S. Russell, 2024). A
// multiple of the CRC's polynomial that has few terms says where a bit may go: one at some place of a message
// leaves the same state as ones 145, 183, 211 and 300 places behind it. So each word is cleared by
// exclusive-ors into the words two to five behind, until five are left, which the tables take. Eight bytes
// cost one load and eight shifts in place of eight look-ups.
#include <initializer_list>

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

std::uint32_t update_chorba(std::uint32_t state, const void* data, std::size_t size) {
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
    std::uint8_t* to = last;
    for (const std::uint64_t added : {a, b, c, d, e}) {
        store_le64(to, load_le64(p) ^ added);
        to += kWord, p += kWord;
    }
    return crc32_update_table(crc32_update_table(0, last, kAhead), p, size - kAhead);
}

}  // namespace

const Crc32Version* crc32_chorba_version() { return &kCrc32InTwoSteps<update_chorba>; }

}  // namespace verbena::wire
