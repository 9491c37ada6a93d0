// Large WRITEs and READs, several at a time, which the link could execute but which are there sooner as
// packets.
#include <gtest/gtest.h>

#include "transport/executing.h"
#include "transport/rc_harness.h"

namespace verbena::transport {
namespace {

using testing::Harness;

class ByPackets : public ::testing::Test, protected Harness {
   protected:
    static constexpr std::uint32_t kLarge = 16 << 10;

    ByPackets() {
        link.packets_faster = true;
        direct = &link;
        start();
        fill(0, 0, memory_size / 2, 1);
        fill(1, memory_size / 2, memory_size / 2, 2);
    }
    // As a program posts them: by the straight path, if it takes them. The places are the same on both sides.
    void post_one(Operation operation, std::size_t place, std::uint32_t length) {
        SendRequest r = request(operation, place, place);
        const Sge sge = side[0].sge(place, length);
        r.sges = {&sge, 1};
        memory::Section section(side[0].sections);
        const bool done = side[0].qp->execute_straight(r, now);
        ASSERT_TRUE(done || side[0].qp->post_send(r, now) == 0);
    }
    void write(std::size_t place, std::uint32_t length = kLarge) {
        post_one(Operation::rdma_write, place, length);
    }
    void settle() { run(100 * kMillisecond); }

    Executing link;
};

TEST_F(ByPackets, OneAtATimeIsExecuted) {
    for (std::size_t i = 0; i < 3; i++) {
        write(i * kLarge);
        settle();
        EXPECT_EQ(sends(0).size(), 1u);
    }
    EXPECT_EQ(link.asked, 3u);
    EXPECT_TRUE(log.empty());
}

TEST_F(ByPackets, SeveralAtATimeLeaveAsPackets) {
    for (std::size_t i = 0; i < 4; i++) write(i * kLarge);
    EXPECT_EQ(link.asked, 1u) << "nobody knew that others follow";
    settle();
    EXPECT_EQ(link.asked, 1u);
    EXPECT_FALSE(packets(0).empty());
    EXPECT_TRUE(equal(0, 0, 4 * kLarge));
    const auto completions = sends(0);
    ASSERT_EQ(completions.size(), 4u);
    for (std::size_t i = 0; i < 4; i++) EXPECT_EQ(completions[i].wr_id, i * kLarge);
    write(4 * kLarge);  // alone again
    EXPECT_EQ(link.asked, 2u);
}

TEST_F(ByPackets, SoDoReads) {
    const std::size_t half = memory_size / 2;
    for (std::size_t i = 0; i < 4; i++) post_one(Operation::rdma_read, half + i * kLarge, kLarge);
    settle();
    EXPECT_EQ(link.asked, 1u);
    EXPECT_FALSE(packets(1).empty());
    EXPECT_TRUE(equal(half, half, 4 * kLarge));
    EXPECT_EQ(sends(0).size(), 4u);
}

TEST_F(ByPackets, OneIsUnderWayWhenTheNextLeaves) {
    for (std::size_t i = 0; i < 3; i++) write(i * kLarge);
    transmit(0, true);
    EXPECT_EQ(packets(0).size(), 2 * kLarge / 1024u);
}

TEST_F(ByPackets, SmallOnesAreExecutedAndKeepTheirPlace) {
    write(0, 512);
    write(512, 512);
    EXPECT_EQ(link.asked, 2u);
    write(1024);
    write(1024 + kLarge, 8);  // behind a large one that leaves as packets
    EXPECT_EQ(link.asked, 2u);
    settle();
    EXPECT_EQ(link.asked, 2u);
    EXPECT_TRUE(equal(0, 0, 1032 + kLarge));
    EXPECT_EQ(sends(0).size(), 4u);
    write(0, 8);
    EXPECT_EQ(link.asked, 3u) << "nothing is under way any more";
}

TEST_F(ByPackets, WhereTheLinkIsFasterAllAreExecuted) {
    link.packets_faster = false;
    for (std::size_t i = 0; i < 4; i++) write(i * kLarge);
    settle();
    EXPECT_EQ(link.asked, 4u);
    EXPECT_TRUE(log.empty());
}

TEST_F(ByPackets, WhatIsUnderWayIsAwaitedWhenTheLinkIsFasterAgain) {
    for (std::size_t i = 0; i < 3; i++) write(i * kLarge);
    transmit(0, true);
    link.packets_faster = false;
    write(3 * kLarge);
    transmit(0, true);
    EXPECT_EQ(link.asked, 1u);
    settle();
    EXPECT_EQ(link.asked, 2u);
    EXPECT_TRUE(equal(0, 0, 4 * kLarge));
    EXPECT_EQ(sends(0).size(), 4u);
}

TEST_F(ByPackets, ThatThePeerLetsThemWaitIsTold) {
    for (std::size_t i = 0; i < 3; i++) write(i * kLarge);
    settle();
    EXPECT_EQ(link.told_slow, 0u);
    EXPECT_EQ(sends(0).size(), 3u);
    side[1].asleep = true;
    for (std::size_t i = 0; i < 3; i++) write(i * kLarge);
    run(3 * kMillisecond);
    side[1].asleep = false;
    settle();
    EXPECT_EQ(link.told_slow, 1u);
    EXPECT_EQ(sends(0).size(), 3u);
}

TEST_F(ByPackets, SilenceBetweenTwoOfThemIsNobodysFault) {
    for (unsigned n = 0; n < 3; n++) {
        for (std::size_t i = 0; i < 3; i++) write(i * kLarge);
        settle();
        EXPECT_EQ(sends(0).size(), 3u);
    }
    EXPECT_EQ(link.told_slow, 0u);
}

}  // namespace
}  // namespace verbena::transport
