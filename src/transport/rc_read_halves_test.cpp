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
    EXPECT_EQ(ShownReceives::lkey_of(packets(0)[0].aside.placed), side[0].keys.lkey);
    ASSERT_EQ(packets(1).size(), 2u);
    EXPECT_EQ(packets(1)[0].headers.bth.opcode, Opcode::rc_read_response_only);
    EXPECT_EQ(packets(1)[0].aside.psns, kLarge / kMtu);
    EXPECT_EQ(payload_of_answers(), 0u);
    EXPECT_EQ(side[0].qp->counters().bytes_received, 2 * kLarge);
    EXPECT_EQ(side[0].qp->counters().bytes_sent, 0u);
    EXPECT_EQ(side[1].qp->counters().bytes_sent, 2 * kLarge);
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

// What is left of it may be less than is worth dividing.
TEST_F(ReadHalves, OfWhatIsBehindTheLastMiBToo) {
    for (const std::uint32_t more :
         {1u, 100u, kMtu - 8, kMtu, kMtu + 1, 2 * kMtu, 3 * kMtu, 9 * kMtu, 16 * kMtu, 64 * kMtu + 3}) {
        log.clear();
        read_some(1, 2 * kLarge + more);
        read(4 * kLarge, 2 * kLarge + more);
        settle();
        expect_completed(2);
        EXPECT_TRUE(equal(0, 0, 2 * kLarge + more)) << more;
        EXPECT_TRUE(equal(4 * kLarge, 4 * kLarge, 2 * kLarge + more)) << more;
        EXPECT_EQ(payload_of_answers(), more > 20 * kMtu ? 0u : 2 * more) << more;
        EXPECT_EQ(count(*this, 0, Opcode::rc_read_request), 6) << more;
        fill(0, 0, memory_size, 77 + more);
    }
}

// Who posts them so expects the last one's data to lie on top. The peer is slow: when it comes to one, our
// part of the next has been read.
class ReadsOver : public ReadHalves {
   protected:
    ReadsOver() {
        filter = [](const Sent& sent) {
            return sent.from == 0 ? testing::Fate{5 * testing::kOneWay} : testing::kDeliver;
        };
    }
    // So many, each so far behind the one before.
    void read_all(std::size_t count, std::size_t step) {
        for (std::size_t i = 0; i < count; i++)
            ASSERT_EQ(post(0, request(Operation::rdma_read, i, i * kLarge), {side[0].sge(i * step, kLarge)}),
                      0);
        settle();
        expect_completed(count);
        const std::size_t last = count - 1;
        EXPECT_TRUE(equal(last * step, last * kLarge, kLarge));
        for (std::size_t i = 0; i < last; i++) EXPECT_TRUE(equal(i * step, i * kLarge, step)) << i;
    }
};

TEST_F(ReadsOver, TheSamePlaceWhoeverEndsFirst) {
    for (std::size_t n = 0; n < 16; n++) {
        link.behind = n < 8;
        link.halves.clear();
        read_all(13, 0);
        EXPECT_EQ(link.halves.size(), 13u);
    }
}

TEST_F(ReadsOver, APartOfTheOneBefore) {
    for (unsigned n = 0; n < 8; n++) {
        link.behind = n % 2;
        read_all(6, (n + 1) * kMtu);
    }
    EXPECT_EQ(link.halves.size(), 8 * 6u);
}

TEST_F(ReadsOver, TheSamePlaceAndOneTravels) {
    for (unsigned refused = 0; refused < 4; refused++)
        for (std::size_t count = 2; count < 6; count++) {
            fill(1, 0, memory_size, static_cast<unsigned>(count + 8 * refused) << 16);
            stores = [refused, n = 0u]() mutable { return n++ != refused; };
            read_all(count, 0);
        }
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
    stores = [] { return false; };
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
    EXPECT_EQ(times_stored, 1u) << "it was found out by the first";
    log.clear();
    read_some(4);
    settle();
    expect_read(4);
    EXPECT_EQ(times_stored, 1u);
    EXPECT_EQ(count(*this, 0, Opcode::rc_read_request), static_cast<int>(4 * kLarge / (kLarge / 8)));
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

// Neither by the program nor by what goes wrong, before nobody writes there any more.
TEST_F(ReadHalves, AFlushIsSeenWhenThePeerHasEnded) {
    struct Others final : memory::Outsiders {
        explicit Others(Harness& test) : t(test) {}
        void wait_for_them(const memory::Work& work, Duration most) override {
            waits += work.qp == t.side[0].qp->number() && most > 0;
            EXPECT_FALSE(t.side[0].shown.takes_answers());
            EXPECT_TRUE(t.sends(0).empty());
        }
        Harness& t;
        unsigned waits = 0;
    } others(*this);
    side[0].regions.set_outsiders(&others);
    read_some(2);
    transmit(0, true);
    wire::Headers wrong;
    wrong.bth.opcode = Opcode::rc_atomic_ack;
    wrong.bth.pkey = wire::kDefaultPkey;
    wrong.bth.psn = packets(0)[0].headers.bth.psn;
    inject(0, wrong);
    EXPECT_GE(others.waits, 1u);
    EXPECT_EQ(sends(0).size(), 2u);
    side[0].regions.set_outsiders(nullptr);
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
        for (unsigned n = 0; n < 20; n++) {
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
