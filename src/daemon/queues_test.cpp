#include "daemon/queues.h"

#include <gtest/gtest.h>

#include "base/reason.h"
#include "link/steering.h"

namespace verbena::daemon {
namespace {

constexpr pid_t kProgram = 4711;
constexpr Duration kLong = 3600 * kSecond;

class QueuesTest : public ::testing::Test {
   protected:
    void SetUp() override { ASSERT_EQ(queues.open({}), 0) << last_reason(); }
    std::uint32_t take(Time now) {
        std::uint32_t queue = 0;
        EXPECT_EQ(queues.take(kProgram, now, queue), 0) << last_reason();
        return queue;
    }
    Queues queues;
};

TEST_F(QueuesTest, InIndexOrder) {
    EXPECT_NE(queues.port(), 0);
    for (std::uint32_t i = 1; i < 10; i++) {
        EXPECT_EQ(take(0), i);
        EXPECT_EQ(link::bound_port(queues.descriptor(i)), queues.port());
    }
    EXPECT_EQ(queues.in_use(), 9u);
}

TEST_F(QueuesTest, ADeadProgramsBlockWaits) {
    EXPECT_EQ(take(0), 1u);
    queues.give_back(1, 0);
    EXPECT_EQ(queues.in_use(), 0u);
    EXPECT_EQ(take(kSecond), 2u);
    EXPECT_EQ(take(kLong), 1u);
}

TEST_F(QueuesTest, AQuarantinedNumberKeepsItsBlock) {
    EXPECT_EQ(take(0), 1u);
    queues.quarantine(0x1005, kLong);
    queues.quarantine(0xffffff, kLong);  // no block of ours
    queues.quarantine(1, kLong);
    queues.give_back(1, 0);
    EXPECT_EQ(take(kLong - 1), 2u);
    EXPECT_EQ(take(kLong), 1u);
}

}  // namespace
}  // namespace verbena::daemon
