#include "verbs/event_queue.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <memory>
#include <thread>

namespace verbena::verbs {
namespace {

class EventQueueTest : public ::testing::Test {
   protected:
    using Queue = EventQueue<int>;

    void SetUp() override { fcntl(queue_.fd(), F_SETFL, O_NONBLOCK); }

    // What the descriptor tells.
    bool readable() const {
        pollfd entry{queue_.fd(), POLLIN, 0};
        return poll(&entry, 1, 0) == 1;
    }
    // -1: there was none.
    int take() {
        int event = 0;
        const int error = queue_.take(event, [this](int) { taken_++; });
        EXPECT_TRUE(error == 0 || error == EAGAIN) << error;
        return error == 0 ? event : -1;
    }
    int take_at_once() {
        int event = 0;
        return queue_.take_at_once(event, [this](int) { taken_++; }) ? event : -1;
    }
    void push_elsewhere(int event) {
        std::thread([&] { queue_.push(event); }).join();
    }

    Queue queue_;
    int taken_ = 0;
};

TEST_F(EventQueueTest, IsReadableWhileItHoldsSomething) {
    EXPECT_FALSE(readable());
    queue_.push(1);
    queue_.push(2);
    EXPECT_TRUE(readable());
    EXPECT_EQ(take(), 1);
    EXPECT_TRUE(readable());
    EXPECT_EQ(take_at_once(), 2);
    EXPECT_FALSE(readable());
    EXPECT_EQ(take(), -1);
    EXPECT_EQ(take_at_once(), -1);
    EXPECT_EQ(taken_, 2);
}

TEST_F(EventQueueTest, WhoExpectsAnEventTakesWhatItQueuedWithoutTheDescriptor) {
    const Queue::Expecting expecting(queue_);
    queue_.push(1);
    EXPECT_EQ(queue_.awaited().events, 1u);
    EXPECT_FALSE(readable());
    EXPECT_EQ(take(), 1);
    EXPECT_EQ(queue_.awaited().events, 0u);
}

TEST_F(EventQueueTest, WhatItLeavesIsTold) {
    {
        const Queue::Expecting expecting(queue_);
        for (int event : {1, 2, 3}) queue_.push(event);
        EXPECT_EQ(take(), 1);
    }
    EXPECT_TRUE(readable());
    EXPECT_EQ(take(), 2);
    EXPECT_EQ(take(), 3);
    EXPECT_FALSE(readable());
}

TEST_F(EventQueueTest, WhatOthersQueueMeanwhileIsTold) {
    const Queue::Expecting expecting(queue_);
    push_elsewhere(1);
    EXPECT_TRUE(readable());
    queue_.push(2);
    EXPECT_EQ(take(), 1);
    EXPECT_EQ(take(), 2);
    EXPECT_FALSE(readable());
}

TEST_F(EventQueueTest, OthersDoNotTakeWhatIsExpected) {
    const Queue::Expecting expecting(queue_);
    queue_.push(1);
    std::thread([&] {
        EXPECT_EQ(take(), -1);
        EXPECT_EQ(take_at_once(), -1);
    }).join();
    EXPECT_EQ(take(), 1);
}

TEST_F(EventQueueTest, OnlyOneThreadExpects) {
    const Queue::Expecting expecting(queue_);
    std::thread([&] {
        const Queue::Expecting too(queue_);
        queue_.push(1);
    }).join();
    EXPECT_TRUE(readable());
    queue_.push(2);
    EXPECT_EQ(take(), 1);
}

TEST_F(EventQueueTest, WhatIsTakenBackIsNoLongerTold) {
    queue_.push(1);
    {
        const Queue::Expecting expecting(queue_);
        queue_.push(2);
        queue_.push(3);
        queue_.remove_if([](int event) { return event != 3; });
        EXPECT_EQ(take(), 3);
        queue_.push(4);
        queue_.remove_if([](int) { return true; });
        EXPECT_EQ(queue_.awaited().events, 0u);
    }
    EXPECT_FALSE(readable());
    EXPECT_EQ(take(), -1);
}

TEST_F(EventQueueTest, WhatIsQueuedWithLocksInHandIsToldBehindThem) {
    {
        const PutOff behind_locks;
        queue_.push(1);
        queue_.push(2);
        EXPECT_EQ(queue_.awaited().events, 2u);
        EXPECT_FALSE(readable());
    }
    EXPECT_TRUE(readable());
    EXPECT_EQ(take(), 1);
    EXPECT_TRUE(readable());
    EXPECT_EQ(take_at_once(), 2);
    EXPECT_FALSE(readable());
}

TEST_F(EventQueueTest, WhoComesForItBeforeThatSparesTheDescriptor) {
    queue_.push(1);
    {
        const PutOff behind_locks;
        queue_.push(2);
        queue_.push(3);
        std::thread([&] {
            EXPECT_EQ(take_at_once(), 1);
            EXPECT_EQ(take(), 2);
        }).join();
        EXPECT_TRUE(readable());  // of the first, for the third
    }
    EXPECT_EQ(take(), 3);
    EXPECT_EQ(take(), -1);
    EXPECT_FALSE(readable());
}

TEST_F(EventQueueTest, WhatIsTakenBackBeforeThatIsNeverTold) {
    {
        const PutOff behind_locks;
        queue_.push(1);
        queue_.push(2);
        queue_.remove_if([](int event) { return event == 1; });
        EXPECT_EQ(queue_.awaited().events, 1u);
    }
    EXPECT_EQ(take(), 2);
    EXPECT_FALSE(readable());
}

// Its last event is told, though nobody is left to take it.
TEST_F(EventQueueTest, AQueueStaysUntilWhoHasPutSomethingOffIsDone) {
    auto queue = std::make_unique<Queue>();
    std::atomic<bool> ended{false};
    std::thread destroyer;
    {
        const PutOff behind_locks;
        queue->push(1);
        destroyer = std::thread([&] {
            queue.reset();
            ended = true;
        });
        for (int i = 0; i < 100; i++) std::this_thread::yield();
        EXPECT_FALSE(ended);
    }
    destroyer.join();
    EXPECT_TRUE(ended);
}

// The child's copy says that the other thread, which it has not, has something to tell.
TEST_F(EventQueueTest, AForkedChildWaitsForNobody) {
    auto queue = std::make_unique<Queue>();
    std::atomic<bool> queued{false}, forked{false};
    std::thread teller([&] {
        const PutOff behind_locks;
        queue->push(1);
        queued = true;
        while (!forked) std::this_thread::yield();
    });
    while (!queued) std::this_thread::yield();
    const pid_t child = fork();
    if (child == 0) {
        alarm(60);
        queue.reset();
        _exit(0);
    }
    forked = true;
    teller.join();
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
}

// One that has read the descriptor finds the queue short, and leaves what is expected to who expects it.
TEST_F(EventQueueTest, AReaderThatIsTooLateWaitsAgain) {
    push_elsewhere(1);
    const Queue::Expecting expecting(queue_);
    queue_.push(2);
    std::uint64_t one;
    ASSERT_EQ(read(queue_.fd(), &one, sizeof one), static_cast<ssize_t>(sizeof one));  // the other thread's
    queue_.remove_if([](int event) { return event == 1; });
    std::thread([&] { EXPECT_EQ(take_at_once(), -1); }).join();
    EXPECT_EQ(take(), 2);
    EXPECT_FALSE(readable());
}

// Cancelled behind what it took: it returns with that, and what it leaves is told.
TEST_F(EventQueueTest, ACancelledThreadLosesNothing) {
    std::atomic<int> got{0};
    std::thread thread([&] {
        pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, nullptr);
        {
            const Queue::Expecting expecting(queue_);
            queue_.push(1);
            queue_.push(2);
            pthread_cancel(pthread_self());
            got = take();
        }
        pthread_testcancel();
        got = -1;
    });
    thread.join();
    EXPECT_EQ(got, 1);
    EXPECT_TRUE(readable());
    EXPECT_EQ(take(), 2);
}

}  // namespace
}  // namespace verbena::verbs
