// What librdmacm asks of libibverbs (verbs/private.h) before it hands a DISCONNECTED event to a program, and
// before its calls turn to something else than polling.
#include "verbs/private.h"

#include <atomic>
#include <thread>

#include "harness.h"

namespace verbena::verbs_test {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kWork{50};
// verbena_quiesce() waits 500 ms at most. Who is not waited for costs no such time, at least once of some.
constexpr milliseconds kHeldUp{450};
constexpr milliseconds kAtOnce{250};
constexpr int kTries = 5;

class Quiesce : public testing::Test {
   protected:
    Quiesce() : Quiesce(Options{}) {}
    explicit Quiesce(const Options& options)
        : pair(options), local(pair.a.pd, 64), remote(pair.b.pd, 64), sge(local.sge(0, 64)) {}

    // A message to b, which has arrived when the send completes.
    void deliver() {
        ASSERT_EQ(pair.b.post_receive(1, remote.sge(0, 64)), 0);
        ASSERT_EQ(Request(1, IBV_WR_SEND, &sge, 1).post(pair.a.qp), 0);
        success(pair.a.send_cq);
    }
    Clock::duration quiesce() {
        const auto began = Clock::now();
        verbena_quiesce(pair.b.context, pair.b.qp);
        return Clock::now() - began;
    }

    Pair pair;
    Memory local, remote;
    ibv_sge sge;
};

class QuiesceWithChannel : public Quiesce {
   protected:
    static Options options() {
        Options made;
        made.with_channel = true;
        return made;
    }
    QuiesceWithChannel() : Quiesce(options()) {}
};

// Another thread has taken a completion and works on what it says: it is waited for until it polls again.
TEST_F(Quiesce, WaitsForAThreadThatWorksOnACompletion) {
    std::atomic<bool> working{false}, stop{false};
    std::thread poller([&] {
        while (!stop) {
            ibv_wc taken;
            if (ibv_poll_cq(pair.b.receive_cq, 1, &taken) != 1) continue;
            working = true;
            std::this_thread::sleep_for(kWork);
            working = false;
        }
    });
    deliver();
    while (!working) std::this_thread::yield();
    quiesce();
    EXPECT_FALSE(working);
    stop = true;
    poller.join();
}

// A message that has arrived, and that the other thread has not seen yet, comes before the event.
TEST_F(Quiesce, WaitsForAThreadThatHasYetToTakeACompletion) {
    std::atomic<bool> polled{false}, go{false}, taken{false};
    std::thread poller([&] {
        ibv_wc completion;
        EXPECT_EQ(ibv_poll_cq(pair.b.receive_cq, 1, &completion), 0);
        polled = true;
        while (!go) std::this_thread::yield();
        std::this_thread::sleep_for(kWork);
        while (ibv_poll_cq(pair.b.receive_cq, 1, &completion) == 0) {
        }
        taken = true;
        EXPECT_EQ(ibv_poll_cq(pair.b.receive_cq, 1, &completion), 0);
    });
    while (!polled) std::this_thread::yield();
    deliver();
    go = true;
    quiesce();
    EXPECT_TRUE(taken);
    poller.join();
}

TEST_F(Quiesce, DoesNotWaitForTheCaller) {
    auto quickest = Clock::duration::max();
    for (int i = 0; i < kTries; i++) {
        deliver();
        success(pair.b.receive_cq);  // and is at work on it
        quickest = std::min(quickest, quiesce());
    }
    EXPECT_LT(quickest, kAtOnce);
}

TEST_F(Quiesce, DoesNotWaitWhereNobodyPolls) {
    auto quickest = Clock::duration::max();
    for (int i = 0; i < kTries; i++) {
        deliver();
        quickest = std::min(quickest, quiesce());
    }
    EXPECT_LT(quickest, kAtOnce);
}

// A thread for the queue's events may just have been started: it is waited for, but only once.
TEST_F(QuiesceWithChannel, WaitsForAReaderThatNeverComesOnlyOnce) {
    std::atomic<bool> stop{false};
    std::thread other([&] {
        while (!stop) std::this_thread::sleep_for(milliseconds(1));
    });
    deliver();
    EXPECT_GE(quiesce(), kHeldUp);
    auto quickest = Clock::duration::max();
    for (int i = 0; i < kTries; i++) quickest = std::min(quickest, quiesce());
    EXPECT_LT(quickest, kAtOnce);
    stop = true;
    other.join();
}

#ifndef VERBENA_THREAD_SANITIZER  // which has a thread of its own
// A server of a single thread that ignores its receive completions: its clients do not leave one by one.
TEST_F(QuiesceWithChannel, DoesNotWaitWhereThereIsNoOtherThread) {
    deliver();
    EXPECT_LT(quiesce(), kHeldUp);
}

#endif

TEST_F(Quiesce, AQueuePairThatIsGoneIsNobodysConcern) {
    ibv_qp* qp = pair.b.qp;
    ASSERT_EQ(ibv_destroy_qp(qp), 0);
    pair.b.qp = nullptr;
    EXPECT_EQ(verbena_has_qp(pair.b.context, qp), 0);
    verbena_quiesce(pair.b.context, qp);
}

// Nobody polls any more: what has arrived is placed and acknowledged all the same.
TEST_F(Quiesce, SteppingAsideLeavesTheWorkToTheHelper) {
    ASSERT_EQ(pair.b.post_receive(1, remote.sge(0, 64)), 0);
    local.fill(5);
    ASSERT_EQ(Request(1, IBV_WR_SEND, &sge, 1).post(pair.a.qp), 0);
    verbena_step_aside();
    EXPECT_TRUE(wait_until([&] { return remote.load_word(7) == local.word(7); }));
    EXPECT_EQ(ibv_destroy_qp(pair.b.qp), 0);  // the acknowledgement has left, or leaves now
    pair.b.qp = nullptr;
    success(pair.a.send_cq);
}

}  // namespace
}  // namespace verbena::verbs_test
