// A peer that does not answer keeps nobody else from sending: what becomes of the window that is shared.
#include <gtest/gtest.h>

#include <algorithm>

#include "transport/rc_harness.h"
#include "transport/retransmission.h"
#include "wire/psn.h"

namespace verbena::transport::testing {
namespace {

using completion::Status;

constexpr std::uint32_t kLarge = 1 << 20;

// Side 0 sends into a flow of the table, at first to nobody.
struct Silence : ::testing::Test, Harness {
    FlowTable table;
    bool answers = false;

    Silence() {
        flows = &table;
        memory_size = 2 * kLarge;
        attributes[0].retry_count = 0;
        filter = [this](const Sent&) { return answers ? kDeliver : kDrop; };
    }
    void begin(std::uint8_t timeout) {
        attributes[0].timeout = timeout;
        start();
        fill(0, 0, kLarge, 7);
        write(1, 0);
        run(100 * kMillisecond);
    }
    void write(std::uint64_t id, std::size_t offset) {
        ASSERT_EQ(post(0, request(Operation::rdma_write, id, offset), {side[0].sge(0, kLarge)}), 0);
    }
    std::shared_ptr<Flow> shared_flow() { return table.find(side[0].path.destination, 0x1001); }
};

TEST_F(Silence, TakesNoRoomFromOthers) {
    begin(0);
    EXPECT_GE(side[0].qp->counters().probes, 2u);
    EXPECT_EQ(shared_flow()->in_flight(), 0u);
    EXPECT_TRUE(shared_flow()->allows(4096));

    Harness healthy;
    healthy.flows = &table;
    healthy.memory_size = kLarge;
    healthy.start();
    ASSERT_EQ(healthy.post(0, healthy.request(Operation::rdma_write), {healthy.side[0].sge(0, kLarge)}), 0);
    healthy.run(100 * kMillisecond);
    EXPECT_EQ(healthy.sends(0).size(), 1u);
}

// The first probe may come too early.
TEST_F(Silence, OfAMomentKeepsTheRoom) {
    attributes[0].timeout = 0;
    start();
    write(1, 0);
    run(kProbeUnmeasured + kMillisecond);
    EXPECT_GT(shared_flow()->in_flight(), 0u);
}

TEST_F(Silence, SendsNothingNewUntilItEnds) {
    begin(0);
    const auto newest = [this] {
        std::uint32_t most = 0;
        for (const Sent& sent : packets(0))
            most = std::max(most, (sent.headers.bth.psn - start_psn[0]) & wire::kPsnMask);
        return most;
    };
    const std::uint32_t before = newest();
    write(2, kLarge);
    run(10 * kSecond);
    EXPECT_EQ(newest(), before);
    EXPECT_EQ(shared_flow()->in_flight(), 0u);

    answers = true;
    run(2 * kSecond);
    const auto done = sends(0);
    ASSERT_EQ(done.size(), 2u);
    for (const auto& each : done) EXPECT_EQ(each.status, Status::success);
    EXPECT_TRUE(equal(0, 0, kLarge));
    EXPECT_TRUE(equal(0, kLarge, kLarge));
    EXPECT_EQ(shared_flow()->in_flight(), 0u);
}

// Only the acknowledgements were lost, or were late: no more is taken from the flow than is in it.
TEST_F(Silence, EndsWithLateAcknowledgements) {
    filter = [this](const Sent& sent) { return sent.from == 0 || answers ? kDeliver : kDrop; };
    begin(0);
    EXPECT_EQ(shared_flow()->in_flight(), 0u);
    answers = true;
    run(2 * kSecond);
    EXPECT_EQ(sends(0).size(), 1u);
    EXPECT_TRUE(equal(0, 0, kLarge));
    EXPECT_EQ(shared_flow()->in_flight(), 0u);
}

TEST_F(Silence, OfOneShrinksNobodysWindow) {
    attributes[0].retry_count = 7;
    begin(14);
    shared_flow()->sent(1000);  // another's
    run(kSecond);
    EXPECT_GE(side[0].qp->counters().timeouts, 3u);
    EXPECT_EQ(shared_flow()->window(), Flow::kInitialWindow);
    EXPECT_EQ(shared_flow()->in_flight(), 1000u);
    shared_flow()->withdrawn(1000);
    answers = true;
    run(2 * kSecond);
    EXPECT_EQ(sends(0).size(), 1u);
    EXPECT_TRUE(equal(0, 0, kLarge));
}

// ... but where nobody else has packets under way, it may be the receive queue that takes nothing.
TEST_F(Silence, OfAllShrinksTheWindow) {
    attributes[0].retry_count = 7;
    begin(14);
    run(kSecond);
    EXPECT_EQ(shared_flow()->window(), Flow::kMinimumWindow);
    EXPECT_EQ(shared_flow()->in_flight(), 0u);
}

}  // namespace
}  // namespace verbena::transport::testing
