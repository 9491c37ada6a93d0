#include "wire/whole_send.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "wire/packet.h"
#include "wire/whole_testing.h"

namespace verbena::wire {
namespace {

// What it takes of any bytes is what parse() takes for a SEND in one packet, and as parse() reads it.
TEST(WholeSendTest, ReadsAsTheGeneralParserDoes) {
    std::mt19937 random(7);
    unsigned taken = 0;
    for (unsigned i = 0; i < 200'000; i++) {
        const auto bytes = nearly(random, i, 48, 4 + i % 2);
        WholeSend send;
        Packet packet;
        const bool whole = send.parse(bytes);
        const bool parsed = parse(bytes, packet) == ParseError::none;
        const Bth& bth = packet.headers.bth;
        ASSERT_EQ(whole, parsed && (bth.opcode == Opcode::rc_send_only ||
                                    bth.opcode == Opcode::rc_send_only_immediate));
        if (!whole) continue;
        taken++;
        expect_same(send, bth);
        EXPECT_EQ(send.has_immediate(), bth.opcode == Opcode::rc_send_only_immediate);
        if (send.has_immediate()) {
            EXPECT_EQ(send.immediate(), packet.headers.immediate);
        }
        EXPECT_TRUE(std::ranges::equal(send.payload(), packet.payload));
    }
    EXPECT_GT(taken, 10'000u);
}

}  // namespace
}  // namespace verbena::wire
