// Acknowledgements that share a slot of a peer's ring, and what comes out of it.
#include "link/local_row.h"

#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "link/local_link_harness.h"
#include "wire/plain_ack.h"

namespace verbena::link {
namespace {

using testing::End;
using testing::introduce;
using testing::kLoopback;

class LocalRowTest : public ::testing::Test {
   protected:
    void SetUp() override {
        introduce(left_, right_);
        path_.source = path_.destination = kLoopback;
    }

    wire::OutPacket ack(std::uint32_t qp, std::uint32_t number) const {
        wire::Bth bth;
        bth.opcode = wire::Opcode::rc_ack;
        bth.migration_request = true;
        bth.pkey = wire::kDefaultPkey;
        bth.destination_qp = qp;
        bth.psn = number;
        wire::OutPacket packet;
        packet.path = &path_;
        packet.header_length =
            static_cast<std::uint8_t>(wire::emit_plain_ack(bth, number, packet.header.data()));
        return packet;
    }
    void add(std::uint32_t qp, std::uint32_t number) {
        ASSERT_TRUE(left_.link->row().copy(ack(qp, number))) << number;
    }
    // What Kept has of such a one.
    std::string text(std::uint32_t number) const {
        const wire::OutPacket packet = ack(right_.qp(), number);
        return {packet.header.begin() + wire::kBthLength, packet.header.begin() + packet.header_length};
    }

    End left_{3}, right_{4};
    wire::Path path_;
};

TEST_F(LocalRowTest, LeavesWhenItIsFullOrEnds) {
    std::vector<std::string> expected;
    for (std::uint32_t i = 0; i < AckRow::kMost + 2; i++) {
        EXPECT_EQ(right_.receive(), i == AckRow::kMost ? i : 0) << i;
        add(right_.qp() + i, i);
        expected.push_back(text(i));
    }
    left_.link->end_row();
    EXPECT_EQ(right_.receive(), 2u) << "as many as there are packets";
    left_.link->end_row();
    EXPECT_EQ(right_.receive(), 0u);
    EXPECT_EQ(right_.kept.texts, expected);
    EXPECT_EQ(right_.peers().at(0).in->settled(), 2u) << "slots";
}

// Bit by bit, as far as anybody reads it.
TEST_F(LocalRowTest, APacketComesOutAsItWentIn) {
    struct : Receiver {
        void datagram(const Datagram& datagram) override {
            EXPECT_TRUE(datagram.by_memory);
            EXPECT_FALSE(datagram.aside.acknowledges);
            EXPECT_EQ(datagram.aside.psns, 1u);
            EXPECT_EQ(datagram.path->source, kLoopback);
            packets.emplace_back(datagram.bytes.begin(), datagram.bytes.end() - wire::kIcrcLength);
        }
        std::vector<std::string> packets;
    } receiver;
    const wire::OutPacket one = ack(right_.qp(), 0xfedcba), other = ack(right_.qp() + 0x10, 0x123456);
    left_.link->row().copy(one);
    left_.link->row().copy(other);
    left_.link->end_row();
    EXPECT_EQ(right_.link->receive(receiver, 100), 2u);
    const auto bytes = [](const wire::OutPacket& packet) {
        return std::string(packet.header.begin(), packet.header.begin() + packet.header_length);
    };
    EXPECT_EQ(receiver.packets, (std::vector<std::string>{bytes(one), bytes(other)}));
}

TEST_F(LocalRowTest, OneToAnotherPeerBeginsAnother) {
    End third(5);
    introduce(left_, third);
    add(right_.qp(), 1);
    add(third.qp(), 2);
    EXPECT_EQ(right_.receive(), 1u);
    EXPECT_EQ(third.receive(), 0u);
    left_.link->end_row();
    EXPECT_EQ(third.receive(), 1u);
    EXPECT_EQ(third.kept.texts, std::vector<std::string>{text(2)});
}

TEST_F(LocalRowTest, WhatIsNoneOfThemLeavesAtOnce) {
    wire::OutPacket marked = ack(right_.qp(), 1), riding = ack(right_.qp(), 2);
    marked.header[1] |= wire::kBthSolicited;
    riding.aside = {1, true, 7};
    EXPECT_TRUE(left_.link->row().copy(marked));
    EXPECT_TRUE(left_.link->row().copy(riding));
    EXPECT_EQ(right_.receive(), 2u);
}

TEST_F(LocalRowTest, WhoIsNoPeerGetsNone) {
    const wire::OutPacket packet = ack(6 << kBlockBits | 5, 1);
    EXPECT_FALSE(left_.link->row().copy(packet));
    left_.link->end_row();
    EXPECT_EQ(left_.wire.sent, 0u) << "it is the caller's still";
}

// As an answer, to whom its own acknowledgement has just been added, must not be seen before that.
TEST_F(LocalRowTest, WhatIsSentMeanwhileComesBehind) {
    std::atomic<bool> begins{false};
    add(right_.qp(), 1);
    std::thread other([&] {
        begins = true;
        left_.post(right_.qp(), "the answer");
    });
    while (!begins) std::this_thread::yield();
    std::this_thread::yield();
    left_.link->end_row();
    other.join();
    EXPECT_EQ(right_.receive(), 2u);
    EXPECT_EQ(right_.kept.texts, (std::vector<std::string>{text(1), "the answer"}));
}

TEST_F(LocalRowTest, AFullRingDelaysAndDoesNotLose) {
    for (std::size_t i = 0; i < LocalRing::kSlots; i++) left_.post(right_.qp(), "takes a slot");
    std::vector<std::string> expected(LocalRing::kSlots, "takes a slot");
    for (std::uint32_t i = 0; i < 2 * AckRow::kMost; i++) {
        add(right_.qp(), i);
        expected.push_back(text(i));
    }
    left_.link->end_row();
    while (right_.kept.texts.size() < expected.size()) {
        ASSERT_GT(right_.receive(), 0u) << right_.kept.texts.size();
        left_.receive();
    }
    EXPECT_EQ(right_.kept.texts, expected);
}

}  // namespace
}  // namespace verbena::link
