#include "transport/receive_queue.h"

#include <gtest/gtest.h>

#include <cerrno>

namespace verbena::transport {
namespace {

TEST(ReceiveQueue, OrderAcrossTheWrapWithTheirElements) {
    ReceiveQueue queue(3, 2);
    std::vector<Sge> sges(2);
    std::uint32_t count = 0;
    std::uint64_t id = 0, next = 0, seen = 0;
    EXPECT_FALSE(queue.take(id, sges, count));
    for (int round = 0; round < 10; round++) {
        for (int i = 0; i < 2; i++, next++) {
            const Sge list[] = {{next, 1, 2}, {next + 100, 3, 4}};
            ASSERT_EQ(queue.post({next, {list, next % 3}}), 0);
        }
        for (int i = 0; i < 2; i++, seen++) {
            ASSERT_TRUE(queue.take(id, sges, count));
            EXPECT_EQ(id, seen);
            ASSERT_EQ(count, seen % 3);
            if (count > 0) {
                EXPECT_EQ(sges[0].address, seen);
            }
            if (count > 1) {
                EXPECT_EQ(sges[1].address, seen + 100);
            }
        }
    }
}

TEST(ReceiveQueue, Refusals) {
    ReceiveQueue queue(1, 1), none(0, 0);
    const Sge list[2] = {};
    EXPECT_EQ(queue.post({1, {list, 2}}), EINVAL);
    EXPECT_EQ(queue.post({1, {list, 1}}), 0);
    EXPECT_EQ(queue.post({1, {}}), ENOMEM);
    EXPECT_EQ(queue.waiting(), 1u);
    queue.clear();
    EXPECT_EQ(queue.waiting(), 0u);
    EXPECT_EQ(none.post({1, {}}), ENOMEM);
    std::uint64_t id;
    EXPECT_FALSE(none.take_id(id));
    EXPECT_EQ(queue.post({9, {}}), 0);
    EXPECT_TRUE(queue.take_id(id));
    EXPECT_EQ(id, 9u);
}

}  // namespace
}  // namespace verbena::transport
