#include "base/thread_state.h"

#include <fcntl.h>
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
    while (wants_processor(idle)) std::this_thread::yield();
    EXPECT_TRUE(wants_processor(busy));
    const auto threads = threads_of_process();
    for (pid_t thread : {busy.load(), idle.load(), gettid()})
        EXPECT_EQ(std::count(threads.begin(), threads.end(), thread), 1);
    EXPECT_EQ(look_at_process().count, static_cast<long>(threads.size()));
    EXPECT_FALSE(look_at_process().first_has_left);
    while (processor_time(busy) < 30 * kMillisecond) std::this_thread::yield();
    EXPECT_LT(processor_time(idle), 30 * kMillisecond);
    stop = true;
    EXPECT_EQ(write(ends[1], "x", 1), 1);
    computes.join();
    sleeps.join();
    close(ends[0]);
    close(ends[1]);
    while (wants_processor(busy)) std::this_thread::yield();  // the kernel is not done with it
    EXPECT_FALSE(wants_processor(0));
    while (processor_time(busy) >= 0) std::this_thread::yield();
    EXPECT_LT(processor_time(0), 0);
}

TEST(ThreadState, ByAFileOfItsOwn) {
    std::atomic<int> file{-1};
    std::atomic<bool> computes{true};
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    std::thread other([&] {
        file = open(kOwnStat, O_RDONLY | O_CLOEXEC);
        while (computes) {
        }
        char byte;
        EXPECT_EQ(read(ends[0], &byte, 1), 1);
    });
    while (file < 0) std::this_thread::yield();
    EXPECT_TRUE(opener_wants_processor(file));
    computes = false;
    while (opener_wants_processor(file)) std::this_thread::yield();
    EXPECT_EQ(write(ends[1], "x", 1), 1);
    other.join();
    while (opener_wants_processor(file)) std::this_thread::yield();
    close(file);
    EXPECT_FALSE(opener_wants_processor(ends[0])) << "not such a file";
    close(ends[0]);
    close(ends[1]);
}

}  // namespace
}  // namespace verbena
