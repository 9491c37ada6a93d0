#include "wire/whole_write.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>

#include "wire/packet.h"
#include "wire/whole_testing.h"

namespace verbena::wire {
namespace {

// What it takes of any bytes is what parse() takes for a WRITE in one packet, and as parse() reads it; what
// it writes is what emit() writes.
TEST(WholeWriteTest, ReadsAndWritesAsTheGeneralOnesDo) {
    std::mt19937 random(13);
    unsigned taken = 0;
    for (unsigned i = 0; i < 200'000; i++) {
        const auto bytes = nearly(random, i, 64, static_cast<unsigned>(Opcode::rc_write_only));
        WholeWrite write;
        Packet packet;
        const bool whole = write.parse(bytes);
        const bool parsed = parse(bytes, packet) == ParseError::none;
        const Bth& bth = packet.headers.bth;
        ASSERT_EQ(whole, parsed && bth.opcode == Opcode::rc_write_only);
        if (!whole) continue;
        taken++;
        expect_same(write, bth);
        EXPECT_EQ(write.reth(), packet.headers.reth);
        EXPECT_TRUE(std::ranges::equal(write.payload(), packet.payload));
        std::array<std::uint8_t, kMaxHeaderLength> general{}, straight{};
        ASSERT_EQ(emit_whole_write(bth, packet.headers.reth, straight.data()),
                  emit(packet.headers, general.data()));
        EXPECT_EQ(straight, general);
    }
    EXPECT_GT(taken, 10'000u);
}

}  // namespace
}  // namespace verbena::wire
