// Packets that come again, late or from another connection: what is executed, answered and remembered.
#include <gtest/gtest.h>

#include "transport/rc_harness.h"

namespace verbena::transport::testing {
namespace {

using completion::Status;
using wire::Opcode;

TEST(Duplicates, AtomicIsReplayedNotReexecuted) {
    Harness h;
    h.start();
    h.filter = lose(1, Opcode::rc_atomic_ack);
    SendRequest add = h.request(Operation::fetch_add, 1, 64);
    add.compare_add = 5;
    ASSERT_EQ(h.post(0, add, {h.side[0].sge(0, 8)}), 0);
    h.run();
    ASSERT_EQ(h.sends(0).size(), 1u);
    EXPECT_EQ(count(h, 0, Opcode::rc_fetch_add), 2);
    std::uint64_t value;
    std::memcpy(&value, h.side[1].memory.data() + 64, 8);
    EXPECT_EQ(value, 5u);
    std::memcpy(&value, h.side[0].memory.data(), 8);
    EXPECT_EQ(value, 0u);
}

TEST(Duplicates, WriteDoesNotTouchMemoryAgain) {
    Harness h;
    h.start();
    h.fill(0, 0, 64, 1);
    h.filter = lose(1, Opcode::rc_ack);
    ASSERT_EQ(h.post(0, h.request(Operation::rdma_write), {h.side[0].sge(0, 64)}), 0);
    h.run(1 * kMillisecond);
    EXPECT_TRUE(h.equal(0, 0, 64));
    std::memset(h.side[1].memory.data(), 0xee, 64);
    h.run();
    ASSERT_EQ(h.sends(0).size(), 1u);
    EXPECT_EQ(count(h, 0, Opcode::rc_write_only), 2);
    EXPECT_EQ(h.side[1].memory[0], 0xee);
}

TEST(Duplicates, ReadOutsideTheOriginalIsDropped) {
    Harness h;
    h.start();
    ASSERT_EQ(h.post(0, h.request(Operation::rdma_read), {h.side[0].sge(0, 2048)}), 0);
    h.run();
    const std::size_t answers = h.packets(1).size();
    wire::Headers headers;
    headers.bth.opcode = Opcode::rc_read_request;
    headers.bth.psn = h.start_psn[0] + 1;
    headers.reth = {h.side[1].address(1024), h.side[1].keys.rkey, 1025};
    h.inject(1, headers);
    headers.reth = {h.side[1].address(0), h.side[1].keys.rkey, 1024};
    h.inject(1, headers);
    headers.bth.psn = h.start_psn[0] - 5;
    h.inject(1, headers);
    h.transmit(1, true);
    EXPECT_EQ(h.packets(1).size(), answers);
    headers.bth.psn = h.start_psn[0] + 1;
    headers.reth = {h.side[1].address(1024), h.side[1].keys.rkey, 1024};
    h.inject(1, headers);
    h.transmit(1, true);
    ASSERT_EQ(h.packets(1).size(), answers + 1);
    EXPECT_EQ(h.packets(1).back().headers.bth.opcode, Opcode::rc_read_response_only);
    EXPECT_EQ(h.side[1].qp->state(), QpState::rts);
}

// The READ has long been answered, and its key is gone meanwhile.
TEST(Duplicates, ALateReadWhoseKeyIsGoneHarmsNothing) {
    Harness h;
    h.start();
    h.post_receive(1, 7, {h.side[1].sge(0, 64)});
    ASSERT_EQ(h.post(0, h.request(Operation::rdma_read), {h.side[0].sge(0, 2048)}), 0);
    h.run();
    ASSERT_EQ(h.sends(0).size(), 1u);
    wire::Headers headers;
    headers.bth.opcode = Opcode::rc_read_request;
    headers.bth.psn = h.start_psn[0];
    headers.reth = {h.side[1].address(), h.side[1].keys.rkey, 2048};
    h.inject(1, headers);
    SendRequest send = h.request(Operation::send_with_invalidate);
    send.immediate_or_key = h.side[1].keys.rkey;
    ASSERT_EQ(h.post(0, send, {h.side[0].sge(0, 8)}), 0);
    headers.bth.opcode = Opcode::rc_send_only_invalidate;
    headers.bth.psn = h.start_psn[0] + 2;
    headers.bth.ack_request = true;
    headers.invalidate_rkey = send.immediate_or_key;
    h.inject(1, headers, std::vector<std::uint8_t>(8));  // comes before the READ is answered again
    const std::size_t before = h.packets(1).size();
    h.run(1 * kMillisecond);
    const auto answers = h.packets(1);
    ASSERT_GE(answers.size(), before + 2);
    EXPECT_EQ(answers[before].headers.aeth.syndrome, 0x62);  // for who really misses it
    EXPECT_EQ(answers[before].headers.bth.psn, h.start_psn[0]);
    EXPECT_EQ(answers[before + 1].headers.aeth.syndrome, 0x1f);
    EXPECT_EQ(answers[before + 1].headers.bth.psn, h.start_psn[0] + 2);
    EXPECT_EQ(h.sends(0).at(0).status, Status::success);
    EXPECT_EQ(h.receives(1).size(), 1u);
    for (const auto& side : h.side) {
        EXPECT_EQ(side.qp->state(), QpState::rts);
        EXPECT_TRUE(side.events.empty());
    }
}

// max_dest_rd_atomic may change while answers are owed, and must not lose what duplicates need.
TEST(Duplicates, AnotherNumberOfResourcesKeepsWhatIsOwed) {
    for (const std::uint8_t number : {8, 1}) {
        Harness h;
        h.start();
        h.side[1].memory[64] = 3;
        const auto resize = [&] {
            ASSERT_EQ(h.modify(1, QpState::sqd), 0);
            h.attributes[1].max_destination_rd_atomic = number;
            ASSERT_EQ(h.modify(1, QpState::sqd, kAttrState | kAttrMaxDestRdAtomic), 0);
        };
        // Three READs arrive, of which none is answered, and an atomic.
        for (std::uint64_t n = 0; n < 3; n++)
            ASSERT_EQ(h.post(0, h.request(Operation::rdma_read, n, 64), {h.side[0].sge(n * 8, 8)}), 0);
        SendRequest add = h.request(Operation::fetch_add, 3, 64);
        add.compare_add = 1;
        ASSERT_EQ(h.post(0, add, {h.side[0].sge(100 * 8, 8)}), 0);
        h.transmit(0, true);
        for (const Sent& sent : h.packets(0)) {
            wire::Headers headers = sent.headers;
            h.inject(1, headers);
        }
        resize();
        h.run();
        const auto done = h.sends(0);
        ASSERT_EQ(done.size(), 4u);
        for (std::uint64_t n = 0; n < 4; n++) EXPECT_EQ(done[n].wr_id, n);
        EXPECT_EQ(h.side[0].memory[16], 4) << "all were executed before the first was answered";
        EXPECT_EQ(h.side[1].memory[64], 4);
        // Nothing is owed now: the newest, the atomic, is still known.
        resize();
        wire::Headers again = h.packets(0)[3].headers;
        ASSERT_EQ(again.bth.opcode, Opcode::rc_fetch_add);
        const std::size_t before = h.packets(1).size();
        h.inject(1, again);
        h.transmit(1, true);
        ASSERT_EQ(h.packets(1).size(), before + 1);
        EXPECT_EQ(h.packets(1).back().headers.atomic_ack, 3u);
        EXPECT_EQ(h.side[1].memory[64], 4);
    }
}

TEST(Duplicates, GhostAcknowledgementsSayNothing) {
    Harness h;
    h.start();
    h.filter = [](const Sent& s) { return s.from == 0 ? kDrop : kDeliver; };
    ASSERT_EQ(h.post(0, h.request(Operation::rdma_write), {h.side[0].sge(0, 64)}), 0);
    h.transmit(0, false);
    wire::Headers headers;
    headers.bth.opcode = Opcode::rc_ack;
    headers.aeth.syndrome = 0x1f;
    for (std::uint32_t psn : {h.start_psn[0] - 1, h.start_psn[0] + 1, h.start_psn[0] + 0x700000}) {
        headers.bth.psn = psn;
        h.inject(0, headers);
    }
    EXPECT_TRUE(h.sends(0).empty());
    headers.bth.psn = h.start_psn[0];
    h.inject(0, headers);
    EXPECT_EQ(h.sends(0).size(), 1u);
}

}  // namespace
}  // namespace verbena::transport::testing
