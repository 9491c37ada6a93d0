#include "wire/whole_atomic.h"

#include <gtest/gtest.h>

#include <array>
#include <random>
#include <vector>

#include "wire/whole_testing.h"

namespace verbena::wire {
namespace {

// Bytes of `length` that are an atomic of one of those opcodes, or nearly.
std::vector<std::uint8_t> nearly_atomic(std::mt19937& random, std::size_t length, Opcode first,
                                        unsigned opcodes) {
    std::vector<std::uint8_t> bytes(random() % 8 ? length : random() % 64);
    for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(random());
    if (!bytes.empty() && random() % 8)
        bytes[0] = static_cast<std::uint8_t>(static_cast<unsigned>(first) + random() % opcodes);
    if (bytes.size() > 1 && random() % 4) bytes[1] &= 0xc0;
    return bytes;
}

// What it takes of any bytes is what parse() takes for an atomic, and as parse() reads it; what it writes is
// what emit() writes.
TEST(WholeAtomicTest, ReadsAndWritesAsTheGeneralOnesDo) {
    std::mt19937 random(11);
    unsigned taken = 0;
    for (unsigned i = 0; i < 100'000; i++) {
        const auto bytes =
            nearly_atomic(random, kBthLength + kAtomicEthLength + kIcrcLength, Opcode::rc_compare_swap, 2);
        WholeAtomic atomic;
        Packet packet;
        const bool whole = atomic.parse(bytes);
        const bool parsed = parse(bytes, packet) == ParseError::none;
        const Headers& headers = packet.headers;
        ASSERT_EQ(whole, parsed && (headers.bth.opcode == Opcode::rc_compare_swap ||
                                    headers.bth.opcode == Opcode::rc_fetch_add));
        if (!whole) continue;
        taken++;
        expect_same(atomic, headers.bth);
        EXPECT_EQ(atomic.eth(), headers.atomic_eth);
        std::array<std::uint8_t, kMaxHeaderLength> general{}, straight{};
        ASSERT_EQ(emit_whole_atomic(headers.bth, headers.atomic_eth, straight.data()),
                  emit(headers, general.data()));
        EXPECT_EQ(straight, general);
    }
    EXPECT_GT(taken, 10'000u);
}

TEST(WholeAtomicTest, AndSoDoesItsAnswer) {
    std::mt19937 random(12);
    unsigned taken = 0;
    for (unsigned i = 0; i < 100'000; i++) {
        const auto bytes = nearly_atomic(random, kBthLength + kAethLength + kAtomicAckLength + kIcrcLength,
                                         Opcode::rc_atomic_ack, 1);
        WholeAtomicAnswer answer;
        Packet packet;
        const bool whole = answer.parse(bytes);
        const bool parsed = parse(bytes, packet) == ParseError::none;
        const Headers& headers = packet.headers;
        ASSERT_EQ(whole, parsed && headers.bth.opcode == Opcode::rc_atomic_ack);
        if (!whole) continue;
        taken++;
        expect_same(answer, headers.bth);
        EXPECT_EQ(answer.original(), headers.atomic_ack);
        std::array<std::uint8_t, kMaxHeaderLength> general{}, straight{};
        ASSERT_EQ(emit_whole_atomic_answer(headers.bth, headers.aeth, headers.atomic_ack, straight.data()),
                  emit(headers, general.data()));
        EXPECT_EQ(straight, general);
    }
    EXPECT_GT(taken, 10'000u);
}

}  // namespace
}  // namespace verbena::wire
