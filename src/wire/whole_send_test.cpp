#include "wire/whole_send.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "wire/packet.h"

namespace verbena::wire {
namespace {

// What it takes of any bytes is what parse() takes for a SEND in one packet, and as parse() reads it.
TEST(WholeSendTest, ReadsAsTheGeneralParserDoes) {
    std::mt19937 random(7);
    unsigned taken = 0;
    for (unsigned i = 0; i < 200'000; i++) {
        std::vector<std::uint8_t> bytes(random() % 48);
        for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(random());
        if (!bytes.empty() && i % 4 != 0) bytes[0] = static_cast<std::uint8_t>(4 + i % 2);
        if (bytes.size() > 1 && i % 3 != 0) bytes[1] &= 0xf0;
        WholeSend send;
        Packet packet;
        const bool whole = send.parse(bytes);
        const bool parsed = parse(bytes, packet) == ParseError::none;
        const Bth& bth = packet.headers.bth;
        ASSERT_EQ(whole, parsed && (bth.opcode == Opcode::rc_send_only ||
                                    bth.opcode == Opcode::rc_send_only_immediate));
        if (!whole) continue;
        taken++;
        EXPECT_EQ(send.destination_qp(), bth.destination_qp);
        EXPECT_EQ(send.psn(), bth.psn);
        EXPECT_EQ(send.pkey(), bth.pkey);
        EXPECT_EQ(send.solicited(), bth.solicited);
        EXPECT_EQ(send.ack_request(), bth.ack_request);
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
