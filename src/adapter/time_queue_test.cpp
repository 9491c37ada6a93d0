#include "adapter/time_queue.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

namespace verbena::adapter {
namespace {

using Queue = TimeQueue<const int>;

TEST(TimeQueue, GivesTheEarliestFirst) {
    Queue queue;
    EXPECT_EQ(queue.earliest(), kNever);
    for (const Time at : {30, 10, 20, 10, 40}) queue.push({at, nullptr});
    EXPECT_EQ(queue.size(), 5u);
    for (const Time at : {10, 10, 20, 30, 40}) {
        EXPECT_EQ(queue.earliest(), at);
        EXPECT_EQ(queue.pop().at, at);
    }
    EXPECT_EQ(queue.earliest(), kNever);
    EXPECT_EQ(queue.size(), 0u);
}

// More descending times than there are lanes.
TEST(TimeQueue, TakesTimesInAnyOrder) {
    Queue queue;
    for (Time at = 100; at > 0; at--) queue.push({at, nullptr});
    for (Time at = 1; at <= 100; at++) EXPECT_EQ(queue.pop().at, at);
}

TEST(TimeQueue, ForgetsWhatIsErased) {
    Queue queue;
    for (Time at = 0; at < 100; at++) queue.push({at * 37 % 100, nullptr});
    queue.erase_if([](const Queue::Entry& entry) { return entry.at % 2 == 0; });
    EXPECT_EQ(queue.size(), 50u);
    for (Time at = 1; at < 100; at += 2) EXPECT_EQ(queue.pop().at, at);
    EXPECT_EQ(queue.earliest(), kNever);
}

TEST(TimeQueue, FollowsAModel) {
    std::mt19937 random(1);
    Queue queue;
    std::multiset<std::pair<Time, const int*>> model;
    std::array<int, 50> nodes;
    Time now = 0;
    for (int step = 0; step < 100'000; step++) {
        now += random() % 10;
        const Time intervals[] = {100, 2'000, 256'000, static_cast<Time>(random() % 5'000)};
        const Queue::Entry entry{now + intervals[random() % 4], &nodes[random() % nodes.size()]};
        queue.push(entry);
        model.emplace(entry.at, entry.node);
        while (!model.empty() && model.begin()->first <= now) {
            ASSERT_EQ(queue.earliest(), model.begin()->first);
            const Queue::Entry first = queue.pop();
            const auto found = model.find({first.at, first.node});
            ASSERT_NE(found, model.end());
            model.erase(found);
        }
        if (step % 10'000 == 0) {
            const int* gone = entry.node;
            queue.erase_if([gone](const Queue::Entry& each) { return each.node == gone; });
            std::erase_if(model, [gone](const auto& each) { return each.second == gone; });
        }
        ASSERT_EQ(queue.size(), model.size());
    }
}

}  // namespace
}  // namespace verbena::adapter
