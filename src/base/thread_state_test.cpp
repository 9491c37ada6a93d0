#include "base/thread_state.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <thread>

namespace verbena {
namespace {

TEST(ThreadState, OfOneThatComputesAndOneThatSleeps) {
    std::atomic<pid_t> busy{0}, idle{0};
    std::atomic<bool> stop{false};
    std::thread computes([&] {
        busy = gettid();
        while (!stop) {
        }
    });
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    std::thread sleeps([&] {
        idle = gettid();
        char byte;
        EXPECT_EQ(read(ends[0], &byte, 1), 1);
    });
    while (!busy || !idle) std::this_thread::yield();
    while (look_at_thread(idle).wants_processor) std::this_thread::yield();
    EXPECT_TRUE(look_at_thread(busy).wants_processor);
    const auto threads = threads_of_process();
    for (pid_t thread : {busy.load(), idle.load(), gettid()})
        EXPECT_EQ(std::count(threads.begin(), threads.end(), thread), 1);
    EXPECT_EQ(look_at_process().count, static_cast<long>(threads.size()));
    EXPECT_FALSE(look_at_process().first_has_left);
    while (look_at_thread(busy).used < 30 * kMillisecond) std::this_thread::yield();
    EXPECT_LT(look_at_thread(idle).used, 30 * kMillisecond);
    stop = true;
    EXPECT_EQ(write(ends[1], "x", 1), 1);
    computes.join();
    sleeps.join();
    close(ends[0]);
    close(ends[1]);
    while (look_at_thread(busy).wants_processor) std::this_thread::yield();  // the kernel is not done with it
    EXPECT_FALSE(look_at_thread(0).wants_processor);
}

}  // namespace
}  // namespace verbena
