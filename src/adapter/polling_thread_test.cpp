#include "adapter/polling_thread.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <thread>

#include "adapter/clock.h"

namespace verbena::adapter {
namespace {

constexpr Duration kLong = 10 * kSecond;  // what has to come is waited for

template <class Condition>
bool comes(Condition condition) {
    for (const Time start = now(); !condition();)
        if (now() - start > kLong) return false;
    return true;
}

// A thread that computes, and then sleeps.
class Other {
   public:
    explicit Other(PollingThread& known)
        : thread_([this, &known] {
              known.begins();
              stage_ = Stage::computes;
              while (stage_ == Stage::computes) {
              }
              char byte;
              EXPECT_EQ(read(pipe_[0], &byte, 1), 0);
          }) {
        while (stage_ == Stage::starts) std::this_thread::yield();
    }
    ~Other() {
        sleep();
        end();
    }
    void sleep() { stage_ = Stage::sleeps; }
    void end() {
        if (!thread_.joinable()) return;
        close(pipe_[1]);
        thread_.join();
        close(pipe_[0]);
    }

   private:
    enum class Stage { starts, computes, sleeps };
    int pipe_[2] = {};
    const int error_ = pipe(pipe_);
    std::atomic<Stage> stage_{Stage::starts};
    std::thread thread_;
};

TEST(PollingThreadTest, NobodyAtFirst) {
    const PollingThread thread;
    EXPECT_LT(thread.ran(), 0);
    EXPECT_FALSE(thread.is_runnable());
}

TEST(PollingThreadTest, TheCallerRuns) {
    PollingThread thread;
    thread.begins();
    thread.goes_on();
    EXPECT_TRUE(thread.is_runnable());
    const Duration before = thread.ran();
    EXPECT_GE(before, 0);
    EXPECT_TRUE(comes([&] { return thread.ran() >= before + kMillisecond; }));
}

TEST(PollingThreadTest, AnotherOneComputesAndSleepsAndEnds) {
    PollingThread thread;
    Other other(thread);
    EXPECT_TRUE(thread.is_runnable());
    const Duration before = thread.ran();
    EXPECT_TRUE(comes([&] { return thread.ran() >= before + kMillisecond; }));
    other.sleep();
    EXPECT_TRUE(comes([&] { return !thread.is_runnable(); }));
    EXPECT_GE(thread.ran(), before + kMillisecond);
    other.end();
    EXPECT_TRUE(comes([&] { return thread.ran() < 0; })) << "the kernel may still be at it";
    EXPECT_FALSE(thread.is_runnable());
}

TEST(PollingThreadTest, OfSeveralNobodyIsAskedAbout) {
    PollingThread thread;
    Other other(thread);
    thread.goes_on();
    EXPECT_LT(thread.ran(), 0);
    EXPECT_FALSE(thread.is_runnable());
    thread.begins();
    EXPECT_GE(thread.ran(), 0);
    EXPECT_TRUE(thread.is_runnable()) << "the caller, and no more the other one";
}

// What the program has by its number stays.
TEST(PollingThreadTest, AFileThatTheProgramClosed) {
    int kept[2];
    ASSERT_EQ(pipe(kept), 0);
    {
        PollingThread thread;
        const int next = out_of_the_way(dup(kept[0]));
        close(next);
        thread.begins();
        ASSERT_EQ(dup2(kept[0], next), next);
        EXPECT_FALSE(thread.is_runnable()) << "not to be read from";
        Other other(thread);
        EXPECT_TRUE(thread.is_runnable()) << "by a file of its own";
        EXPECT_TRUE(FileIdentity::of(kept[0]).is(next));
        close(next);
    }
    close(kept[0]);
    close(kept[1]);
}

}  // namespace
}  // namespace verbena::adapter
