#include "base/lock.h"

#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <thread>
#include <vector>

#include "base/heavy_barrier.h"

namespace verbena {
namespace {

constexpr int kEnough = 1 << 12;  // times in a row, for a first bias

void take(Lock& lock, int times) {
    for (int i = 0; i < times; i++) {
        lock.lock();
        lock.unlock();
    }
}

// What is under the lock is not atomic: two at once lose counts.
struct Guarded {
    Lock lock;
    long sum = 0;

    void add() {
        std::lock_guard guard(lock);
        sum = sum + 1;
    }
};

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
    Guarded guarded;
    std::vector<std::thread> threads;
    for (int i = 0; i < kThreads; i++)
        threads.emplace_back([&] {
            for (int round = 0; round < kRounds; round++) {
                guarded.add();
                if (round % 64 == 0) std::this_thread::yield();  // so that others find it taken
            }
        });
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(guarded.sum, long{kThreads} * kRounds);
}

class OwnedLockTest : public testing::Test {
   protected:
    void SetUp() override {
        if (!allow_heavy_barriers()) GTEST_SKIP() << "no membarrier here";
        take(guarded_.lock, kEnough);
        ASSERT_TRUE(guarded_.lock.is_owned());
    }

    Guarded guarded_;
};

TEST_F(OwnedLockTest, IsHeldByOneAtATime) {
    ASSERT_TRUE(guarded_.lock.try_lock());
    EXPECT_FALSE(guarded_.lock.try_lock());  // which ends the bias
    EXPECT_FALSE(guarded_.lock.try_lock());
    std::thread([&] { EXPECT_FALSE(guarded_.lock.try_lock()); }).join();
    guarded_.lock.unlock();
    EXPECT_TRUE(guarded_.lock.try_lock());
    guarded_.lock.unlock();
}

TEST_F(OwnedLockTest, AnotherThreadTakesItWhileTheOwnerIsOutside) {
    std::thread([&] {
        ASSERT_TRUE(guarded_.lock.try_lock());
        guarded_.lock.unlock();
    }).join();
    EXPECT_FALSE(guarded_.lock.is_owned());
    ASSERT_TRUE(guarded_.lock.try_lock());
    std::thread([&] { EXPECT_FALSE(guarded_.lock.try_lock()); }).join();
    guarded_.lock.unlock();
}

TEST_F(OwnedLockTest, AnotherThreadWaitsForTheOwner) {
    guarded_.lock.lock();
    std::atomic<bool> waits{false};
    std::thread other([&] {
        waits.store(true);
        guarded_.add();
    });
    while (!waits.load() || guarded_.lock.is_owned()) std::this_thread::yield();  // it has ended the bias
    EXPECT_EQ(guarded_.sum, 0);
    guarded_.lock.unlock();
    other.join();
    EXPECT_EQ(guarded_.sum, 1);
}

TEST_F(OwnedLockTest, TheSameThreadEarnsItAgainAndAnotherOnlyAfterTheFirstCameBy) {
    constexpr int kMore = 1 << 18;  // it takes longer each time
    std::thread([&] {
        take(guarded_.lock, kMore);
        EXPECT_FALSE(guarded_.lock.is_owned());  // the first may be about to enter as its owner
    }).join();
    take(guarded_.lock, kMore);
    EXPECT_TRUE(guarded_.lock.is_owned());
    std::thread([&] { take(guarded_.lock, 1); }).join();
    take(guarded_.lock, 1);
    std::thread([&] {
        take(guarded_.lock, kMore);
        EXPECT_TRUE(guarded_.lock.is_owned());
    }).join();
}

TEST_F(OwnedLockTest, IsEarnedAgainAfterOthersHaveTriedInVain) {
    constexpr int kMore = 1 << 14;
    guarded_.lock.lock();
    std::thread([&] { EXPECT_FALSE(guarded_.lock.try_lock()); }).join();
    EXPECT_FALSE(guarded_.lock.is_owned());
    guarded_.lock.unlock();
    take(guarded_.lock, kMore);
    EXPECT_TRUE(guarded_.lock.is_owned());
}

// The owner enters and leaves all the time, others come in between, sometimes by try_lock() alone.
TEST_F(OwnedLockTest, NoCountIsLost) {
    constexpr int kOthers = 2, kRounds = 3000, kOwners = 3'000'000;
    std::atomic<long> tried{0};
    std::vector<std::thread> others;
    for (int i = 0; i < kOthers; i++)
        others.emplace_back([&, i] {
            for (int round = 0; round < kRounds; round++) {
                if (round % 4 == i) {
                    if (!guarded_.lock.try_lock()) continue;
                    guarded_.sum = guarded_.sum + 1;
                    guarded_.lock.unlock();
                } else {
                    guarded_.add();
                }
                tried.fetch_add(1);
                for (int pause = 0; pause < round % 100; pause++) std::this_thread::yield();
            }
        });
    long mine = 0;
    for (; mine < kOwners; mine++) guarded_.add();
    for (std::thread& other : others) other.join();
    EXPECT_EQ(guarded_.sum, mine + tried.load());
}

}  // namespace
}  // namespace verbena
