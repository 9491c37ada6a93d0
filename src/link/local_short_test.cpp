// Short packets (wire/short_packet.h), which are copied to where the one before went.
#include <gtest/gtest.h>

#include <string>

#include "link/local_link_harness.h"
#include "wire/opcode.h"

namespace verbena::link {
namespace {

using testing::End;
using testing::introduce;
using testing::kElsewhere;
using testing::kLoopback;

class LocalShortTest : public ::testing::Test {
   protected:
    LocalShortTest() {
        path_.source = path_.destination = kLoopback;
        packet_.path = &path_;
        packet_.bth[0] =
            wire::to_be32(std::uint32_t{static_cast<std::uint8_t>(wire::Opcode::rc_send_only)} << 24);
        packet_.payload = text_.data();
        packet_.length = static_cast<std::uint32_t>(text_.size());
        packet_.pad_count = wire::pad_for(packet_.length);
        address(right_.qp());
    }
    void address(std::uint32_t qp) {
        packet_.destination_qp = qp;
        packet_.bth[1] = wire::to_be32(qp);
    }
    // A whole one, of the same.
    bool copy_first(wire::PacketCopier& copier) {
        const iovec piece{const_cast<char*>(text_.data()), text_.size()};
        return copier.copy(End::packet_to(packet_.destination_qp, path_, wire::Opcode::rc_send_only, piece));
    }

    const std::string text_ = "short";
    wire::Path path_;
    wire::ShortPacket packet_{};
    End left_{3}, right_{4};
};

TEST_F(LocalShortTest, AShortPacketGoesWhereOthersWent) {
    EXPECT_FALSE(left_.link->copy_short(packet_)) << "a stranger";
    introduce(left_, right_);
    EXPECT_FALSE(left_.link->copy_short(packet_)) << "nothing went there before";
    left_.post(right_.qp(), "says the addresses");
    EXPECT_TRUE(left_.link->copy_short(packet_));
    path_.destination = kElsewhere;
    EXPECT_FALSE(left_.link->copy_short(packet_));
    EXPECT_EQ(right_.receive(), 2u);
    EXPECT_EQ(right_.kept.texts.back().substr(0, text_.size()), text_);
    EXPECT_EQ(left_.wire.sent, 0u);
}

// One thread's: while it has the peer.
TEST_F(LocalShortTest, ItGoesBehindOthersOfItsSink) {
    End other{5};
    introduce(left_, right_);
    introduce(left_, other);
    wire::PacketSink& sink = left_.link->borrow_sink();
    EXPECT_FALSE(sink.copy_short(packet_)) << "nothing was copied before";
    EXPECT_TRUE(copy_first(sink));
    EXPECT_TRUE(sink.copy_short(packet_));
    packet_.length = wire::kMostShort + 1;
    EXPECT_FALSE(sink.copy_short(packet_));
    packet_.length = static_cast<std::uint32_t>(text_.size());
    EXPECT_FALSE(sink.go_on(packet_)) << "not by the wire";
    address(other.qp());
    EXPECT_FALSE(sink.copy_short(packet_)) << "another peer";
    EXPECT_TRUE(copy_first(sink));
    EXPECT_TRUE(sink.copy_short(packet_));
    sink.pause();
    EXPECT_FALSE(sink.copy_short(packet_)) << "the peer is everybody's again";
    sink.flush();
    left_.link->return_sink(sink);
    EXPECT_EQ(right_.receive(), 2u);
    EXPECT_EQ(other.receive(), 2u);
    EXPECT_EQ(left_.wire.sent, 0u);
}

}  // namespace
}  // namespace verbena::link
