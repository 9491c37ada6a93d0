// Completion counters: every operation counts once, whoever repeats its packets.
#include <gtest/gtest.h>

#include "transport/rc_harness.h"

namespace verbena::transport::testing {
namespace {

using completion::Status;

// A connection whose queue pairs have a counter for each operation.
struct Counting : ::testing::Test {
    void start(bool of_bytes = false) {
        for (int i = 0; i < 2; i++) {
            h.make(i);
            for (std::size_t n = 0; n < kCountedOperations; n++) {
                counters[i][n] = std::make_shared<CompletionCounter>(of_bytes);
                ASSERT_EQ(h.side[i].qp->attach(counters[i][n], 1u << n), 0);
            }
        }
        for (int i = 0; i < 2; i++) h.connect(i);
    }
    // completed and failed of each operation, from SEND on, as one line.
    std::string counts(int side) const {
        std::string line;
        for (const auto& counter : counters[side])
            line += std::to_string(counter->completed) +
                    (counter->failed ? "!" + std::to_string(counter->failed) : "") + " ";
        return line;
    }
    void post_one_of_each(std::uint32_t flags) {
        const Sge sge = h.side[0].sge(0, 3000);
        h.post_receive(1, 1, {h.side[1].sge(8192, 4096)});
        h.post_receive(1, 2, {});
        for (const Operation operation :
             {Operation::send, Operation::rdma_write, Operation::rdma_write_with_immediate,
              Operation::rdma_read, Operation::rdma_read})
            ASSERT_EQ(h.post(0, h.request(operation, 1, 0, flags), {sge}), 0);
        ASSERT_EQ(h.post(0, h.request(Operation::fetch_add, 1, 0, flags), {h.side[0].sge(0, 8)}), 0);
        h.run();
    }

    Harness h;
    std::array<std::shared_ptr<CompletionCounter>, kCountedOperations> counters[2];
};

TEST_F(Counting, WorkRequestsSignaledOrNot) {
    start();
    post_one_of_each(0);
    EXPECT_TRUE(h.sends(0).empty());
    EXPECT_EQ(counts(0), "1 0 2 0 2 0 ");
    EXPECT_EQ(counts(1), "0 2 0 2 0 2 ");
    post_one_of_each(kSignaled);
    EXPECT_EQ(counts(0), "2 0 4 0 4 0 ");
    EXPECT_EQ(counts(1), "0 4 0 4 0 4 ");
}

TEST_F(Counting, Bytes) {
    start(true);
    post_one_of_each(kSignaled);
    EXPECT_EQ(counts(0), "3000 0 6000 0 6000 0 ");
    EXPECT_EQ(counts(1), "0 3000 0 6000 0 6000 ");
}

// Every packet is lost once, so that each comes again, or is a duplicate because its answer was lost.
TEST_F(Counting, WhatIsSentAgainCountsOnce) {
    start();
    std::map<std::pair<int, std::uint32_t>, int> seen;
    h.filter = [&](const Sent& s) {
        const int times = ++seen[{s.from * 256 + static_cast<int>(s.headers.bth.opcode), s.headers.bth.psn}];
        return times == 1 ? kDrop : kDeliver;
    };
    post_one_of_each(kSignaled);
    EXPECT_EQ(h.sends(0).size(), 6u);
    EXPECT_EQ(counts(0), "1 0 2 0 2 0 ");
    EXPECT_EQ(counts(1), "0 2 0 2 0 2 ");
}

TEST_F(Counting, TheStraightPathCountsAsWell) {
    h.straight = true;
    start();
    h.post_receive(1, 1, {h.side[1].sge(0, 64)});
    ASSERT_EQ(h.post(0, h.request(Operation::send, 1), {h.side[0].sge(0, 8)}), 0);
    h.run();
    EXPECT_EQ(h.went_straight, 2u);  // at both ends
    EXPECT_EQ(counts(0), "1 0 0 0 0 0 ");
    EXPECT_EQ(counts(1), "0 1 0 0 0 0 ");
}

TEST_F(Counting, FailuresAndWhatTheyFlush) {
    start();
    h.post_receive(1, 1, {h.side[1].sge(0, 64)});
    SendRequest bad = h.request(Operation::rdma_write, 1);
    bad.rkey ^= 0x100;
    ASSERT_EQ(h.post(0, bad, {h.side[0].sge(0, 8)}), 0);
    ASSERT_EQ(h.post(0, h.request(Operation::send, 2), {h.side[0].sge(0, 8)}), 0);
    h.run();
    EXPECT_EQ(h.sends(0).at(0).status, Status::remote_access_error);
    EXPECT_EQ(counts(0), "0!1 0 0 0 0!1 0 ");
    // The target's queue pair is in the error state, its receive flushed; nothing of the peer's was executed.
    EXPECT_EQ(counts(1), "0 0!1 0 0 0 0 ");
}

TEST_F(Counting, AttachedInResetOrInitAndOnceForEachOperation) {
    start();
    const auto one = std::make_shared<CompletionCounter>(false);
    EXPECT_EQ(h.side[0].qp->attach(one, 1), EINVAL);
    ASSERT_EQ(h.modify(0, QpState::reset), 0);
    EXPECT_EQ(h.side[0].qp->attach(one, 1), EBUSY);
    EXPECT_EQ(one.use_count(), 1);
}

TEST(CompletionCounter, UnreliableServicesCount) {
    Harness h;
    h.service = Service::uc;
    h.make(0);
    h.make(1);
    const auto writes = std::make_shared<CompletionCounter>(false),
               written = std::make_shared<CompletionCounter>(true);
    ASSERT_EQ(h.side[0].qp->attach(writes, 1u << static_cast<int>(Counted::write)), 0);
    ASSERT_EQ(h.side[1].qp->attach(written, 1u << static_cast<int>(Counted::remote_write)), 0);
    h.connect(0);
    h.connect(1);
    ASSERT_EQ(h.post(0, h.request(Operation::rdma_write), {h.side[0].sge(0, 5000)}), 0);
    h.run();
    EXPECT_EQ(writes->completed, 1u);
    EXPECT_EQ(written->completed, 5000u);
}

}  // namespace
}  // namespace verbena::transport::testing
