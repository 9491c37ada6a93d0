// Two addresses of the loopback interface find out that bursts travel whole between them.
#include "link/whole_bursts.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <memory>
#include <optional>
#include <vector>

#include "link/burst.h"
#include "link/burst_policy.h"
#include "link/steering.h"
#include "link/udp_receive.h"

namespace verbena::link {
namespace {

const Gid kHere = Gid::from_ipv4(0x7f000001), kThere = Gid::from_ipv4(0x7f000002);

class OpcodeCollector : public Receiver {
   public:
    void datagram(const Datagram& datagram) override {
        opcodes.push_back(static_cast<wire::Opcode>(datagram.bytes[0]));
        syndromes.push_back(datagram.bytes[12]);
    }
    std::vector<wire::Opcode> opcodes;
    std::vector<std::uint8_t> syndromes;
};

class WholeBurstsTest : public ::testing::Test {
   protected:
    void SetUp() override {
        queue_ = open_group_socket(0, true);
        ASSERT_GE(queue_, 0);
        path_.source = kHere;
        path_.destination = kThere;
        reader_.emplace(bound_port(queue_), theirs_);
        builder_ = std::make_unique<BurstBuilder>(sources_, policy_, ours_, bound_port(queue_));
    }
    void TearDown() override { close(queue_); }

    void send(wire::Opcode opcode, std::uint8_t syndrome = 0, std::uint32_t psn = 1) {
        wire::Headers headers;
        headers.bth.opcode = opcode;
        headers.bth.destination_qp = 7;
        headers.bth.psn = psn;
        headers.aeth.syndrome = syndrome;
        wire::OutPacket packet;
        packet.path = &path_;
        packet.header_length = static_cast<std::uint8_t>(wire::emit(headers, packet.header.data()));
        const iovec piece{data_, sizeof data_};
        if (opcode == wire::Opcode::rc_send_only) packet.payload = {&piece, 1};
        builder_->send(packet);
    }
    OpcodeCollector received() {
        builder_->flush();
        OpcodeCollector collector;
        while (reader_->read(queue_, collector, 100) > 0) {
        }
        return collector;
    }

    std::uint8_t data_[64] = {};
    int queue_ = -1;
    WholeBursts ours_, theirs_;
    SourcePorts sources_;
    BurstPolicy policy_{true};
    wire::Path path_;
    std::unique_ptr<BurstBuilder> builder_;
    std::optional<UdpReader> reader_;
};

TEST_F(WholeBurstsTest, TheFirstAcknowledgementsTellThePeer) {
    EXPECT_FALSE(theirs_.known(kHere));
    send(wire::Opcode::rc_ack, wire::ack_syndrome());
    EXPECT_EQ(received().opcodes.size(), 2u);
    EXPECT_TRUE(theirs_.known(kHere));
    EXPECT_FALSE(theirs_.known(kThere));
    for (unsigned i = 0; i < 10; i++) send(wire::Opcode::rc_ack, wire::ack_syndrome(), 2 + i);
    EXPECT_EQ(received().opcodes.size(), 13u);  // four greetings in all
}

// What several queue pairs acknowledge together: each greeting is a burst by itself.
TEST_F(WholeBurstsTest, GreetingsJoinNothing) {
    send(wire::Opcode::rc_ack, wire::nak(wire::NakCode::remote_access));
    for (unsigned i = 0; i < 2; i++) send(wire::Opcode::rc_ack, wire::ack_syndrome(), 2 + i);
    send(wire::Opcode::rc_ack, wire::nak(wire::NakCode::remote_access));
    EXPECT_EQ(received().opcodes.size(), 6u);
    EXPECT_EQ(builder_->counters().bursts, 2u);
    EXPECT_TRUE(theirs_.known(kHere));
}

TEST_F(WholeBurstsTest, ANakIsNoGreeting) {
    send(wire::Opcode::rc_ack, wire::nak(wire::NakCode::remote_access));
    EXPECT_EQ(received().opcodes.size(), 1u);
    EXPECT_FALSE(theirs_.known(kHere));
}

TEST_F(WholeBurstsTest, EqualAcknowledgementsMergedByChanceTellNothing) {
    for (unsigned i = 0; i < 4; i++) ours_.to_greet(kThere);  // no more greetings
    send(wire::Opcode::rc_ack, wire::ack_syndrome());
    send(wire::Opcode::rc_ack, wire::ack_syndrome());
    EXPECT_EQ(received().opcodes.size(), 2u);
    EXPECT_FALSE(theirs_.known(kHere));
}

TEST_F(WholeBurstsTest, ToAKnownPeerTheAcknowledgementRidesAlong) {
    send(wire::Opcode::rc_ack, wire::ack_syndrome());
    send(wire::Opcode::rc_send_only);
    received();
    EXPECT_EQ(builder_->counters().bursts, 1u);  // the greeting
    path_.destination = kHere;                   // back
    path_.source = kThere;
    while (theirs_.to_greet(kHere)) {
    }
    builder_ = std::make_unique<BurstBuilder>(sources_, policy_, theirs_, bound_port(queue_));
    send(wire::Opcode::rc_ack, wire::ack_syndrome());
    send(wire::Opcode::rc_send_only);
    const OpcodeCollector collector = received();
    EXPECT_EQ(builder_->counters().bursts, 1u);
    ASSERT_EQ(collector.opcodes.size(), 2u);
    EXPECT_EQ(collector.opcodes[0], wire::Opcode::rc_ack);  // looked at first
    EXPECT_EQ(collector.opcodes[1], wire::Opcode::rc_send_only);
}

}  // namespace
}  // namespace verbena::link
