// WRITEs and READs that the link executes by the straight path, at once and without a packet.
#include <gtest/gtest.h>

#include "transport/executing.h"
#include "transport/rc_harness.h"

namespace verbena::transport {
namespace {

using testing::Harness;

class StraightExecution : public ::testing::Test {
   protected:
    StraightExecution() {
        h.direct = &link;
        h.start();
        h.fill(0, 0, 4096, 1);
        h.fill(1, 0, 4096, 2);
    }
    bool execute(SendRequest request, Sge sge) {
        request.sges = {&sge, 1};
        memory::Section section(h.side[0].sections);
        return h.side[0].qp->execute_straight(request, h.now);
    }
    Sge local(std::size_t offset, std::uint32_t length) { return h.side[0].sge(offset, length); }
    bool equal(std::size_t mine, std::size_t theirs, std::size_t length) {
        return std::memcmp(&h.side[0].memory[mine], &h.side[1].memory[theirs], length) == 0;
    }

    Executing link;
    Harness h;
};

TEST_F(StraightExecution, WritesAndReadsAndCompletes) {
    ASSERT_TRUE(execute(h.request(Operation::rdma_write, 7, 8192), local(100, 500)));
    EXPECT_TRUE(equal(100, 8192, 500));
    ASSERT_TRUE(execute(h.request(Operation::rdma_read, 8, 1000), local(8192, 600)));
    EXPECT_TRUE(equal(8192, 1000, 600));
    ASSERT_TRUE(execute(h.request(Operation::rdma_write, 9, 9000, kSignaled | kInline),
                        {h.side[0].address(5), 64, 0}));
    EXPECT_TRUE(equal(5, 9000, 64));
    ASSERT_TRUE(execute(h.request(Operation::rdma_write, 10, 0, 0), local(0, 8)));  // unsignaled
    const auto completions = h.sends(0);
    ASSERT_EQ(completions.size(), 3u);
    for (std::size_t i = 0; i < 3; i++) {
        EXPECT_EQ(completions[i].wr_id, 7 + i);
        EXPECT_EQ(completions[i].status, completion::Status::success);
    }
    EXPECT_EQ(completions[1].opcode, completion::Opcode::rdma_read);
    EXPECT_EQ(completions[1].byte_length, 600u);
    EXPECT_TRUE(h.log.empty()) << "no packet";
    EXPECT_EQ(h.side[0].qp->counters().direct_bytes_out, 500u + 64 + 8);
    EXPECT_EQ(h.side[0].qp->counters().direct_bytes_in, 600u);
}

TEST_F(StraightExecution, WaitsItsTurn) {
    const SendRequest write = h.request(Operation::rdma_write);
    h.post_receive(1, 1, {h.side[1].sge(4096, 64)});
    ASSERT_EQ(h.post(0, h.request(Operation::send), {local(0, 64)}), 0);
    EXPECT_FALSE(execute(write, local(0, 8))) << "a SEND is before it";
    h.run(10 * kMillisecond);
    EXPECT_TRUE(execute(write, local(0, 8)));
    link.willing = false;
    EXPECT_FALSE(execute(write, local(0, 8)));
    const unsigned asked = link.asked;
    EXPECT_FALSE(execute(write, local(0, 8)));
    EXPECT_EQ(link.asked, asked) << "asked in vain before";
}

TEST_F(StraightExecution, LeavesMistakesToTheLongWay) {
    const SendRequest write = h.request(Operation::rdma_write), read = h.request(Operation::rdma_read);
    Sge stale = local(0, 8);
    stale.lkey += 0x100;
    EXPECT_FALSE(execute(write, stale));
    EXPECT_FALSE(execute(write, local(h.memory_size - 4, 8)));
    EXPECT_FALSE(execute(write, local(0, 0)));
    EXPECT_FALSE(execute(h.request(Operation::rdma_write, 1, 0, kInline), local(0, 300)));
    EXPECT_FALSE(execute(h.request(Operation::rdma_read, 1, 0, kInline), local(0, 8)));
    EXPECT_FALSE(execute(h.request(Operation::rdma_write_with_immediate), local(0, 8)));
    EXPECT_FALSE(execute(h.request(Operation::rdma_write, 1, 0, 1u << 20), local(0, 8)));
    EXPECT_EQ(link.asked, 0u);
    EXPECT_TRUE(execute(read, local(0, 8)));
    ASSERT_EQ(h.modify(0, QpState::sqd), 0);
    EXPECT_FALSE(execute(write, local(0, 8)));
    ASSERT_EQ(h.modify(0, QpState::error), 0);
    EXPECT_FALSE(execute(write, local(0, 8)));
}

// More is done in parts, which end at a multiple of eight.
TEST(Execution, IsStraightUpToAPart) {
    constexpr std::uint32_t kPart = 1 << 20;
    Executing link;
    Harness h;
    h.direct = &link;
    h.memory_size = 3 * kPart;
    h.start();
    h.fill(0, 0, h.memory_size, 1);
    const auto execute = [&](std::size_t at, std::uint32_t length) {
        const Sge sge = h.side[0].sge(0, length);
        SendRequest request = h.request(Operation::rdma_write, 1, at);
        request.sges = {&sge, 1};
        memory::Section section(h.side[0].sections);
        return h.side[0].qp->execute_straight(request, h.now);
    };
    const std::size_t word = 8 - h.side[1].address(0) % 8;
    EXPECT_TRUE(execute(word, kPart));
    EXPECT_TRUE(h.equal(0, word, kPart));
    EXPECT_FALSE(execute(word, kPart + 1));
    EXPECT_FALSE(execute(word + 3, kPart));
    EXPECT_TRUE(execute(word + 3, kPart - 3));
    EXPECT_TRUE(h.equal(0, word + 3, kPart - 3));
    EXPECT_EQ(h.sends(0).size(), 2u);
}

// IBA 10.3.1.5: what has begun is finished first.
TEST(Execution, OfWhatIsHalfDoneGoesOnWhileTheQueueDrains) {
    Executing link;
    Harness h;
    h.direct = &link;
    h.memory_size = 2 << 20;
    h.start();
    h.fill(0, 0, 2 << 20, 1);
    ASSERT_EQ(h.post(0, h.request(Operation::rdma_write), {h.side[0].sge(0, 2 << 20)}), 0);
    {
        memory::Section section(h.side[0].sections);
        EXPECT_FALSE(h.side[0].qp->transmit(h.side[0], h.now, 16, false)) << "there is more";
    }
    ASSERT_EQ(link.asked, 1u) << "of two parts";
    ASSERT_EQ(h.modify(0, QpState::sqd, kAttrState | kAttrSqdAsyncNotify), 0);
    Attributes a;
    h.side[0].qp->query(a);
    EXPECT_TRUE(a.draining);
    EXPECT_TRUE(h.side[0].events.empty());
    h.run();
    EXPECT_EQ(h.side[0].events, std::vector<QpEvent>{QpEvent::send_queue_drained});
    EXPECT_EQ(h.sends(0).size(), 1u);
    EXPECT_TRUE(h.equal(0, 0, 2 << 20));
}

}  // namespace
}  // namespace verbena::transport
