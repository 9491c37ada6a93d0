// The shortest way (rc_short.h, rc_short.cpp): what goes there, what does not, and that nothing has changed
// then. That the same comes of it as of the long way: rc_straight_test.cpp.
#include "transport/rc_short.h"

#include <gtest/gtest.h>

#include "transport/rc_harness.h"

namespace verbena::transport {
namespace {

using testing::Harness;

struct Pair : Harness {
    Pair() {
        straight = true;
        capabilities = {8, 8, 2, 2, 64};
        for (Side& s : side) {
            s.largest = 4096;
            s.copies = true;
        }
        start();
        fill(0, 0, 1 << 10, 1);
    }
    void receive(unsigned count, std::uint32_t length = 64) {
        for (unsigned n = 0; n < count; n++) post_receive(1, n, {side[1].sge(4096 + 64 * n, length)});
    }
    // Whether it goes the shortest way; what does not has changed nothing, and goes no way at all.
    bool goes(SendRequest r, std::vector<Sge> sges) {
        r.sges = sges;
        const QpCounters before = side[0].qp->counters();
        const std::size_t packets = log.size();
        memory::Section section(side[0].sections);
        const bool went = post_short(0, r);
        EXPECT_EQ(log.size(), packets + went);
        EXPECT_EQ(side[0].qp->counters().packets_sent, before.packets_sent + went);
        return went;
    }
    bool goes(Operation operation = Operation::send, std::uint32_t length = 8,
              std::uint32_t flags = kSignaled) {
        return goes(request(operation, 1, 0, flags), {side[0].sge(0, length)});
    }
};

TEST(Short, IsASendOrWriteOfOneShortPacket) {
    Pair h;
    EXPECT_TRUE(h.goes(Operation::send, wire::kMostShort));
    EXPECT_FALSE(h.goes(Operation::send, wire::kMostShort + 1));
    EXPECT_TRUE(h.goes(Operation::send, 0));
    EXPECT_TRUE(h.goes(h.request(Operation::send), {}));
    EXPECT_TRUE(h.goes(Operation::send_with_immediate));
    EXPECT_TRUE(h.goes(Operation::send, 3, kSignaled | kSolicited | kInline));
    EXPECT_FALSE(h.goes(Operation::send, 8, kSignaled | kFence));
    EXPECT_FALSE(h.goes(Operation::send_with_invalidate));
    EXPECT_TRUE(h.goes(h.request(Operation::rdma_write, 1, 64), {h.side[0].sge(0, 8)}));
    EXPECT_FALSE(h.goes(Operation::rdma_write, 0));
    EXPECT_FALSE(h.goes(h.request(Operation::rdma_write), {}));
    EXPECT_FALSE(h.goes(Operation::rdma_write_with_immediate));
    EXPECT_FALSE(h.goes(Operation::rdma_read));
    EXPECT_FALSE(h.goes(Operation::fetch_add));
    EXPECT_FALSE(h.goes(h.request(Operation::send), {h.side[0].sge(0, 8), h.side[0].sge(8, 8)}));
}

TEST(Short, LeavesMistakesToOthers) {
    Pair h;
    Sge stale = h.side[0].sge(0, 8);
    stale.lkey += 0x100;
    EXPECT_FALSE(h.goes(h.request(Operation::send), {stale}));
    EXPECT_FALSE(
        h.goes(h.request(Operation::send), {{h.side[0].address(h.memory_size - 4), 8, h.side[0].keys.lkey}}));
    EXPECT_TRUE(h.goes(h.request(Operation::send, 1, 0, kSignaled | kInline), {{h.side[0].address(), 8, 0}}));
    while (h.goes()) {
    }
    EXPECT_EQ(h.side[0].qp->check_send(std::vector{h.request(Operation::send)}), ENOMEM)
        << "so many, and full";
}

TEST(Short, GoesNoOtherWayThanIntoMemory) {
    Pair h;
    h.side[0].full = true;
    EXPECT_FALSE(h.goes());
    h.side[0].full = false;
    EXPECT_TRUE(h.goes());
    ASSERT_EQ(h.modify(0, QpState::sqd), 0);
    EXPECT_FALSE(h.goes());
    ASSERT_EQ(h.modify(0, QpState::error), 0);
    EXPECT_FALSE(h.goes());
}

// Those that came together, as many as there are receives and places for their completions.
struct Arrivals : Pair {
    // Each as it came, of so many bytes.
    void come(unsigned count, std::uint32_t length = 8) {
        side[1].asleep = true;
        for (unsigned n = 0; n < count; n++) ASSERT_TRUE(goes(Operation::send, length));
        side[1].asleep = false;
    }
    std::vector<std::uint64_t> completed() {
        std::vector<std::uint64_t> ids;
        for (const completion::Completion& c : receives(1)) {
            EXPECT_EQ(c.status, completion::Status::success);
            EXPECT_EQ(c.opcode, completion::Opcode::receive);
            EXPECT_EQ(c.qp_number, side[1].qp->number());
            EXPECT_EQ(c.source_qp, side[0].qp->number());
            ids.push_back(c.wr_id);
        }
        return ids;
    }
};

TEST(ShortArrival, CompletesTogether) {
    Arrivals h;
    h.receive(5);
    h.come(4, 9);
    h.run(kSecond);
    EXPECT_EQ(h.completed(), (std::vector<std::uint64_t>{0, 1, 2, 3}));
    for (unsigned n = 0; n < 4; n++)
        EXPECT_EQ(std::memcmp(&h.side[1].memory[4096 + 64 * n], h.side[0].memory.data(), 9), 0);
    EXPECT_EQ(h.side[1].receives->waiting(), 1u);
    EXPECT_EQ(h.sends(0).size(), 4u);
}

TEST(ShortArrival, WithoutAReceiveWaitsForOne) {
    Arrivals h;
    h.receive(2);
    h.come(3);
    h.run(kMillisecond / 4);
    EXPECT_EQ(h.completed(), (std::vector<std::uint64_t>{0, 1}));
    h.receive(1);
    h.run(kSecond);
    EXPECT_EQ(h.completed(), (std::vector<std::uint64_t>{0}));
}

TEST(ShortArrival, LongerThanItsReceiveIsAnError) {
    Arrivals h;
    h.receive(1);
    h.receive(1, 8);
    h.come(2, 9);
    h.run(kSecond);
    const auto all = h.receives(1);
    ASSERT_EQ(all.size(), 2u);
    EXPECT_EQ(all[0].status, completion::Status::success);
    EXPECT_EQ(all[1].status, completion::Status::local_length_error);
    EXPECT_EQ(h.side[1].qp->state(), QpState::error);
}

TEST(ShortArrival, WakesWhoWaitsForIt) {
    Arrivals h;
    h.receive(3);
    h.side[1].receive_cq.arm(false);
    const int before = h.side[1].cq_events.count;
    h.come(3);
    h.run(kSecond);
    EXPECT_EQ(h.side[1].cq_events.count, before + 1);
    EXPECT_EQ(h.completed().size(), 3u);
}

}  // namespace
}  // namespace verbena::transport
