#include "adapter/timers.h"

#include <gtest/gtest.h>

#include <random>
#include <thread>
#include <vector>

namespace verbena::adapter {
namespace {

std::vector<TimerNode*> fire(Timers& timers, Time now) {
    std::vector<TimerNode*> due;
    timers.fire(now, [&](TimerNode& node) { due.push_back(&node); });
    return due;
}

TEST(TimersTest, FireInTheOrderOfTheirDeadlines) {
    Timers timers;
    TimerNode a, b, c;
    EXPECT_EQ(timers.next(), kNever);
    timers.set(a, 30);
    timers.set(b, 10);
    timers.set(c, 20);
    EXPECT_EQ(timers.next(), 10);
    EXPECT_TRUE(fire(timers, 9).empty());
    EXPECT_EQ(fire(timers, 20), (std::vector<TimerNode*>{&b, &c}));
    EXPECT_EQ(timers.next(), 30);
    EXPECT_EQ(fire(timers, 30), (std::vector<TimerNode*>{&a}));
    EXPECT_EQ(timers.next(), kNever);
}

TEST(TimersTest, ADeadlineThatMovesLaterFiresThen) {
    Timers timers;
    TimerNode node;
    timers.set(node, 10);
    fire(timers, 0);
    timers.set(node, 50);
    EXPECT_LE(timers.next(), 50);  // a lower bound
    EXPECT_TRUE(fire(timers, 10).empty());
    EXPECT_EQ(timers.next(), 50);
    EXPECT_EQ(fire(timers, 50).size(), 1u);
}

TEST(TimersTest, ADeadlineThatMovesEarlierIsSeenAtOnce) {
    Timers timers;
    TimerNode node;
    timers.set(node, 50);
    fire(timers, 0);
    timers.set(node, 5);
    EXPECT_EQ(timers.next(), 5);
    EXPECT_EQ(fire(timers, 5).size(), 1u);
    EXPECT_TRUE(fire(timers, 50).empty());
}

TEST(TimersTest, ACancelledDeadlineDoesNotFire) {
    Timers timers;
    TimerNode node;
    timers.set(node, 10);
    timers.set(node, kNever);
    EXPECT_TRUE(fire(timers, 100).empty());
    EXPECT_EQ(timers.next(), kNever);
    timers.set(node, 110);
    fire(timers, 100);
    timers.set(node, kNever);
    EXPECT_TRUE(fire(timers, 200).empty());
    EXPECT_EQ(timers.next(), kNever);
}

TEST(TimersTest, ACallbackMaySetTheNextDeadlineEvenForNow) {
    Timers timers;
    TimerNode node;
    timers.set(node, 10);
    EXPECT_EQ(timers.fire(10, [&](TimerNode& due) { timers.set(due, 10); }), 1u);
    EXPECT_EQ(timers.next(), 10);
    EXPECT_EQ(fire(timers, 10).size(), 1u);
}

// Against a model: whatever was set last, and nothing else, fires.
TEST(TimersTest, ManyNodesFollowAModel) {
    std::mt19937 random(1);
    Timers timers;
    std::vector<TimerNode> nodes(300);
    std::vector<Time> model(nodes.size(), kNever);
    Time now = 0;
    for (int step = 0; step < 20000; step++) {
        const std::size_t i = random() % nodes.size();
        model[i] = random() % 8 == 0 ? kNever : now + 1 + random() % 1000;
        timers.set(nodes[i], model[i]);
        if (random() % 4) continue;
        now += random() % 200;
        Time earliest = kNever;
        std::size_t expected = 0;
        for (Time& deadline : model) {
            if (deadline <= now) {
                expected++;
                deadline = kNever;
            }
            earliest = std::min(earliest, deadline);
        }
        ASSERT_EQ(fire(timers, now).size(), expected);
        ASSERT_LE(timers.next(), earliest);
    }
}

// A long deadline that gives way to a short one, again and again.
TEST(TimersTest, WhatIsStaleIsNeitherReportedNorKeptForever) {
    Timers timers;
    TimerNode node, other;
    timers.set(other, 1'000'000);
    for (Time now = 0; now < 1000; now += 10) {
        timers.set(node, 500'000 + now);
        fire(timers, now);
        timers.set(node, now + 10);
        EXPECT_EQ(fire(timers, now + 10), (std::vector<TimerNode*>{&node}));
        EXPECT_LT(timers.entries(), 100u);
    }
    EXPECT_EQ(timers.next(), 1'000'000);
    EXPECT_TRUE(fire(timers, 999'999).empty());
    EXPECT_EQ(timers.next(), 1'000'000);
    EXPECT_EQ(fire(timers, 1'000'000), (std::vector<TimerNode*>{&other}));
    EXPECT_EQ(timers.entries(), 0u);
    EXPECT_EQ(timers.next(), kNever);
}

TEST(TimersTest, LooksByTheDeadlineOnceTheHeapHasIt) {
    Timers timers;
    TimerNode node;
    EXPECT_FALSE(timers.looks_by(node, 100));
    timers.set(node, 50);
    fire(timers, 0);
    EXPECT_TRUE(timers.looks_by(node, 50));
    EXPECT_FALSE(timers.looks_by(node, 49));
    timers.set(node, 70);  // the heap looks at 50, and goes on to 70
    EXPECT_FALSE(timers.looks_by(node, 60));
    EXPECT_TRUE(timers.looks_by(node, 70));
    EXPECT_EQ(fire(timers, 70), (std::vector<TimerNode*>{&node}));
    EXPECT_FALSE(timers.looks_by(node, 100));
}

TEST(TimersTest, ADeadlineThatMovesForwardBeforeItWasSeenIsTheNext) {
    Timers timers;
    TimerNode node;
    timers.set(node, 900);
    timers.set(node, 500);
    EXPECT_EQ(timers.next(), 500);
}

// No deadline is lost between a thread that sets and one that fires.
TEST(TimersTest, SettingAndFiringAtTheSameTime) {
    constexpr int kThreads = 3, kRounds = 20000;
    Timers timers;
    std::vector<TimerNode> nodes(kThreads);
    std::vector<std::atomic<int>> fired(kThreads);
    std::vector<std::thread> threads;
    std::atomic<int> running{kThreads};
    for (int t = 0; t < kThreads; t++)
        threads.emplace_back([&, t] {
            for (int i = 0; i < kRounds; i++) {
                timers.set(nodes[static_cast<std::size_t>(t)], i % 3 == 0 ? kNever : 1'000'000 - i);
                if (i % 512 == 0) std::this_thread::yield();
            }
            timers.set(nodes[static_cast<std::size_t>(t)], 500'000);
            running--;
        });
    while (running) timers.fire(0, [](TimerNode&) {});
    for (std::thread& thread : threads) thread.join();
    EXPECT_LE(timers.next(), 500'000);
    EXPECT_EQ(timers.fire(500'000,
                          [&](TimerNode& node) { fired[static_cast<std::size_t>(&node - nodes.data())]++; }),
              3u);
    for (std::atomic<int>& count : fired) EXPECT_EQ(count, 1);
}

}  // namespace
}  // namespace verbena::adapter
