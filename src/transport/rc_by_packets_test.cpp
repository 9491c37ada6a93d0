// WRITEs and READs, much at a time, which the link could execute but which are there sooner as packets.
#include <gtest/gtest.h>

#include "transport/executing.h"
#include "transport/rc_harness.h"

namespace verbena::transport {
namespace {

using testing::Harness;

class ByPackets : public ::testing::Test, protected Harness {
   protected:
    static constexpr std::uint32_t kLarge = 64 << 10;
    static constexpr unsigned kAlone = 7;  // so many of them are not yet much
    static constexpr unsigned kFew = 15;   // ... and of small ones not yet many

    explicit ByPackets(std::uint32_t mtu = 1024) {
        for (Attributes& a : attributes) a.path_mtu = mtu;
        link.packets_faster = true;
        direct = &link;
        memory_size = 2 << 20;
        start();
        fill(0, 0, memory_size / 2, 1);
        fill(1, memory_size / 2, memory_size / 2, 2);
        for (unsigned n = 0; n < 4; n++) {  // the window opens
            write_some(16);
            settle();
            EXPECT_EQ(sends(0).size(), 16u);
        }
        fill(0, 0, memory_size / 2, 3);
        link.asked = 0;
        log.clear();
    }
    // As a program posts them: by the straight path, if it takes them. The places are the same on both sides.
    void post_one(Operation operation, std::size_t place, std::uint32_t length,
                  std::uint32_t flags = kSignaled) {
        SendRequest r = request(operation, place, place, flags);
        const Sge sge = side[0].sge(place, length);
        r.sges = {&sge, 1};
        const bool executed = [&] {
            memory::Section section(side[0].sections);
            return side[0].qp->execute_straight(r, now);
        }();
        ASSERT_TRUE(executed || Harness::post(0, {&r, 1}) == 0);
    }
    void write(std::size_t place, std::uint32_t length = kLarge) {
        post_one(Operation::rdma_write, place, length);
    }
    void write_some(std::size_t count) {
        for (std::size_t i = 0; i < count; i++) write(i * kLarge);
    }
    // By one call.
    void list_of_small(std::uint32_t count) {
        std::vector<Sge> sges(count);
        std::vector<SendRequest> list;
        for (std::uint32_t i = 0; i < count; i++) {
            sges[i] = side[0].sge(i * 8, 8);
            list.push_back(request(Operation::rdma_write, i, i * 8));
            list.back().sges = {&sges[i], 1};
        }
        ASSERT_EQ(Harness::post(0, list), 0);
        transmit(0, false);
    }
    void settle() { run(100 * kMillisecond); }

    Executing link;
};

TEST_F(ByPackets, OneAtATimeIsExecuted) {
    for (std::size_t i = 0; i < 10; i++) {
        write(i * kLarge);
        settle();
        EXPECT_EQ(sends(0).size(), 1u);
    }
    EXPECT_EQ(link.asked, 10u);
    EXPECT_TRUE(log.empty());
}

TEST_F(ByPackets, SeveralAtATimeLeaveAsPackets) {
    write_some(10);
    EXPECT_EQ(link.asked, kAlone) << "nobody knew that more follow";
    settle();
    EXPECT_EQ(link.asked, kAlone);
    EXPECT_FALSE(packets(0).empty());
    EXPECT_TRUE(equal(0, 0, 10 * kLarge));
    const auto completions = sends(0);
    ASSERT_EQ(completions.size(), 10u);
    for (std::size_t i = 0; i < 10; i++) EXPECT_EQ(completions[i].wr_id, i * kLarge);
    write(0);  // alone again
    EXPECT_EQ(link.asked, kAlone + 1);
}

TEST_F(ByPackets, SoDoReads) {
    const std::size_t half = memory_size / 2;
    for (std::size_t i = 0; i < 10; i++) post_one(Operation::rdma_read, half + i * kLarge, kLarge);
    settle();
    EXPECT_EQ(link.asked, kAlone);
    EXPECT_FALSE(packets(1).empty());
    EXPECT_TRUE(equal(half, half, 10 * kLarge));
    EXPECT_EQ(sends(0).size(), 10u);
}

TEST_F(ByPackets, SoDoUnsignaledOnes) {
    for (std::size_t i = 0; i < 10; i++) post_one(Operation::rdma_write, i * kLarge, kLarge, 0);
    EXPECT_EQ(link.asked, kAlone);
    settle();
    EXPECT_TRUE(equal(0, 0, 10 * kLarge));
    EXPECT_TRUE(sends(0).empty());
    write(0);  // alone
    EXPECT_EQ(link.asked, kAlone + 1);
}

TEST_F(ByPackets, TheNextLeavesBeforeTheOneBeforeIsAcknowledged) {
    write_some(kAlone + 2);
    transmit(0, true);
    EXPECT_EQ(packets(0).size(), 2 * kLarge / 1024);
}

TEST_F(ByPackets, AFewThatAreNotMuchAreExecuted) {
    for (std::size_t i = 0; i < 8; i++) write(i * 8192, 8192);
    EXPECT_EQ(link.asked, 8u);
}

// Between two of them something else may have happened, somewhere else, that the program waited for.
TEST_F(ByPackets, WhatComesLaterIsAlone) {
    for (const std::uint32_t flags : {std::uint32_t{0}, std::uint32_t{kSignaled}}) {
        link.asked = 0;
        for (std::size_t i = 0; i < 14; i++) {
            post_one(Operation::rdma_write, i * kLarge, kLarge, flags);
            now += 15 * kMicrosecond;
        }
        EXPECT_EQ(link.asked, 14u);
    }
    EXPECT_TRUE(log.empty());
}

// 3 us on one machine, 0.4 on another: how soon one follows the other says as much about the machine.
TEST_F(ByPackets, WhatFollowsACallThatTakesLongIsNotAlone) {
    const auto asked_for = [&](Duration each) {
        link.asked = 0;
        for (std::size_t i = 0; i < 50; i++) {
            write(i * 64, 64);
            now += each;
        }
        settle();
        EXPECT_EQ(sends(0).size(), 50u);
        now += kSecond;
        return link.asked;
    };
    EXPECT_EQ(asked_for(5 * kMicrosecond), 50u);
    link.takes = 4 * kMicrosecond;
    EXPECT_EQ(asked_for(5 * kMicrosecond), kFew);
    EXPECT_EQ(asked_for(8 * kMicrosecond), 50u);
}

TEST_F(ByPackets, ManySmallOnesLeaveAsPackets) {
    for (const bool way : {false, true}) {
        straight = way;
        link.asked = 0;
        log.clear();
        for (std::size_t i = 0; i < 50; i++) write(i * 1024, 1024);  // the largest small ones
        settle();
        EXPECT_EQ(link.asked, kFew);
        EXPECT_EQ(packets(0).size(), 50 - kFew);
        EXPECT_TRUE(equal(0, 0, 50 * 1024));
        EXPECT_EQ(sends(0).size(), 50u);
        write(0, 8);
        EXPECT_EQ(link.asked, kFew) << "it follows soon";
        settle();
        EXPECT_EQ(sends(0).size(), 1u);
        now += 2 * Wave::kLasts;
        write(0, 8);
        EXPECT_EQ(link.asked, kFew + 1) << "alone again";
        EXPECT_EQ(sends(0).size(), 1u);
        fill(0, 0, 50 * 1024, 5);
    }
}

TEST_F(ByPackets, SmallREADsAreExecuted) {
    for (const std::uint32_t length : {8u, kSmallRead}) {
        link.asked = 0;
        for (std::size_t i = 0; i < 50; i++)
            post_one(Operation::rdma_read, memory_size / 2 + i * length, length);
        EXPECT_EQ(link.asked, 50u);
        EXPECT_EQ(sends(0).size(), 50u);
    }
    EXPECT_TRUE(log.empty());
}

// The longest that are a packet each.
class ByWholePackets : public ByPackets {
   protected:
    static constexpr std::uint32_t kWhole = 4096;
    static constexpr unsigned kMost = 60;  // that are out

    ByWholePackets() : ByPackets(kWhole) {}
    // There is always one under way.
    void stream(std::size_t count, std::uint32_t length) {
        std::size_t left = count;
        after_step = [&] {
            for (std::size_t done = sends(0).size(); done > 0 && left > 0; done--, left--) write(0, length);
        };
        for (std::size_t i = 0; i < kMost; i++) write(0, length);
        for (std::size_t n = 0; n < count && left > 0; n++) {  // what is executed takes no steps
            run(10 * kMicrosecond);
            after_step();
        }
        ASSERT_EQ(left, 0u);
        after_step = nullptr;
        settle();
        sends(0);
    }
};

// It is found out which way is faster for that length, by the straight path as by the long one. Small ones
// say nothing of that.
TEST_F(ByWholePackets, AreMeasured) {
    for (const bool way : {false, true}) {
        straight = way;
        for (const std::uint32_t length : {1024u, kWhole}) {
            SCOPED_TRACE(length);
            link.one_sided.clear();
            stream(4 * PacketPace::kEnough / length, length);
            EXPECT_EQ(!link.one_sided.empty(), length > kSmallWrite);
            for (const PacketPace::Sample& sample : link.one_sided) EXPECT_EQ(sample.length, length);
        }
    }
}

TEST_F(ByWholePackets, AreExecutedWhenThatIsFasterAgain) {
    for (const bool way : {false, true}) {
        straight = way;
        link.packets_faster = true;
        link.questions = 0;
        link.slower_from = 10;
        link.asked = 0;
        stream(500, kWhole);
        EXPECT_GT(link.asked, 400u);
    }
}

// Behind a SEND none can be executed, and so none waits.
TEST_F(ByWholePackets, LeaveStraightBehindASend) {
    link.packets_faster = false;
    post_receive(1, 1, {side[1].sge(0, 64)});
    ASSERT_EQ(post(0, request(Operation::send), {side[0].sge(0, 8)}), 0);
    transmit(0, false);
    SendRequest r = request(Operation::rdma_write, 2, 0);
    const Sge sge = side[0].sge(0, kWhole);
    r.sges = {&sge, 1};
    memory::Section section(side[0].sections);
    EXPECT_EQ(side[0].qp->post_straight({&r, 1}, side[0], &side[0], now).count, 1u);
}

TEST_F(ByPackets, SmallOnesAreExecutedForAPeerThatServesNobody) {
    link.packets_faster = false;
    for (std::size_t i = 0; i < 50; i++) write(i * 8, 8);
    EXPECT_EQ(link.asked, 50u);
    EXPECT_EQ(sends(0).size(), 50u);
    list_of_small(16);
    EXPECT_EQ(link.asked, 66u);
    EXPECT_TRUE(log.empty());
}

TEST_F(ByPackets, AListOfSmallOnesLeavesAsPackets) {
    for (const bool way : {false, true}) {
        straight = way;
        log.clear();
        list_of_small(16);
        settle();
        EXPECT_EQ(link.asked, 0u);
        EXPECT_EQ(packets(0).size(), 16u);
        EXPECT_TRUE(equal(0, 0, 16 * 8));
        EXPECT_EQ(sends(0).size(), 16u);
        fill(0, 0, 16 * 8, 5);
    }
}

// Nor do those wait long that come behind a SEND when all of that is over.
TEST_F(ByPackets, SmallOnesBehindASendWaitForNothing) {
    straight = true;
    side[1].asleep = true;
    for (std::size_t i = 0; i < kFew + 4; i++) write(i * 8, 8);
    run(3 * kMillisecond);
    side[1].asleep = false;
    settle();
    EXPECT_EQ(link.told_slow, 1u);
    post_receive(1, 1, {side[1].sge(0, 64)});
    ASSERT_EQ(post(0, request(Operation::send), {side[0].sge(0, 8)}), 0);
    log.clear();
    write(0, 8);
    transmit(0, false);
    EXPECT_EQ(packets(0).size(), 1u);
}

// The rest waits for what is under way, and is executed then.
TEST_F(ByPackets, SoAreSmallOnesWhenThePeerLetThemWait) {
    for (const bool way : {false, true}) {
        straight = way;
        link.asked = link.told_slow = 0;
        side[1].asleep = true;
        for (std::size_t i = 0; i < kFew + 4; i++) write(i * 8, 8);
        run(3 * kMillisecond);
        side[1].asleep = false;
        EXPECT_EQ(link.asked, kFew);
        link.packets_faster = false;  // it has been told
        settle();
        EXPECT_EQ(link.told_slow, 1u);
        for (std::size_t i = 0; i < 20; i++) write(i * 8, 8);
        EXPECT_EQ(link.asked, kFew + 20);
        EXPECT_EQ(sends(0).size(), kFew + 4 + 20);
        link.packets_faster = true;
        now += 2 * Wave::kLasts;
    }
}

// Those of 4 KiB, too, although as a rule they do not wait for what is under way.
TEST_F(ByPackets, WhoRefusesIsAskedForNoMore) {
    for (std::size_t i = 0; i < kAlone + 1; i++) write(i * kLarge);
    transmit(0, true);
    link.packets_faster = false;
    log.clear();
    for (std::size_t i = 0; i < 4; i++) write((kAlone + 1) * kLarge + i * 4096, 4096);
    transmit(0, true);
    EXPECT_EQ(link.asked, kAlone);
    settle();
    EXPECT_EQ(link.asked, kAlone + 4);
    EXPECT_TRUE(equal(0, 0, (kAlone + 1) * kLarge + 4 * 4096));
}

// What the others wait for is not their fault.
TEST_F(ByPackets, ASendThatIsAnsweredLateIsNotOneOfThem) {
    write_some(kAlone + 1);
    ASSERT_EQ(post(0, request(Operation::send), {side[0].sge(0, 8)}), 0);  // finds no receive yet
    run(4 * kMillisecond);
    post_receive(1, 1, {side[1].sge(0, 64)});
    settle();
    EXPECT_EQ(sends(0).size(), kAlone + 2);
    EXPECT_EQ(link.told_slow, 0u);
    write(0);
    EXPECT_EQ(link.asked, kAlone + 1);
}

TEST_F(ByPackets, SmallOnesAreExecutedAndKeepTheirPlace) {
    write_some(kAlone + 1);
    write((kAlone + 1) * kLarge, 8);  // behind a large one that leaves as packets
    EXPECT_EQ(link.asked, kAlone);
    settle();
    EXPECT_EQ(link.asked, kAlone);
    EXPECT_TRUE(equal(0, 0, (kAlone + 1) * kLarge + 8));
    EXPECT_EQ(sends(0).size(), kAlone + 2);
    write(0, 8);
    EXPECT_EQ(link.asked, kAlone + 1) << "nothing is under way any more";
}

TEST_F(ByPackets, WhereTheLinkIsFasterAllAreExecuted) {
    link.packets_faster = false;
    write_some(10);
    settle();
    EXPECT_EQ(link.asked, 10u);
    EXPECT_TRUE(log.empty());
}

TEST_F(ByPackets, WhatIsUnderWayIsAwaitedWhenTheLinkIsFasterAgain) {
    write_some(kAlone + 1);
    transmit(0, true);
    EXPECT_FALSE(packets(0).empty());
    link.packets_faster = false;
    write((kAlone + 1) * kLarge);
    transmit(0, true);
    EXPECT_EQ(link.asked, kAlone);
    settle();
    EXPECT_EQ(link.asked, kAlone + 1);
    EXPECT_TRUE(equal(0, 0, (kAlone + 2) * kLarge));
    EXPECT_EQ(sends(0).size(), kAlone + 2);
}

TEST_F(ByPackets, ThatThePeerLetsThemWaitIsTold) {
    write_some(kAlone + 1);
    settle();
    EXPECT_EQ(link.told_slow, 0u);
    EXPECT_EQ(sends(0).size(), kAlone + 1);
    side[1].asleep = true;
    write_some(kAlone + 1);
    run(3 * kMillisecond);
    side[1].asleep = false;
    settle();
    EXPECT_EQ(link.told_slow, 1u);
    EXPECT_EQ(sends(0).size(), kAlone + 1);
}

TEST_F(ByPackets, SilenceBetweenTwoOfThemIsNobodysFault) {
    for (unsigned n = 0; n < 3; n++) {
        write_some(kAlone + 2);
        settle();
        EXPECT_EQ(sends(0).size(), kAlone + 2);
    }
    EXPECT_EQ(link.told_slow, 0u);
}

TEST_F(ByPackets, WhatWasAcknowledgedStraightIsNotWaitedFor) {
    for (Side& s : side) s.largest = 16384, s.copies = true;
    straight = true;
    polls = false;
    for (std::uint64_t n = 0; n < 2; n++)
        for (int i = 0; i < 2; i++) post_receive(i, n, {side[i].sge(0, 64)});
    const auto say = [&](int from) { return post(from, request(Operation::send), {side[from].sge(0, 8)}); };
    write_some(kAlone + 1);
    transmit(0, true);
    ASSERT_EQ(say(0), 0);
    run(50 * kMicrosecond);
    ASSERT_EQ(say(1), 0);  // takes the acknowledgement along
    run(50 * kMicrosecond);
    EXPECT_EQ(sends(0).size(), kAlone + 2);
    now += 10 * kMillisecond;
    ASSERT_EQ(say(0), 0);
    polls = true;
    settle();
    EXPECT_EQ(sends(0).size(), 1u);
    EXPECT_EQ(link.told_slow, 0u);
}

TEST_F(ByPackets, ListsThatTheProgramHasHeardOfDoNotCount) {
    for (std::size_t n = 1; n <= 40; n++) {
        for (const std::uint32_t length : {kLarge, 8u}) {
            ASSERT_EQ(post(0, request(Operation::rdma_write), {side[0].sge(0, length)}), 0);
        }
        transmit(0, true);
        EXPECT_EQ(sends(0).size(), 2u);
        EXPECT_EQ(link.asked, 2 * n);
    }
}

}  // namespace
}  // namespace verbena::transport
