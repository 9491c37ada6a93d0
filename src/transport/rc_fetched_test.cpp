// SENDs whose payload the peer fetches from where it lies: which, how many at a time, and what is measured.
#include <gtest/gtest.h>

#include "transport/executing.h"
#include "transport/packet_pace.h"
#include "transport/rc_harness.h"
#include "transport/rc_responder.h"

namespace verbena::transport {
namespace {

using testing::Harness;
using testing::Sent;

class Fetched : public ::testing::Test, protected Harness {
   protected:
    static constexpr std::uint32_t kLarge = 64 << 10;

    Fetched() {
        link.fetching_faster = true;
        direct = &link;
        memory_size = 2 << 20;
        start();
        for (Side& s : side) s.largest = kLarge;
    }
    void send(std::uint32_t length) {
        SendRequest request;
        request.operation = Operation::send;
        request.flags = kSignaled;
        ASSERT_EQ(post(0, request, {side[0].sge(0, length)}), 0);
    }
    void send_some(unsigned count, std::uint32_t length = kLarge) {
        for (unsigned i = 0; i < count; i++) {
            post_receive(1, i, {side[1].sge(0, length)});
            send(length);
        }
    }
    void settle() { run(100 * kMillisecond); }
    void receive(const wire::Packet& packet) {
        memory::Section section(side[1].sections);
        side[1].qp->receive(packet, side[0].path, now);
    }
    void open_window() {
        for (unsigned n = 0; n < 8; n++) {
            send_some(16);
            settle();
            ASSERT_EQ(sends(0).size(), 16u);
            ASSERT_EQ(receives(1).size(), 16u);
        }
        log.clear();
        link.samples.clear();
    }

    Executing link;
};

TEST_F(Fetched, IsWhatTheLinkSaysIsFaster) {
    for (const bool faster : {true, false}) {
        link.fetching_faster = faster;
        log.clear();
        send_some(1);
        settle();
        ASSERT_EQ(packets(0).size(), 1u);
        EXPECT_EQ(packets(0)[0].aside.stays, faster);
    }
}

TEST_F(Fetched, IsNothingInline) {
    Harness small;
    small.attributes[0].path_mtu = small.attributes[1].path_mtu = 256;
    small.capabilities.max_inline_data = 600;
    small.direct = &link;
    small.start();
    for (Side& s : small.side) s.largest = kLarge;
    small.post_receive(1, 1, {small.side[1].sge(0, 1000)});
    SendRequest request;
    request.operation = Operation::send;
    request.flags = kSignaled | kInline;
    ASSERT_EQ(small.post(0, request, {small.side[0].sge(0, 600)}), 0);
    small.run(100 * kMillisecond);
    ASSERT_EQ(small.packets(0).size(), 1u);
    EXPECT_EQ(small.packets(0)[0].aside.psns, 3u);
    EXPECT_FALSE(small.packets(0)[0].aside.stays);
}

TEST_F(Fetched, IsNoWrite) {
    SendRequest r = request(Operation::rdma_write);
    link.willing = false;
    ASSERT_EQ(post(0, r, {side[0].sge(0, kLarge)}), 0);
    settle();
    ASSERT_EQ(packets(0).size(), 1u);
    EXPECT_FALSE(packets(0)[0].aside.stays);
}

TEST_F(Fetched, AMessageKeepsItsWay) {
    post_receive(1, 1, {side[1].sge(0, 4 * kLarge)});
    send(4 * kLarge);
    transmit(0, true);
    ASSERT_GE(packets(0).size(), 1u);
    link.fetching_faster = false;
    settle();
    ASSERT_EQ(packets(0).size(), 4u);
    for (const auto& packet : packets(0)) EXPECT_TRUE(packet.aside.stays);
}

// The peer found that it cannot, and asked for the rest once more.
TEST_F(Fetched, WhatIsLeftOfADeclinedMessageIsCopied) {
    post_receive(1, 1, {side[1].sge(0, 4 * kLarge)});
    send(4 * kLarge);
    filter = [&](const Sent& sent) {
        return sent.from == 0 && packets(0).size() == 2 ? testing::kDrop : testing::kDeliver;
    };
    settle();
    ASSERT_EQ(sends(0).size(), 1u);
    const auto sent = packets(0);
    ASSERT_GT(sent.size(), 4u);
    EXPECT_TRUE(sent.front().aside.stays);
    EXPECT_FALSE(sent.back().aside.stays);
}

TEST_F(Fetched, TakesLittleOfTheWindow) {
    open_window();
    send_some(60);
    transmit(0, true);
    const std::size_t fetched = packets(0).size();
    settle();
    ASSERT_EQ(sends(0).size(), 60u);
    ASSERT_EQ(receives(1).size(), 60u);
    log.clear();
    link.fetching_faster = false;
    send_some(60);
    transmit(0, true);
    EXPECT_GT(fetched, 30u);
    EXPECT_LT(packets(0).size(), 10u);
}

TEST_F(Fetched, BothWaysAreMeasured) {
    for (const bool faster : {true, false}) {
        link.fetching_faster = faster;
        open_window();
        std::size_t left = 128;
        after_step = [&] {
            receives(1);
            for (std::size_t done = sends(0).size(); done > 0 && left > 0; done--, left--) send_some(1);
        };
        for (unsigned n = 0; n < 16; n++) {  // so that their answers do not come together
            send_some(1);
            run(2 * kMicrosecond);
        }
        settle();
        after_step = nullptr;
        ASSERT_EQ(left, 0u);
        ASSERT_GE(link.samples.size(), 1u);
        for (const auto& sample : link.samples) {
            EXPECT_EQ(sample.way, faster ? PacketPace::Way::fetched : PacketPace::Way::copied);
            EXPECT_EQ(sample.length, kLarge);
        }
    }
}

// Each after the acknowledgement of the one before.
TEST_F(Fetched, WhatComesOneByOneIsMeasuredToo) {
    straight = true;
    for (unsigned n = 0; n < 64; n++) {
        send_some(1);
        run(50 * kMicrosecond);
        ASSERT_EQ(sends(0).size(), 1u);
        ASSERT_EQ(receives(1).size(), 1u);
    }
    ASSERT_GE(link.samples.size(), 2u);
    for (const auto& sample : link.samples) {
        EXPECT_EQ(sample.way, PacketPace::Way::fetched);
        EXPECT_EQ(sample.length, kLarge);
        EXPECT_TRUE(sample.rounds);
    }
    EXPECT_EQ(link.asked_alone, 64u);
    EXPECT_EQ(link.asked_among_others, 0u);
}

// It is fetched and kept, as what came with its packet is (rc_responder.h).
TEST_F(Fetched, OneThatComesBeforeItsReceiveWaitsForIt) {
    fetches = true;
    attributes[0].rnr_retry = attributes[0].retry_count = 0;
    attributes[1].min_rnr_timer = 0;  // 655 ms
    start();
    fill(0, 0, kLarge, 1);
    send(kLarge);
    run(kReceiverPatience - kReceiverPatienceStep);
    EXPECT_EQ(packets(1).size(), 0u);
    post_receive(1, 7, {side[1].sge(0, kLarge)});
    settle();
    ASSERT_EQ(sends(0).size(), 1u);
    EXPECT_EQ(sends(0)[0].status, completion::Status::success);
    ASSERT_EQ(receives(1).size(), 1u);
    EXPECT_TRUE(equal(0, 0, kLarge));
    EXPECT_EQ(side[1].qp->counters().rnr_naks_sent, 0u);
}

// A SEND of three packets in one, whose payload is to be had, or not.
struct Lying final : wire::Elsewhere {
    explicit Lying(bool there) : there_(there) {}
    std::size_t length() const override { return 3000; }
    bool fetch(std::uint32_t, std::span<const iovec>) override { return there_; }
    void decline() override {}
    wire::Packet packet(std::uint32_t psn) {
        wire::Packet packet;
        packet.headers.bth.opcode = wire::Opcode::rc_send_only;
        packet.headers.bth.psn = psn;
        packet.headers.bth.destination_qp = 0x1001;
        packet.headers.bth.ack_request = true;
        packet.aside.psns = 3;
        packet.elsewhere = this;
        return packet;
    }

   private:
    const bool there_;
};

// What cannot be fetched is lost, and comes again by itself: not an RNR NAK, which a sender may not repeat.
TEST_F(Fetched, OneThatCannotBeKeptIsAskedForAgain) {
    Lying payload(false);
    receive(payload.packet(start_psn[0]));
    transmit(1, false);
    ASSERT_EQ(packets(1).size(), 1u);
    EXPECT_EQ(packets(1)[0].headers.aeth.syndrome, wire::nak(wire::NakCode::psn_sequence_error));
}

TEST_F(Fetched, WhatIsFetchedIsAcknowledgedAtOnce) {
    for (const bool in_time : {true, false}) {
        log.clear();
        start();
        Lying payload(true);
        if (in_time) post_receive(1, 9, {side[1].sge(0, 4000)});
        receive(payload.packet(start_psn[0]));
        if (!in_time) {
            post_receive(1, 9, {side[1].sge(0, 4000)});
            now += kReceiverPatienceStep;
            transmit(1, false);  // finds the receive, and executes what was kept
        }
        transmit(1, false);  // while others wait for a better moment
        ASSERT_EQ(packets(1).size(), 1u) << in_time;
        EXPECT_EQ(packets(1)[0].headers.bth.opcode, wire::Opcode::rc_ack);
        EXPECT_EQ(packets(1)[0].headers.aeth.syndrome & 0xe0, 0) << "a NAK";
    }
}

}  // namespace
}  // namespace verbena::transport
