#include "base/thread_end.h"

#include <gtest/gtest.h>

#include <thread>

namespace verbena {
namespace {

int ended = 0;
void count_end(void* value) { ended += *static_cast<int*>(value); }

TEST(ThreadEnd, IsCalledOnceForEachThreadThatAwaitsIt) {
    constinit static ThreadEnd end{count_end};
    ended = 0;
    int weight = 2;
    std::thread([&] { EXPECT_TRUE(end.await(&weight)); }).join();
    EXPECT_EQ(ended, 2);
    std::thread([] {}).join();
    EXPECT_EQ(ended, 2);
    std::thread([&] {
        EXPECT_TRUE(end.await(&weight));
        EXPECT_TRUE(end.await(&weight));
    }).join();
    EXPECT_EQ(ended, 4);
}

TEST(ThreadEnd, IsCalledForWhoUnloadsItAndForNoOther) {
    ended = 0;
    int weight = 3;
    {
        ThreadEnd end{count_end};
        EXPECT_TRUE(end.await(&weight));
    }
    EXPECT_EQ(ended, 3);
}

}  // namespace
}  // namespace verbena
