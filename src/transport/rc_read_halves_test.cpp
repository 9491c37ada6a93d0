// Large READs that both sides copy, a part each.
#include <gtest/gtest.h>

#include "transport/executing.h"
#include "transport/rc_harness.h"

namespace verbena::transport {
namespace {

using completion::Status;
using testing::Harness;
using testing::Sent;
using wire::Opcode;

class ReadHalves : public ::testing::Test, protected Harness {
   protected:
    static constexpr std::uint32_t kMtu = 4096, kLarge = 1 << 20;

    ReadHalves() {
        for (Attributes& a : attributes) a.path_mtu = kMtu;
        link.packets_faster = link.both = true;
        direct = &link;
        memory_size = 16 << 20;
        start();
        for (Side& s : side) s.largest = 32 << 10;
        fill(1, 0, memory_size, 1);
    }
    void read(std::size_t place, std::uint32_t length = kLarge) {
        ASSERT_EQ(post(0, request(Operation::rdma_read, place, place), {side[0].sge(place, length)}), 0);
    }
    // So many, of which nothing has left yet: one alone is executed.
    void read_some(std::size_t count, std::uint32_t length = kLarge) {
        for (std::size_t i = 0; i < count; i++) read(i * kLarge, length);
    }
    void settle() { run(100 * kMillisecond); }
    void expect_completed(std::size_t count) {
        const auto done = sends(0);
        ASSERT_EQ(done.size(), count);
        for (const auto& each : done) EXPECT_EQ(each.status, Status::success);
    }
    void expect_read(std::size_t count, std::uint32_t length = kLarge) {
        expect_completed(count);
        for (std::size_t i = 0; i < count; i++) EXPECT_TRUE(equal(i * kLarge, i * kLarge, length)) << i;
    }
    std::size_t payload_of_answers() const {
        std::size_t bytes = 0;
        for (const Sent& sent : packets(1)) bytes += sent.payload;
        return bytes;
    }

    Executing link;
};

TEST_F(ReadHalves, ThePeerWritesOneAndWeReadTheOther) {
    read_some(2);
    settle();
    expect_read(2);
    EXPECT_EQ(times_stored, 2u);
    ASSERT_EQ(link.halves.size(), 2u);
    EXPECT_GT(link.halves[0].length, kLarge / 4);
    EXPECT_GT(link.halves[0].offset, kLarge / 4);
    EXPECT_EQ(link.halves[0].offset + link.halves[0].length, kLarge);
    ASSERT_EQ(packets(0).size(), 2u);
    EXPECT_EQ(packets(0)[0].headers.reth.length, kLarge) << "all of it is asked for";
    EXPECT_EQ(packets(0)[0].aside.placed, side[0].keys.lkey);
    ASSERT_EQ(packets(1).size(), 2u);
    EXPECT_EQ(packets(1)[0].headers.bth.opcode, Opcode::rc_read_response_only);
    EXPECT_EQ(packets(1)[0].aside.psns, kLarge / kMtu);
    EXPECT_EQ(payload_of_answers(), 0u);
    EXPECT_EQ(side[0].qp->counters().bytes_received, 2 * kLarge);
}

TEST_F(ReadHalves, ARequestLeavesBeforeOurPartIsRead) {
    read_some(2);
    transmit(0, true);
    EXPECT_EQ(link.halves.size(), 1u) << "answers are looked for in between";
    EXPECT_EQ(packets(0).size(), 1u);
}

TEST_F(ReadHalves, OfALongOneInParts) {
    const std::uint32_t length = 3 * kLarge + 300'001;
    read(0, length);
    read(5 * kLarge, length);
    settle();
    expect_completed(2);
    EXPECT_TRUE(equal(0, 0, length));
    EXPECT_TRUE(equal(5 * kLarge, 5 * kLarge, length));
    EXPECT_EQ(link.halves.size(), 8u);
    EXPECT_EQ(times_stored, 8u);
    EXPECT_EQ(payload_of_answers(), 0u);
}

// Also of those that have to wait until there is room for them.
TEST_F(ReadHalves, OfAllThatArePosted) {
    constexpr std::size_t kCount = 60;
    for (std::size_t i = 0; i < kCount; i++) read(i % 16 * kLarge);
    settle();
    expect_completed(kCount);
    EXPECT_EQ(link.halves.size(), kCount);
    EXPECT_EQ(payload_of_answers(), 0u);
}

TEST_F(ReadHalves, AreNotOfShorterOnesNorOfSeveralElements) {
    read_some(2, kHalved - 1);
    settle();
    expect_read(2, kHalved - 1);
    for (unsigned i = 0; i < 2; i++)
        ASSERT_EQ(post(0, request(Operation::rdma_read, i, 0),
                       {side[0].sge(0, kLarge / 2), side[0].sge(kLarge / 2, kLarge / 2)}),
                  0);
    settle();
    expect_completed(2);
    EXPECT_TRUE(equal(0, 0, kLarge));
    EXPECT_TRUE(link.halves.empty());
    EXPECT_EQ(times_stored, 0u);
}

// Whose effect ours might miss.
TEST_F(ReadHalves, AreNotOfWhatIsBehindAWrite) {
    fill(0, 8 * kLarge, kLarge, 2);
    post_receive(1, 1, {side[1].sge(9 * kLarge, kLarge)});
    ASSERT_EQ(post(0, request(Operation::rdma_write_with_immediate, 0, 8 * kLarge),
                   {side[0].sge(8 * kLarge, kLarge)}),
              0);
    ASSERT_EQ(post(0, request(Operation::rdma_read, 1, 8 * kLarge), {side[0].sge(4 * kLarge, kLarge)}), 0);
    settle();
    expect_completed(2);
    EXPECT_TRUE(equal(4 * kLarge, 8 * kLarge, kLarge));
    EXPECT_TRUE(link.halves.empty());
    EXPECT_EQ(times_stored, 0u);
}

TEST_F(ReadHalves, WhatThePeerMayNotWriteTravels) {
    stores = false;
    read_some(2);
    settle();
    expect_read(2);
    EXPECT_EQ(payload_of_answers(), 2 * kLarge);
}

TEST_F(ReadHalves, WhatWeMayNotReadIsAskedForAgain) {
    read_some(2);
    link.willing = false;
    settle();
    expect_read(2);
    EXPECT_TRUE(link.halves.empty());
    EXPECT_GE(payload_of_answers(), 2 * kLarge);
}

TEST_F(ReadHalves, ALostRequestIsAskedForAgain) {
    filter = testing::lose(0, Opcode::rc_read_request);
    read_some(3);
    settle();
    expect_read(3);
}

TEST_F(ReadHalves, ALostAnswerIsAskedForAgainAndTravels) {
    for (int nth = 0; nth < 3; nth++) {
        fill(1, 0, memory_size, static_cast<unsigned>(nth + 1) << 20);
        log.clear();
        times_stored = 0;
        filter = testing::lose(1, Opcode::rc_read_response_only, nth);
        read_some(3);
        settle();
        filter = {};
        expect_read(3);
        EXPECT_GT(payload_of_answers(), 0u);
        EXPECT_LE(times_stored, 3u) << "none twice: its place may be the program's again";
    }
}

// It comes after the request was repeated, whose answer has the data.
TEST_F(ReadHalves, ALateAnswerIsNoHarm) {
    bool late = false;
    filter = [&](const Sent& sent) {
        const bool answer = sent.from == 1 && sent.headers.bth.opcode == Opcode::rc_read_response_only;
        return answer && !std::exchange(late, true) ? testing::Fate{30 * kMillisecond} : testing::kDeliver;
    };
    read_some(3);
    settle();
    EXPECT_TRUE(late);
    expect_read(3);
}

TEST_F(ReadHalves, ARepeatedRequestWritesNothing) {
    filter = [&](const Sent& sent) {
        return sent.from == 0 ? testing::Fate{0, kMillisecond} : testing::kDeliver;
    };
    read_some(2);
    settle();
    expect_read(2);
    EXPECT_EQ(times_stored, 2u);
}

TEST_F(ReadHalves, ARefusedOneIsToldByThePeer) {
    read(0);
    SendRequest r = request(Operation::rdma_read, 7, kLarge);
    r.rkey ^= 0x5a;
    ASSERT_EQ(post(0, r, {side[0].sge(kLarge, kLarge)}), 0);
    settle();
    const auto done = sends(0);
    ASSERT_EQ(done.size(), 2u);
    EXPECT_EQ(done[0].status, Status::success);
    EXPECT_EQ(done[1].status, Status::remote_access_error);
}

TEST_F(ReadHalves, NobodyWritesWhenTheyAreFlushed) {
    EXPECT_FALSE(side[0].shown.takes_answers());
    read_some(2);
    transmit(0, true);
    EXPECT_TRUE(side[0].shown.takes_answers());
    modify(0, QpState::error);
    EXPECT_FALSE(side[0].shown.takes_answers());
    EXPECT_EQ(sends(0).size(), 2u);
}

// A capture begins, say, which sees only packets.
TEST_F(ReadHalves, AnAnswerHasItsPayloadWhereOnlyPacketsLeave) {
    read_some(2);
    transmit(0, true);
    side[0].largest = side[1].largest = 0;
    settle();
    expect_read(2);
    EXPECT_EQ(payload_of_answers(), 2 * kLarge);
}

TEST_F(ReadHalves, WhoEndsFirstGetsMore) {
    const auto ours = [&](bool behind) {
        link.behind = behind;
        for (unsigned n = 0; n < 10; n++) {
            read_some(8);
            settle();
            expect_completed(8);
        }
        return link.halves.back().length;
    };
    EXPECT_NEAR(static_cast<double>(ours(true)), 0.75 * kLarge, 2 * kMtu);
    EXPECT_NEAR(static_cast<double>(ours(false)), 0.25 * kLarge, 2 * kMtu);
}

}  // namespace
}  // namespace verbena::transport
