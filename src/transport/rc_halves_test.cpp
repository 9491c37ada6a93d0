// Large messages that both sides copy, a part each.
#include <gtest/gtest.h>

#include "transport/executing.h"
#include "transport/rc_harness.h"

namespace verbena::transport {
namespace {

using testing::Harness;
using testing::Sent;
using wire::Opcode;

class Halves : public ::testing::Test, protected Harness {
   protected:
    static constexpr std::uint32_t kMtu = 4096, kLarge = 1 << 20;

    // With the receives that the peer shows.
    struct Link final : Executing {
        explicit Link(Harness& harness) : h(harness) { packets_faster = fetching_faster = both = true; }
        std::optional<ShownReceives::Next> shown(const wire::Path&, std::uint32_t) override {
            return h.side[1].shown.next(h.side[1].qp->counters().messages_received);
        }
        Direct place(const PlaceTarget& target, std::span<const iovec> from) override {
            const auto receive = h.side[1].shown.find(target.receive);
            if (!receive) return Direct::not_yet;
            copy(reinterpret_cast<std::uint8_t*>(receive->address) + target.offset, from, false);
            placed.push_back({target.offset, length_of(from)});
            return Direct::done;
        }
        Harness& h;
        std::vector<Half> placed;
    };

    Halves() {
        for (Attributes& a : attributes) a.path_mtu = kMtu;
        direct = &link;
        fetches = true;
        memory_size = 16 << 20;
        start();
        for (Side& s : side) s.largest = 1 << 20;
        fill(0, 0, memory_size, 1);
    }
    void write(std::size_t place, std::uint32_t length = kLarge, std::uint32_t flags = kSignaled) {
        ASSERT_EQ(post(0, request(Operation::rdma_write, place, place, flags), {side[0].sge(place, length)}),
                  0);
    }
    // So many, of which nothing has left yet.
    void write_some(std::size_t count, std::uint32_t length = kLarge) {
        for (std::size_t i = 0; i < count; i++) write(i * kLarge, length);
    }
    void send(std::uint32_t length = kLarge) {
        SendRequest r;
        r.operation = Operation::send;
        r.flags = kSignaled;
        ASSERT_EQ(post(0, r, {side[0].sge(0, length)}), 0);
    }
    void open_window() {
        for (unsigned n = 0; n < 4; n++) {
            write_some(8);
            settle();
            expect_completed(8);
        }
        fill(0, 0, memory_size, 1u << 20);
        link.halves.clear();
        log.clear();
    }
    void settle() { run(100 * kMillisecond); }
    void expect_completed(std::size_t count) {
        const auto done = sends(0);
        ASSERT_EQ(done.size(), count);
        for (const auto& each : done) EXPECT_EQ(each.status, completion::Status::success);
    }

    Link link{*this};
};

TEST_F(Halves, OfAWriteThePeerFetchesOneAndWeWriteTheOther) {
    write_some(2);
    settle();
    expect_completed(2);
    EXPECT_TRUE(equal(0, 0, 2 * kLarge));
    ASSERT_EQ(link.halves.size(), 2u);
    const auto sent = packets(0);
    ASSERT_EQ(sent.size(), 6u);
    EXPECT_EQ(sent[0].headers.bth.opcode, Opcode::rc_write_first);
    EXPECT_TRUE(sent[0].aside.stays);
    EXPECT_EQ(sent[0].aside.placed, 0u);
    EXPECT_EQ(sent[1].headers.bth.opcode, Opcode::rc_write_middle);
    EXPECT_NE(sent[1].aside.placed, 0u);
    EXPECT_EQ(link.halves[0].offset, sent[0].payload);
    EXPECT_EQ(link.halves[0].length, sent[1].payload);
    EXPECT_EQ(sent[2].headers.bth.opcode, Opcode::rc_write_last);
    EXPECT_EQ(sent[2].payload, kMtu);
    EXPECT_EQ(sent[2].aside.placed, 0u);
    EXPECT_GT(sent[0].payload, kLarge / 4);
    EXPECT_GT(sent[1].payload, kLarge / 4);
}

TEST_F(Halves, AreNotOfWhatIsExecuted) {
    write(0);
    settle();
    link.packets_faster = false;
    write_some(3);
    settle();
    expect_completed(4);
    EXPECT_TRUE(link.halves.empty());
    EXPECT_TRUE(log.empty());
}

TEST_F(Halves, AreNotOfShorterOrOtherOnes) {
    write_some(2, kHalved - 1);
    settle();
    SendRequest r = request(Operation::rdma_write_with_immediate);
    post_receive(1, 1, {});
    ASSERT_EQ(post(0, r, {side[0].sge(0, kLarge)}), 0);
    settle();
    link.both = false;
    write_some(2);
    settle();
    expect_completed(5);
    EXPECT_TRUE(link.halves.empty());
    EXPECT_EQ(times_fetched, 0u);
}

// Neither a later WRITE before an earlier request, nor the last word before the others.
TEST_F(Halves, OrderIsThatOfWhatIsExecuted) {
    open_window();
    write_some(3);
    std::size_t seen = 0;
    const auto look = [&] {
        for (std::size_t i = 0; i < 3; i++) {
            const std::size_t end = (i + 1) * kLarge;
            if (std::memcmp(side[0].memory.data() + end - 8, side[1].memory.data() + end - 8, 8) != 0) break;
            EXPECT_TRUE(equal(0, 0, end)) << i;
            seen = std::max(seen, i + 1);
        }
        EXPECT_LE(link.halves.size(), seen + 1);
    };
    after_step = look;
    transmit(0, true);
    EXPECT_EQ(link.halves.size(), 1u);
    EXPECT_EQ(packets(0).back().headers.bth.opcode, Opcode::rc_write_first) << "the next one's beginning";
    EXPECT_EQ(packets(0).size(), 4u);
    settle();
    expect_completed(3);
    EXPECT_EQ(seen, 3u);
}

TEST_F(Halves, OfALongMessageTakeTurns) {
    const std::uint32_t length = 5 * kLarge + 12'345;
    write(3, length);
    write(3, length);
    settle();
    expect_completed(2);
    EXPECT_TRUE(equal(3, 3, length));
    EXPECT_EQ(link.halves.size(), 10u);
    EXPECT_GE(times_fetched, 10u);
}

TEST_F(Halves, WhoEndsFirstGetsMore) {
    const auto ours = [&](bool behind) {
        link.behind = behind;
        for (unsigned n = 0; n < 10; n++) {
            write_some(8);
            settle();
            expect_completed(8);
        }
        return link.halves.back().length;
    };
    const std::size_t most = ours(true), least = ours(false);
    EXPECT_NEAR(static_cast<double>(most), 0.75 * kLarge, 2 * kMtu);
    EXPECT_NEAR(static_cast<double>(least), 0.25 * kLarge, 2 * kMtu);
}

TEST_F(Halves, WhatWeMayNotWriteIsFetched) {
    write_some(2);
    link.willing = false;
    settle();
    expect_completed(2);
    EXPECT_TRUE(equal(0, 0, 2 * kLarge));
    EXPECT_TRUE(link.halves.empty());
    EXPECT_GE(times_fetched, 2u);
}

TEST_F(Halves, WhatIsSentAgainTravels) {
    for (const Opcode lost : {Opcode::rc_write_first, Opcode::rc_write_middle, Opcode::rc_write_last}) {
        fill(0, 0, memory_size, static_cast<unsigned>(lost) << 20);
        log.clear();
        filter = testing::lose(0, lost);
        write_some(3);
        settle();
        filter = {};
        expect_completed(3);
        EXPECT_TRUE(equal(0, 0, 3 * kLarge));
        std::uint32_t end = 0;
        for (const Sent& sent : packets(0)) {
            const bool again = end != 0 && wire::psn_less(sent.headers.bth.psn, end);
            EXPECT_FALSE(again && sent.payload > kMtu && (sent.aside.stays || sent.aside.placed));
            const std::uint32_t behind = wire::psn_add(sent.headers.bth.psn, sent.aside.psns);
            if (!again) end = behind;
        }
    }
}

TEST_F(Halves, ARefusedOneIsToldByThePeer) {
    write_some(1);
    SendRequest r = request(Operation::rdma_write, 7);
    r.rkey ^= 0x5a;
    ASSERT_EQ(post(0, r, {side[0].sge(0, kLarge)}), 0);
    settle();
    const auto done = sends(0);
    ASSERT_EQ(done.size(), 2u);
    EXPECT_EQ(done[0].status, completion::Status::success);
    EXPECT_EQ(done[1].status, completion::Status::remote_access_error);
}

TEST_F(Halves, OfASendGoIntoAReceiveThatIsShown) {
    constexpr unsigned kCount = 6;
    for (unsigned i = 0; i < kCount; i++) post_receive(1, i, {side[1].sge(i * kLarge, kLarge)});
    for (unsigned i = 0; i < kCount; i++) send();
    settle();
    expect_completed(kCount);
    ASSERT_EQ(receives(1).size(), kCount);
    for (unsigned i = 0; i < kCount; i++) EXPECT_TRUE(equal(0, i * kLarge, kLarge)) << i;
    ASSERT_GE(link.placed.size(), 3u);
    for (const auto& half : link.placed) {
        EXPECT_GT(half.offset, kLarge / 4);
        EXPECT_EQ(half.offset + half.length, kLarge);
    }
}

// Nothing is known of receives that are not shown: nobody waits for them.
TEST_F(Halves, ASendIsFetchedWholeWhereNoReceiveIsShown) {
    for (unsigned i = 0; i < 3; i++) {
        post_receive(1, i, {side[1].sge(0, kLarge)});
        log.clear();
        send();
        settle();
        EXPECT_TRUE(link.placed.empty());
        EXPECT_EQ(packets(0).size(), i == 0 ? 1u : 2u) << "the second is halved, and its other half fetched";
        expect_completed(1);
    }
}

TEST_F(Halves, ASendBehindAWriteDoesNotWaitForIt) {
    for (unsigned i = 0; i < 4; i++) post_receive(1, i, {side[1].sge(8 * kLarge, kLarge)});
    send();
    settle();
    expect_completed(1);
    open_window();
    write(kLarge);
    send();
    for (unsigned i = 0; i < 2; i++) transmit(0, true);
    EXPECT_EQ(link.halves.size(), 1u);
    EXPECT_EQ(packets(0).back().headers.bth.opcode, Opcode::rc_send_last);
    settle();
    EXPECT_TRUE(link.placed.empty()) << "fetched, since it is behind something else";
    expect_completed(2);
    EXPECT_TRUE(equal(0, 8 * kLarge, kLarge));
}

// It left in parts, and is repeated whole: of which the peer has the first already.
TEST_F(Halves, WhatLeftInPartsIsRepeatedWhole) {
    for (unsigned i = 0; i < 2; i++) post_receive(1, i, {side[1].sge(0, 2 * kLarge)});
    send();
    settle();
    expect_completed(1);
    link.willing = false;
    ASSERT_EQ(post(0, request(Operation::rdma_read, 1, 0), {side[0].sge(8 * kLarge, 100)}), 0);
    send(kLarge + 150'000);
    filter = testing::lose(1, Opcode::rc_read_response_only);
    run();
    expect_completed(2);
    EXPECT_EQ(receives(1).size(), 2u);
    EXPECT_TRUE(equal(0, 0, kLarge + 150'000));
}

TEST_F(Halves, OfWhatIsBehindTheLastMiBToo) {
    const std::uint32_t length = kLarge + kLarge / 2;
    write(0, length);
    write(0, length);
    settle();
    expect_completed(2);
    EXPECT_TRUE(equal(0, 0, length));
    ASSERT_EQ(link.halves.size(), 4u);
    EXPECT_GT(link.halves[1].length, kLarge / 8);
    EXPECT_GT(link.halves[1].offset, kLarge);
}

// The last aligned word in one piece, whatever lies in the last packet.
TEST_F(Halves, TheLastWordTravels) {
    for (std::uint32_t more = 1; more < 10; more++) {
        log.clear();
        write(3, kLarge + more);
        write(3, kLarge + more);
        settle();
        expect_completed(2);
        EXPECT_TRUE(equal(3, 3, kLarge + more));
        const Sent last = packets(0).back();
        EXPECT_EQ(last.aside.psns, more < 8 ? 2u : 1u);
        EXPECT_EQ(last.aside.placed, 0u);
        EXPECT_GE(last.payload, 8u);
    }
}

// Its receive may overlap one that the peer is still at work on.
TEST_F(Halves, ASendWaitsForTheOneBefore) {
    for (unsigned i = 0; i < 4; i++) post_receive(1, i, {side[1].sge(0, kLarge)});
    send();
    settle();
    ASSERT_TRUE(link.placed.empty()) << "nothing was shown";
    for (unsigned i = 0; i < 3; i++) send();
    std::size_t most = 0;
    const std::uint64_t before = side[1].qp->counters().messages_received;
    after_step = [&] {
        most = std::max(most, link.placed.size() - static_cast<std::size_t>(
                                                       side[1].qp->counters().messages_received - before));
    };
    transmit(0, true);
    EXPECT_EQ(link.placed.size(), 1u);
    settle();
    EXPECT_LE(most, 1u);
    EXPECT_EQ(link.placed.size(), 3u);
    expect_completed(4);
}

}  // namespace
}  // namespace verbena::transport
