#include "transport/receive_queue.h"

#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <thread>

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

TEST(ReceiveQueue, LiesInOneLineOrInSeveral) {
    const ReceiveQueue small(2, 1);
    ASSERT_NE(small.only_line(), nullptr);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(small.only_line()) % 64, 0u);
    EXPECT_NE(ReceiveQueue(1, 3).only_line(), nullptr);
    EXPECT_EQ(ReceiveQueue(3, 1).only_line(), nullptr);
    EXPECT_EQ(ReceiveQueue(1, 4).only_line(), nullptr);
}

TEST(ReceiveQueue, AThreadTakesWhatAnotherPosts) {
    constexpr std::uint64_t kMany = 20'000;
    ReceiveQueue queue(5, 1);
    std::thread poster([&] {
        for (std::uint64_t id = 0; id < kMany;) {
            const Sge list[] = {{id, static_cast<std::uint32_t>(id), 7}};
            if (queue.try_post({id, list}))
                id++;
            else
                std::this_thread::yield();
        }
    });
    std::array<Sge, 1> sges;
    std::uint32_t count = 0;
    std::uint64_t id = 0;
    for (std::uint64_t wanted = 0; wanted < kMany;) {
        if (!queue.take(id, sges, count)) {
            std::this_thread::yield();
            continue;
        }
        ASSERT_EQ(id, wanted);
        ASSERT_EQ(count, 1u);
        ASSERT_EQ(sges[0].address, wanted++);
    }
    poster.join();
    EXPECT_EQ(queue.waiting(), 0u);
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

struct Limits : ReceiveQueueListener {
    void limit_reached(ReceiveQueue&) override { count++; }
    int count = 0;
};

struct Shared : ::testing::Test {
    void post(std::uint64_t first, std::uint64_t count) {
        for (std::uint64_t id = first; id < first + count; id++) {
            const Sge sge{id, 1, 2};
            ASSERT_EQ(queue.post({id, {&sge, 1}}), 0);
        }
    }
    std::uint64_t take(std::uint32_t waiter = 0) {
        std::uint64_t id = 0;
        std::uint32_t count = 0;
        return queue.take(id, sges, count, waiter) ? id : kNone;
    }

    static constexpr std::uint64_t kNone = 999;
    Limits limits;
    ReceiveQueue queue{4, 2, SharedQueueSetup{.pd = 5, .listener = &limits}};
    std::vector<Sge> sges = std::vector<Sge>(2);
    std::array<std::uint32_t, ReceiveQueue::kMaxWaiters> waiters;
};

TEST_F(Shared, TheLimitIsReportedOnceForEachArming) {
    post(1, 4);
    queue.arm_limit(3);
    EXPECT_EQ(queue.limit(), 3u);
    take();
    EXPECT_EQ(limits.count, 0);
    take();
    EXPECT_EQ(limits.count, 1);
    EXPECT_EQ(queue.limit(), 0u);
    take();
    EXPECT_EQ(limits.count, 1);
    queue.arm_limit(2);
    EXPECT_EQ(limits.count, 2);
}

TEST_F(Shared, ResizingKeepsOrderAcrossTheWrap) {
    post(1, 4);
    EXPECT_EQ(take(), 1u);
    EXPECT_EQ(take(), 2u);
    post(5, 2);
    EXPECT_EQ(queue.resize(3), EINVAL);
    ASSERT_EQ(queue.resize(6), 0);
    EXPECT_EQ(queue.capacity(), 6u);
    post(7, 2);
    for (std::uint64_t id = 3; id <= 8; id++) {
        EXPECT_EQ(take(), id);
        EXPECT_EQ(sges[0].address, id);
    }
    EXPECT_EQ(take(), kNone);
    ASSERT_EQ(queue.resize(1), 0);
    post(9, 1);
    EXPECT_EQ(queue.post({10, {}}), ENOMEM);
}

// Even if its place was taken meanwhile.
TEST_F(Shared, WhatIsGivenBackIsTheOldest) {
    post(1, 4);
    EXPECT_EQ(take(), 1u);
    post(5, 1);
    const Sge sge{77, 1, 2};
    queue.give_back(1, {&sge, 1});
    EXPECT_EQ(queue.waiting(), 5u);
    EXPECT_EQ(queue.post({6, {}}), ENOMEM);
    EXPECT_EQ(take(), 1u);
    EXPECT_EQ(sges[0].address, 77u);
    for (std::uint64_t id = 2; id <= 5; id++) EXPECT_EQ(take(), id);
}

TEST_F(Shared, AsManyWaitersAreWokenAsRequestsWait) {
    for (const std::uint32_t qp : {10u, 11u, 10u, 12u}) EXPECT_EQ(take(qp), kNone);
    EXPECT_EQ(queue.take_waiters(waiters), 0u);
    post(1, 2);
    ASSERT_EQ(queue.take_waiters(waiters), 2u);
    EXPECT_EQ(waiters[0], 10u);
    EXPECT_EQ(waiters[1], 11u);
    ASSERT_EQ(queue.take_waiters(waiters), 1u);
    EXPECT_EQ(waiters[0], 12u);
    EXPECT_EQ(queue.take_waiters(waiters), 0u);
}

TEST_F(Shared, AClosedQueueGivesAndReportsNothing) {
    post(1, 2);
    queue.arm_limit(1);
    queue.close();
    EXPECT_EQ(take(), kNone);
    EXPECT_EQ(queue.waiting(), 0u);
    EXPECT_EQ(limits.count, 0);
}

}  // namespace
}  // namespace verbena::transport
