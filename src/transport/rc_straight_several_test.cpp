// SENDs of several packets on the straight path (rc_straight.cpp), between processes of one host.
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "transport/rc_harness.h"
#include "transport/rc_shared.h"
#include "wire/whole_send.h"

namespace verbena::transport {
namespace {

using testing::Harness;

// Where packets are copied at once; not where they have to go through a sink.
TEST(StraightPath, ASendOfSeveralPacketsIsCopiedAsOne) {
    for (const bool copies : {false, true}) {
        SCOPED_TRACE(copies);
        Harness h;
        for (auto& side : h.side) {
            side.largest = 32 << 10;
            side.copies = copies;
        }
        h.straight = true;
        h.memory_size = 1 << 16;
        h.start();
        h.fill(0, 0, 40 << 10, 1);
        std::uint32_t psn = h.start_psn[0];
        for (const std::uint32_t length : {1025u, 2048u, 3000u, 12u << 10}) {
            SCOPED_TRACE(length);
            const std::uint32_t packets = packets_of(length, 1024);
            h.post_receive(1, length, {h.side[1].sge(0, 40 << 10)});
            h.log.clear();
            const unsigned before = h.went_straight, acknowledged = h.acknowledged_straight;
            ASSERT_EQ(h.post(0, h.request(Operation::send, length), {h.side[0].sge(8, length)}), 0);
            h.run(kSecond);
            EXPECT_EQ(h.went_straight, before + (copies ? 2 : 1)) << "received in any case";
            EXPECT_GE(h.acknowledged_straight, acknowledged + copies);
            ASSERT_FALSE(h.packets(0).empty());
            EXPECT_EQ(h.packets(0)[0].headers.bth.psn, psn);
            if (copies) {
                ASSERT_EQ(h.packets(0).size(), 1u);
                EXPECT_EQ(h.packets(0)[0].aside.psns, packets);
            }
            psn = wire::psn_add(psn, packets);
            EXPECT_EQ(h.sends(0).size(), 1u);
            const auto received = h.receives(1);
            ASSERT_EQ(received.size(), 1u);
            EXPECT_EQ(received[0].byte_length, length);
            EXPECT_EQ(std::memcmp(h.side[1].memory.data(), h.side[0].memory.data() + 8, length), 0);
        }
    }
}

// A peer that says nonsense about how many packets it was.
TEST(StraightPath, WhatCannotBeSoManyPacketsIsNotTaken) {
    Harness h;
    h.start();
    h.post_receive(1, 1, {h.side[1].sge(0, 4096)});
    const auto taken = [&](std::size_t length, std::uint32_t psns) {
        wire::Bth bth;
        bth.opcode = wire::Opcode::rc_send_only;
        bth.destination_qp = h.side[1].qp->number();
        bth.psn = h.start_psn[0];
        std::vector<std::uint8_t> bytes(wire::kBthLength + length + wire::kIcrcLength);
        wire::emit_whole_send(bth, 0, bytes.data());
        const wire::InPacket packet{bytes, {psns}};
        const memory::Section section(h.side[1].sections);
        return h.side[1].qp->receive_straight({&packet, 1}, h.side[0].path, h.now).count;
    };
    EXPECT_EQ(taken(1000, 2), 0u);
    EXPECT_EQ(taken(1024, 2), 0u);
    EXPECT_EQ(taken(0, 2), 0u);
    EXPECT_EQ(taken(2052, 2), 0u);
    EXPECT_EQ(taken(2048, wire::kPsnMask), 0u);
    EXPECT_EQ(taken(1028, 1), 0u);
    EXPECT_EQ(taken(2048, 2), 1u);
}

}  // namespace
}  // namespace verbena::transport
