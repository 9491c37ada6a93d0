// What a link to peers of the same host adds: packets larger than the path MTU, acknowledgements that ride on
// requests, payloads that are fetched.
#include <gtest/gtest.h>

#include "transport/rc_harness.h"

namespace verbena::transport::testing {
namespace {

using completion::Status;

class Asides : public ::testing::Test, protected Harness {
   protected:
    void SetUp() override {
        start();
        for (Side& s : side) s.largest = 8192;
    }
    int send(int from, std::uint32_t length, std::uint64_t wr_id = 1) {
        SendRequest request;
        request.operation = Operation::send;
        request.flags = kSignaled;
        request.wr_id = wr_id;
        return post(from, request, {side[from].sge(0, length)});
    }
    // Of side 0, to or from the same place of side 1's memory.
    int one_sided(Operation operation, std::size_t offset, std::uint32_t length) {
        SendRequest request;
        request.operation = operation;
        request.flags = kSignaled;
        request.remote_address = side[1].address(offset);
        request.rkey = side[1].keys.rkey;
        return post(0, request, {side[0].sge(offset, length)});
    }
    // A SEND as one packet that stands for `psns`.
    wire::Packet message(std::uint32_t psns) {
        wire::Packet packet;
        packet.headers.bth.opcode = wire::Opcode::rc_send_only;
        packet.headers.bth.psn = start_psn[0];
        packet.headers.bth.destination_qp = 0x1001;
        packet.headers.bth.ack_request = true;
        packet.aside.psns = psns;
        return packet;
    }
    void receive(const wire::Packet& packet) {
        memory::Section section(side[1].sections);
        side[1].qp->receive(packet, side[0].path, now);
    }
};

class FakePayload final : public wire::Elsewhere {
   public:
    std::size_t length() const override { return bytes.size(); }
    bool fetch(std::uint32_t from, std::span<const iovec> into) override {
        sender = from;
        std::size_t at = 0;
        for (const iovec& piece : into) {
            std::memcpy(piece.iov_base, bytes.data() + at, piece.iov_len);
            at += piece.iov_len;
        }
        return there && at == bytes.size();
    }
    std::uint64_t placed() const override { return written; }
    void decline() override { declined = true; }

    std::vector<std::uint8_t> bytes = std::vector<std::uint8_t>(3000, 7);
    bool there = true, declined = false;
    std::uint32_t sender = 0, written = 0;
};

TEST_F(Asides, AMessageIsOnePacketWithThePsnsOfMany) {
    fill(0, 0, 5000, 1);
    post_receive(1, 9, {side[1].sge(100, 6000)});
    ASSERT_EQ(send(0, 5000), 0);
    run();
    ASSERT_EQ(packets(0).size(), 1u);
    EXPECT_EQ(packets(0)[0].headers.bth.opcode, wire::Opcode::rc_send_only);
    EXPECT_EQ(packets(0)[0].aside.psns, 5u);
    ASSERT_EQ(packets(1).size(), 1u);
    EXPECT_EQ(packets(1)[0].headers.bth.psn, start_psn[0] + 4);
    EXPECT_TRUE(equal(0, 100, 5000));
    ASSERT_EQ(sends(0).size(), 1u);
    EXPECT_EQ(receives(1)[0].byte_length, 5000u);
}

TEST_F(Asides, ALongMessageIsCutAtMultiplesOfTheMtu) {
    fill(0, 0, 20000, 2);
    post_receive(1, 9, {side[1].sge(0, 20000)});
    ASSERT_EQ(send(0, 20000), 0);
    run();
    ASSERT_EQ(packets(0).size(), 3u);
    EXPECT_EQ(packets(0)[1].payload, 8192u);
    EXPECT_EQ(packets(0)[2].aside.psns, 4u);
    EXPECT_TRUE(equal(0, 0, 20000));
    EXPECT_EQ(sends(0).size(), 1u);
}

// Who waits for it has a closed window before sixteen of them are there. One answer still takes it along.
TEST_F(Asides, ALargePacketIsAcknowledgedAsSeveral) {
    for (const std::uint32_t length : {1u << 10, 16u << 10, 32u << 10}) {
        log.clear();
        const std::vector<std::uint8_t> payload(length, 7);
        wire::Packet packet = message(length >> 10);
        for (unsigned n = 0; n < 2; n++) {
            post_receive(1, 9, {side[1].sge(0, length)});
            packet.payload = payload;
            receive(packet);
            packet.headers.bth.psn = wire::psn_add(packet.headers.bth.psn, packet.aside.psns);
        }
        start_psn[0] = packet.headers.bth.psn;
        transmit(1, false);  // while others wait for a better moment
        EXPECT_EQ(packets(1).size(), length == 32 << 10 ? 1u : 0u);
        transmit(1, true);
    }
}

TEST_F(Asides, AWriteIsAFewLargePackets) {
    fill(0, 64, 20000, 4);
    ASSERT_EQ(one_sided(Operation::rdma_write, 64, 20000), 0);
    run();
    ASSERT_EQ(packets(0).size(), 3u);
    EXPECT_EQ(packets(0)[0].headers.bth.opcode, wire::Opcode::rc_write_first);
    EXPECT_EQ(packets(0)[1].headers.bth.opcode, wire::Opcode::rc_write_middle);
    EXPECT_EQ(packets(0)[1].headers.bth.psn, start_psn[0] + 8);
    EXPECT_EQ(packets(0)[2].headers.bth.opcode, wire::Opcode::rc_write_last);
    EXPECT_EQ(packets(0)[2].aside.psns, 4u);
    EXPECT_TRUE(equal(64, 64, 20000));
    EXPECT_EQ(sends(0).size(), 1u);
}

TEST_F(Asides, AReadIsAnsweredByAFewLargePackets) {
    fill(1, 64, 20000, 5);
    ASSERT_EQ(one_sided(Operation::rdma_read, 64, 20000), 0);
    run();
    ASSERT_EQ(packets(1).size(), 3u);
    EXPECT_EQ(packets(1)[0].headers.bth.opcode, wire::Opcode::rc_read_response_first);
    EXPECT_EQ(packets(1)[1].headers.bth.opcode, wire::Opcode::rc_read_response_middle);
    EXPECT_EQ(packets(1)[1].headers.bth.psn, start_psn[0] + 8);
    EXPECT_EQ(packets(1)[2].headers.bth.opcode, wire::Opcode::rc_read_response_last);
    EXPECT_EQ(packets(1)[2].aside.psns, 4u);
    EXPECT_TRUE(equal(64, 64, 20000));
    EXPECT_EQ(sends(0).size(), 1u);
    EXPECT_EQ(packets(0).size(), 1u);
}

TEST_F(Asides, ALargeAnswerThatWasLostIsAskedForAgain) {
    fill(1, 0, 20000, 6);
    bool lost = false;
    filter = [&](const Sent& s) {
        if (s.from == 0 || s.headers.bth.opcode != wire::Opcode::rc_read_response_middle || lost)
            return kDeliver;
        lost = true;
        side[1].largest = 0;  // the peer is reached by the wire from now on
        return kDrop;
    };
    ASSERT_EQ(one_sided(Operation::rdma_read, 0, 20000), 0);
    run();
    EXPECT_TRUE(lost);
    EXPECT_TRUE(equal(0, 0, 20000));
    EXPECT_EQ(sends(0).size(), 1u);
}

TEST_F(Asides, AnAnswerForMorePacketsThanWereAskedForIsRefused) {
    ASSERT_EQ(one_sided(Operation::rdma_read, 0, 2000), 0);
    run(0);
    wire::Packet packet;
    packet.headers.bth.opcode = wire::Opcode::rc_read_response_only;
    packet.headers.bth.psn = start_psn[0];
    packet.headers.bth.destination_qp = 0x1000;
    packet.aside.psns = 3;
    const std::vector<std::uint8_t> bytes(3000);
    packet.payload = bytes;
    memory::Section section(side[0].sections);
    side[0].qp->receive(packet, side[1].path, now);
    const auto completed = sends(0);
    ASSERT_EQ(completed.size(), 1u);
    EXPECT_EQ(completed[0].status, Status::bad_response);
}

TEST_F(Asides, WhatWasLostLeavesAgainAsOrdinaryPackets) {
    fill(0, 0, 5000, 3);
    filter = [&](const Sent& s) {
        if (s.from == 1 || s.aside.psns == 1) return kDeliver;
        side[0].largest = 0;  // the peer is reached by the wire from now on
        return kDrop;
    };
    post_receive(1, 9, {side[1].sge(0, 5000)});
    ASSERT_EQ(send(0, 5000), 0);
    run();
    EXPECT_TRUE(equal(0, 0, 5000));
    EXPECT_EQ(receives(1).size(), 1u);
    EXPECT_EQ(sends(0).size(), 1u);
}

TEST_F(Asides, ADuplicateOfALargePacketIsNotDeliveredTwice) {
    filter = [](const Sent& s) { return s.from == 0 ? Fate{0, kMillisecond} : kDeliver; };
    for (std::uint64_t id : {1u, 2u}) post_receive(1, id, {side[1].sge(0, 5000)});
    ASSERT_EQ(send(0, 5000), 0);
    run();
    EXPECT_EQ(receives(1).size(), 1u);
    EXPECT_EQ(sends(0).size(), 1u);
}

TEST_F(Asides, AnAcknowledgementRidesOnTheAnswer) {
    polls = false;
    for (int i = 0; i < 2; i++) post_receive(i, 9, {side[i].sge(0, 100)});
    ASSERT_EQ(send(0, 10), 0);
    run(50 * kMicrosecond);
    ASSERT_EQ(receives(1).size(), 1u);
    EXPECT_TRUE(packets(1).empty());  // held back
    EXPECT_TRUE(sends(0).empty());
    ASSERT_EQ(send(1, 20), 0);
    run(20 * kMicrosecond);
    ASSERT_EQ(packets(1).size(), 1u);
    EXPECT_TRUE(packets(1)[0].aside.acknowledges);
    EXPECT_EQ(packets(1)[0].aside.acknowledged, start_psn[0]);
    EXPECT_EQ(sends(0).size(), 1u);
    EXPECT_EQ(receives(0).size(), 1u);
}

TEST_F(Asides, NothingRidesOverAWire) {
    polls = false;
    side[1].largest = 0;
    for (int i = 0; i < 2; i++) post_receive(i, 9, {side[i].sge(0, 100)});
    ASSERT_EQ(send(0, 10), 0);
    run(50 * kMicrosecond);
    ASSERT_EQ(send(1, 20), 0);
    run(20 * kMicrosecond);
    ASSERT_EQ(packets(1).size(), 2u);
    EXPECT_EQ(packets(1)[0].headers.bth.opcode, wire::Opcode::rc_ack);
    EXPECT_EQ(sends(0).size(), 1u);
}

TEST_F(Asides, APayloadIsFetchedIntoTheReceive) {
    post_receive(1, 9, {side[1].sge(0, 1000), side[1].sge(2000, 4000)});
    FakePayload payload;
    wire::Packet packet = message(3);
    packet.elsewhere = &payload;
    receive(packet);
    EXPECT_EQ(payload.sender, 0x1000u);
    const auto received = receives(1);
    ASSERT_EQ(received.size(), 1u);
    EXPECT_EQ(received[0].byte_length, 3000u);
    EXPECT_EQ(side[1].memory[999] + side[1].memory[1000] + side[1].memory[2000] + side[1].memory[3999], 21);
}

TEST_F(Asides, APayloadThatIsNotToBeHadWasNeverSent) {
    post_receive(1, 9, {side[1].sge(0, 4000)});
    FakePayload payload;
    payload.there = false;
    wire::Packet packet = message(3);
    packet.elsewhere = &payload;
    receive(packet);
    transmit(1, true);
    ASSERT_EQ(packets(1).size(), 1u);
    EXPECT_EQ(packets(1)[0].headers.aeth.syndrome, wire::nak(wire::NakCode::psn_sequence_error));
    EXPECT_EQ(packets(1)[0].headers.bth.psn, start_psn[0]);
    EXPECT_TRUE(receives(1).empty());
    packet.elsewhere = nullptr;  // once more, with its bytes
    packet.payload = payload.bytes;
    receive(packet);
    EXPECT_EQ(receives(1).size(), 1u);
}

TEST_F(Asides, AWritesPayloadIsFetchedIntoItsPlace) {
    FakePayload payload;
    wire::Packet packet = message(3);
    packet.headers.bth.opcode = wire::Opcode::rc_write_only;
    packet.headers.reth = {side[1].address(5), side[1].keys.rkey, 3000};
    packet.elsewhere = &payload;
    payload.there = false;
    receive(packet);
    transmit(1, true);
    ASSERT_EQ(packets(1).size(), 1u);
    EXPECT_EQ(packets(1)[0].headers.aeth.syndrome, wire::nak(wire::NakCode::psn_sequence_error));
    payload.there = true;
    receive(packet);
    transmit(1, true);
    ASSERT_EQ(packets(1).size(), 2u);
    EXPECT_EQ(wire::classify(packets(1)[1].headers.aeth.syndrome), wire::AethKind::ack);
    const auto& memory = side[1].memory;
    EXPECT_EQ(std::count(memory.begin(), memory.end(), 7), 3000);
    EXPECT_EQ(memory[5] + memory[3004], 14);
}

TEST_F(Asides, AWritesPayloadThatItsSenderHasWrittenIsLeftAsItIs) {
    FakePayload payload;
    payload.written = 1;
    wire::Packet packet = message(3);
    packet.headers.bth.opcode = wire::Opcode::rc_write_only;
    packet.headers.reth = {side[1].address(), side[1].keys.rkey, 3000};
    packet.elsewhere = &payload;
    receive(packet);
    packet.headers.bth.psn = wire::psn_add(start_psn[0], 3);
    packet.headers.reth.rkey ^= 1;
    receive(packet);
    transmit(1, true);
    EXPECT_EQ(payload.sender, 0u);
    ASSERT_FALSE(packets(1).empty());
    EXPECT_EQ(packets(1).back().headers.aeth.syndrome, wire::nak(wire::NakCode::remote_access))
        << "its place is checked all the same";
}

TEST_F(Asides, ALengthThatDoesNotFitThePsnsIsRefused) {
    for (const std::size_t length : {2048u, 3073u}) {
        Harness other;
        other.start();
        other.post_receive(1, 9, {other.side[1].sge(0, 8000)});
        wire::Packet packet = message(3);
        const std::vector<std::uint8_t> bytes(length);
        packet.payload = bytes;
        memory::Section section(other.side[1].sections);
        other.side[1].qp->receive(packet, other.side[0].path, other.now);
        EXPECT_EQ(other.side[1].qp->state(), QpState::error);
    }
}

}  // namespace
}  // namespace verbena::transport::testing
