#include "wire/crc32.h"

#include <array>
#include <atomic>

#include "wire/byte_order.h"
#include "wire/crc32_math.h"

namespace verbena::wire {
namespace {

using namespace crc32_math;

// kTables[k][b]: the state that byte b leaves behind after k further zero bytes. Eight bytes then take eight
// independent look-ups ("slicing by eight").
using Tables = std::array<std::array<std::uint32_t, 256>, 8>;
constexpr Tables make_tables() {
    Tables t{};
    for (unsigned b = 0; b < 256; b++) {
        std::uint32_t state = b;
        for (int bit = 0; bit < 8; bit++) state = times_x(state);
        t[0][b] = state;
    }
    for (unsigned k = 1; k < 8; k++)
        for (unsigned b = 0; b < 256; b++) t[k][b] = (t[k - 1][b] >> 8) ^ t[0][t[k - 1][b] & 0xff];
    return t;
}
constexpr Tables kTables = make_tables();

// Multiplying by x^(-8 n) undoes n zero bytes. The table covers a packet of the largest path MTU in one step;
// it begins with x^24 because the four bytes of a state are multiplied apart, in chains that do not wait for
// each other: byte k of it, counted from the lowest power, is x^(8 k) times itself.
constexpr std::size_t kUndoSpan = 4096 + 256;
constexpr std::size_t kUndoStart = 3;  // kUndo[kUndoStart] = x^0
constexpr std::array<std::uint32_t, kUndoStart + kUndoSpan> make_undo() {
    std::array<std::uint32_t, kUndoStart + kUndoSpan> t{};
    std::uint32_t a = power_of_x(8 * kUndoStart);
    for (std::uint32_t& entry : t) {
        entry = a;
        for (int bit = 0; bit < 8; bit++) a = divided_by_x(a);
    }
    return t;
}
constexpr auto kUndo = make_undo();

// count < kUndoSpan.
std::uint32_t rewind(std::uint32_t state, std::size_t count) {
    const std::uint32_t* undo = kUndo.data() + kUndoStart + count;
    std::uint32_t factor[4] = {undo[0], undo[-1], undo[-2], undo[-3]};
    std::uint32_t product = 0;
    for (int bit = 31; bit >= 24; bit--)
        for (int k = 0; k < 4; k++) {
            product ^= factor[k] & (0 - (state >> (bit - 8 * k) & 1));
            factor[k] = times_x(factor[k]);
        }
    return product;
}

// The best one, found when first asked for; every thread would find the same.
std::atomic<const Crc32Version*> chosen{nullptr};

[[gnu::noinline]] const Crc32Version* choose() {
    const Crc32Version* best = crc32_vpclmul_version();
    if (!best) best = crc32_pclmul_version();
    if (!best) best = crc32_armv8_version();
    if (!best) best = sizeof(void*) == 8 ? crc32_chorba_version() : crc32_table_version();
    chosen.store(best, std::memory_order_relaxed);
    return best;
}

const Crc32Version& best_version() {
    const Crc32Version* version = chosen.load(std::memory_order_relaxed);
    return version ? *version : *choose();
}

}  // namespace

std::uint32_t crc32_update(std::uint32_t state, const void* data, std::size_t size) {
    return best_version().update(state, data, size);
}

std::uint32_t crc32_update_headed(std::uint32_t state, const std::uint8_t* head, const void* data,
                                  std::size_t size) {
    return best_version().update_headed(state, head, data, size);
}

const Crc32Version* crc32_table_version() { return &kCrc32InTwoSteps<crc32_update_table>; }

std::uint32_t crc32_update_table(std::uint32_t state, const void* data, std::size_t size) {
    const auto* p = static_cast<const std::uint8_t*>(data);
    for (; size >= 8; p += 8, size -= 8) {
        std::uint32_t a = state ^ load_le32(p);
        std::uint32_t b = load_le32(p + 4);
        state = kTables[7][a & 0xff] ^ kTables[6][a >> 8 & 0xff] ^ kTables[5][a >> 16 & 0xff] ^
                kTables[4][a >> 24] ^ kTables[3][b & 0xff] ^ kTables[2][b >> 8 & 0xff] ^
                kTables[1][b >> 16 & 0xff] ^ kTables[0][b >> 24];
    }
    if (size >= 4) {  // most often the end: RoCE's lengths are multiples of four
        std::uint32_t a = state ^ load_le32(p);
        state = kTables[3][a & 0xff] ^ kTables[2][a >> 8 & 0xff] ^ kTables[1][a >> 16 & 0xff] ^
                kTables[0][a >> 24];
        p += 4;
        size -= 4;
    }
    for (; size > 0; p++, size--) state = (state >> 8) ^ kTables[0][(state ^ *p) & 0xff];
    return state;
}

std::uint32_t crc32_rewind_zeros(std::uint32_t state, std::size_t count) {
    for (; count >= kUndoSpan; count -= kUndoSpan - 1) state = rewind(state, kUndoSpan - 1);
    return rewind(state, count);
}

}  // namespace verbena::wire
