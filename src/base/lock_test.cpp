#include "base/lock.h"

#include <gtest/gtest.h>

#include <mutex>
#include <thread>
#include <vector>

namespace verbena {
namespace {

TEST(LockTest, IsHeldByOneAtATime) {
    Lock lock;
    ASSERT_TRUE(lock.try_lock());
    EXPECT_FALSE(lock.try_lock());
    lock.unlock();
    EXPECT_TRUE(lock.try_lock());
    lock.unlock();
}

TEST(LockTest, WhoWaitsGetsIt) {
    constexpr int kThreads = 4, kRounds = 5000;
    Lock lock;
    long sum = 0;  // not atomic
    std::vector<std::thread> threads;
    for (int i = 0; i < kThreads; i++)
        threads.emplace_back([&] {
            for (int round = 0; round < kRounds; round++) {
                std::lock_guard guard(lock);
                sum = sum + 1;
                if (round % 64 == 0) std::this_thread::yield();  // so that others find it taken
            }
        });
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(sum, long{kThreads} * kRounds);
}

}  // namespace
}  // namespace verbena
