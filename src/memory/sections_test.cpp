#include "memory/sections.h"

#include <gtest/gtest.h>

#include <mutex>
#include <thread>
#include <vector>

#include "base/heavy_barrier.h"
#include "base/lock.h"

namespace verbena::memory {
namespace {

// Some have a stripe of their own, the others share one.
TEST(SectionsTest, AllThreadsAreWaitedFor) {
    constexpr unsigned kThreads = Sections::kStripes + 8;
    Sections sections{};
    Lock lock;
    std::atomic<unsigned> inside{0}, left{0};
    std::atomic<bool> go{false};
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < kThreads; i++)
        threads.emplace_back([&, i] {
            const auto stay = [&] {
                inside++;
                while (!go) std::this_thread::yield();
                left++;
            };
            if (i % 2 == 0) {
                Section section(sections);
                return stay();
            }
            Section section(sections, lock);
            lock.unlock();
            stay();
        });
    while (inside != kThreads) std::this_thread::yield();
    GraceWatch watch;
    watch.start();
    EXPECT_FALSE(watch.over(sections));
    go = true;
    sections.wait_for_grace();
    EXPECT_EQ(left, kThreads);
    EXPECT_TRUE(watch.over(sections));
    for (std::thread& thread : threads) thread.join();
}

// Entering by a lock of one's own is no barrier; then the barrier is that of who waits.
TEST(SectionsTest, WhoEntersByItsOwnLockIsWaitedFor) {
    constexpr int kEnough = 1 << 12, kRounds = 20'000;
    allow_heavy_barriers();
    Sections sections{};
    Lock lock;
    std::atomic<int> alive{0};  // the number of what may be used
    std::atomic<int> freed{-1};
    std::atomic<bool> ready{false};
    std::thread user([&] {
        for (int i = 0; i < kEnough; i++) std::lock_guard guard(lock);
        ready = true;
        for (int used = 0; used < kRounds;) {
            const Section section(sections, lock);
            used = alive.load(std::memory_order_relaxed);
            EXPECT_LT(freed.load(std::memory_order_relaxed), used);
            lock.unlock();
        }
    });
    while (!ready) std::this_thread::yield();
    for (int i = 1; i <= kRounds; i++) {
        alive.store(i, std::memory_order_relaxed);
        sections.wait_for_grace();
        freed.store(i - 1, std::memory_order_relaxed);
    }
    user.join();
}

// A thread that waits for the lock does not keep whoever has it from seeing the end of a grace period.
TEST(SectionsTest, WhoWaitsForALockIsNotInside) {
    Sections sections{};
    Lock lock;
    lock.lock();
    std::thread other([&] {
        const Section section(sections, lock);
        lock.unlock();
    });
    GraceWatch watch;
    watch.start();
    while (!watch.over(sections)) std::this_thread::yield();
    lock.unlock();
    other.join();
}

TEST(SectionsTest, SectionsOfOneThreadMayBeNested) {
    Sections sections{};
    Lock lock;
    {
        const Section outer(sections);
        {
            const Section inner(sections, lock);
            lock.unlock();
        }
        GraceWatch watch;
        watch.start();
        EXPECT_TRUE(watch.over(sections)) << "one is the caller's own";
        const Section inner(sections);
        watch.start();
        EXPECT_FALSE(watch.over(sections));
    }
    sections.wait_for_grace();
}

// Many threads that are never all outside at once: each is seen outside once.
TEST(SectionsTest, ThreadsThatTakeTurnsAreNotWaitedForTogether) {
    constexpr unsigned kThreads = 128;
    Sections sections{};
    std::atomic<unsigned> there{0}, turn{0}, entered{0}, left{0};
    std::vector<std::thread> threads;
    for (unsigned i = 1; i <= kThreads; i++)
        threads.emplace_back([&, i] {
            { const Section first(sections); }
            there++;
            while (turn < i) std::this_thread::yield();
            {
                const Section section(sections);
                entered = i;
                while (turn < i + 2) std::this_thread::yield();
            }
            left = i;
        });
    while (there != kThreads) std::this_thread::yield();
    GraceWatch watch;
    bool over = false;
    for (unsigned i = 1; i <= kThreads; i++) {  // two are inside: this one and the one before
        turn = i;
        while (entered < i || left + 2 < i) std::this_thread::yield();
        if (i == kThreads / 2 + 10) watch.start();
        if (i > kThreads / 2 + 10) over = over || watch.over(sections);
    }
    EXPECT_TRUE(over) << "who was inside is outside; others have come since";
    turn = kThreads + 2;
    for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace verbena::memory
