#include "completion/completion_queue.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <memory>
#include <thread>

#include "completion/moderation.h"

namespace verbena::completion {
namespace {

struct Listener : CompletionListener {
    void completion_event(CompletionQueue&) override { events++; }
    void overrun(CompletionQueue&) override { overruns++; }
    int events = 0, overruns = 0;
};

Completion with_id(std::uint64_t id, Status status = Status::success) {
    Completion c;
    c.wr_id = id;
    c.status = status;
    return c;
}

TEST(CompletionQueue, KeepsOrderAcrossTheWrap) {
    CompletionQueue queue(3, nullptr);
    Completion out[4];
    EXPECT_EQ(queue.poll(out), 0u);
    std::uint64_t next = 0, seen = 0;
    for (int round = 0; round < 10; round++) {
        queue.push(with_id(next++), false);
        queue.push(with_id(next++), false);
        ASSERT_EQ(queue.poll(out), 2u);
        EXPECT_EQ(out[0].wr_id, seen++);
        EXPECT_EQ(out[1].wr_id, seen++);
    }
}

TEST(CompletionQueue, Overrun) {
    Listener listener;
    CompletionQueue queue(2, &listener);
    for (int i = 0; i < 4; i++) queue.push(with_id(1), false);
    EXPECT_EQ(listener.overruns, 1);
    EXPECT_TRUE(queue.in_error());
    Completion out[4];
    EXPECT_EQ(queue.poll(out), 2u);
    queue.push(with_id(2), false);
    EXPECT_EQ(queue.poll(out), 0u);
}

// As many as there is room for, and none where somebody may have to be told.
TEST(CompletionQueue, TakesSomeTogether) {
    Listener listener;
    CompletionQueue queue(4, &listener);
    const auto push = [&](std::size_t most) {
        return queue.push_some(most, [](Completion& place, std::size_t n) { place = with_id(10 + n); });
    };
    EXPECT_EQ(push(3), 3u);
    EXPECT_EQ(push(3), 1u);
    EXPECT_EQ(push(3), 0u);
    EXPECT_FALSE(queue.in_error());
    Completion out[4];
    ASSERT_EQ(queue.poll(out), 4u);
    EXPECT_EQ(out[2].wr_id, 12u);
    EXPECT_EQ(out[3].wr_id, 10u);
    queue.arm(false);
    EXPECT_EQ(push(3), 0u);
    EXPECT_EQ(queue.waiting(), 0u);
    queue.push(with_id(1), false);
    EXPECT_EQ(listener.events, 1);
    EXPECT_EQ(push(3), 3u);
}

TEST(CompletionQueue, OneEventForEachArming) {
    Listener listener;
    CompletionQueue queue(16, &listener);
    queue.push(with_id(1), false);
    EXPECT_EQ(listener.events, 0);
    queue.arm(false);
    EXPECT_EQ(listener.events, 0);  // what came before does not count
    queue.push(with_id(2), false);
    queue.push(with_id(3), false);
    EXPECT_EQ(listener.events, 1);
    queue.arm(false);
    queue.push(with_id(4), false);
    EXPECT_EQ(listener.events, 2);
}

TEST(CompletionQueue, SolicitedOnly) {
    Listener listener;
    CompletionQueue queue(16, &listener);
    queue.arm(true);
    queue.push(with_id(1), false);
    EXPECT_EQ(listener.events, 0);
    queue.push(with_id(2), true);
    EXPECT_EQ(listener.events, 1);
    queue.arm(true);
    queue.push(with_id(3, Status::work_request_flushed), false);
    EXPECT_EQ(listener.events, 2);
    queue.arm(false);
    queue.arm(true);  // does not weaken the first
    queue.push(with_id(4), false);
    EXPECT_EQ(listener.events, 3);
    queue.arm(true);
    queue.arm(false);
    queue.push(with_id(5), false);
    EXPECT_EQ(listener.events, 4);
}

// ibv_modify_cq(3). Completions of the times 1000, 1001, ...
class Moderated : public testing::Test {
   protected:
    void push(int count = 1, Status status = Status::success) {
        for (int i = 0; i < count; i++) {
            Completion c = with_id(1, status);
            c.timestamp = static_cast<std::uint64_t>(now++);
            queue.push(c, false);
        }
    }
    Listener listener;
    EventDeadlines deadlines;
    CompletionQueue queue{16, &listener};
    Time now = 1000;
};

TEST_F(Moderated, WaitsForTheCount) {
    queue.moderate(3, 0, deadlines);
    push(5);
    queue.arm(false);
    push(2);
    EXPECT_EQ(listener.events, 0);
    EXPECT_EQ(deadlines.next(), kNever);
    push(2);
    EXPECT_EQ(listener.events, 1);
    queue.arm(false);
    push(2);
    EXPECT_EQ(listener.events, 1) << "the count begins with the arming";
    push();
    EXPECT_EQ(listener.events, 2);
}

TEST_F(Moderated, TellsThatItHoldsOne) {
    using Armed = CompletionQueue::Armed;
    EXPECT_EQ(queue.notice().armed, Armed::no);
    queue.moderate(2, 0, deadlines);
    queue.arm(false);
    EXPECT_EQ(queue.notice().armed, Armed::any);
    EXPECT_FALSE(queue.notice().is_held);
    push();
    EXPECT_TRUE(queue.notice().is_held);
    push();
    EXPECT_EQ(queue.notice().armed, Armed::no);
    EXPECT_FALSE(queue.notice().is_held);
    queue.arm(true);
    EXPECT_EQ(queue.notice().armed, Armed::solicited);
}

TEST_F(Moderated, OrForTheTimeAfterTheFirst) {
    queue.moderate(3, 100, deadlines);
    queue.arm(false);
    deadlines.fire(5000);
    EXPECT_EQ(listener.events, 0) << "nothing has come";
    push(2);
    EXPECT_EQ(deadlines.next(), 1100);
    deadlines.fire(1099);
    EXPECT_EQ(listener.events, 0);
    deadlines.fire(1100);
    EXPECT_EQ(listener.events, 1);
    EXPECT_EQ(deadlines.next(), kNever);
    queue.arm(false);
    push(3);
    EXPECT_EQ(listener.events, 2);
    deadlines.fire(1102 + 100);
    EXPECT_EQ(listener.events, 2) << "one for each arming";
    EXPECT_EQ(deadlines.next(), kNever);
    // A time without a count.
    queue.moderate(0, 100, deadlines);
    queue.arm(false);
    push(10);
    EXPECT_EQ(listener.events, 2);
    deadlines.fire(now + 100);
    EXPECT_EQ(listener.events, 3);
}

TEST_F(Moderated, CountsWhatWasArmedFor) {
    queue.moderate(2, 0, deadlines);
    queue.arm(true);
    push(5);
    EXPECT_EQ(listener.events, 0);
    push(2, Status::work_request_flushed);
    EXPECT_EQ(listener.events, 1);
}

TEST_F(Moderated, NoLongerGivesWhatWaited) {
    queue.moderate(10, 1000, deadlines);
    queue.arm(false);
    push();
    EXPECT_EQ(listener.events, 0);
    queue.moderate(1, 0, deadlines);
    EXPECT_EQ(listener.events, 1);
    queue.arm(false);
    push();
    EXPECT_EQ(listener.events, 2);
}

TEST_F(Moderated, AFullQueueIsEnough) {
    queue.moderate(1000, 0, deadlines);
    queue.arm(false);
    push(15);
    EXPECT_EQ(listener.events, 0);
    push();
    EXPECT_EQ(listener.events, 1);
}

// With what came before the arming, with what was not armed for, and with what made the queue smaller.
TEST_F(Moderated, HoweverItBecameFull) {
    queue.moderate(10, 0, deadlines);
    push(14);
    queue.arm(false);
    push();
    EXPECT_EQ(listener.events, 0);
    push();
    EXPECT_EQ(listener.events, 1);
    Completion out[16];
    ASSERT_EQ(queue.poll(out), 16u);
    queue.arm(true);
    push(1, Status::work_request_flushed);
    push(14);
    EXPECT_EQ(listener.events, 1);
    push();
    EXPECT_EQ(listener.events, 2);
    ASSERT_EQ(queue.poll(out), 16u);
    queue.arm(false);
    push(8);
    ASSERT_EQ(queue.resize(9), 0);
    EXPECT_EQ(listener.events, 2);
    ASSERT_EQ(queue.resize(8), 0);
    EXPECT_EQ(listener.events, 3);
}

TEST_F(Moderated, FallsSilent) {
    queue.moderate(10, 100, deadlines);
    queue.arm(false);
    push();
    queue.fall_silent();
    deadlines.fire(5000);
    push(16);
    EXPECT_EQ(listener.events, 0);
    EXPECT_EQ(listener.overruns, 0);
    EXPECT_EQ(deadlines.next(), kNever);
}

TEST_F(Moderated, TheEarliestOfSeveralIsNext) {
    CompletionQueue other(4, &listener);
    auto gone = std::make_unique<CompletionQueue>(4, &listener);
    queue.moderate(0, 100, deadlines);
    other.moderate(0, 50, deadlines);
    gone->moderate(0, 10, deadlines);
    for (CompletionQueue* each : {&queue, &other, gone.get()}) each->arm(false);
    push();
    Completion c;
    c.timestamp = 1000;
    other.push(c, false);
    gone->push(c, false);
    gone.reset();
    deadlines.fire(1040);
    EXPECT_EQ(deadlines.next(), 1050);
    deadlines.fire(1050);
    EXPECT_EQ(listener.events, 1);
    EXPECT_EQ(deadlines.next(), 1100);
}

TEST(CompletionQueue, Resize) {
    CompletionQueue queue(4, nullptr);
    Completion out[8];
    for (int i = 0; i < 3; i++) queue.push(with_id(0), false);
    ASSERT_EQ(queue.poll({out, 3}), 3u);
    for (std::uint64_t i = 0; i < 4; i++) queue.push(with_id(i), false);
    EXPECT_EQ(queue.resize(3), EINVAL);
    ASSERT_EQ(queue.resize(6), 0);
    EXPECT_EQ(queue.capacity(), 6u);
    queue.push(with_id(4), false);
    queue.push(with_id(5), false);
    ASSERT_EQ(queue.poll(out), 6u);
    for (std::uint64_t i = 0; i < 6; i++) EXPECT_EQ(out[i].wr_id, i);
    EXPECT_FALSE(queue.in_error());
}

TEST(CompletionQueue, ForgetsWhatIsOfOneQueuePair) {
    CompletionQueue queue(4, nullptr);
    Completion out[4];
    queue.push(with_id(0), false);
    queue.push(with_id(0), false);
    queue.push(with_id(0), false);
    ASSERT_EQ(queue.poll({out, 3}), 3u);  // so that the ring wraps
    for (std::uint64_t i = 1; i <= 4; i++) {
        Completion completion = with_id(i);
        completion.qp_number = i % 2 ? 0x11 : 0x12;
        queue.push(completion, false);
    }
    queue.forget(0x13);
    EXPECT_EQ(queue.waiting(), 4u);
    queue.forget(0x11);
    ASSERT_EQ(queue.poll(out), 2u);
    EXPECT_EQ(out[0].wr_id, 2u);
    EXPECT_EQ(out[1].wr_id, 4u);
    queue.forget(0x12);
    EXPECT_EQ(queue.waiting(), 0u);
}

TEST(CompletionQueue, SaysWhatIsGone) {
    CompletionQueue queue(3, nullptr);
    EXPECT_TRUE(queue.gone(0));
    EXPECT_EQ(queue.push(with_id(1), false), 1u);
    EXPECT_EQ(queue.push(with_id(2), false), 2u);
    EXPECT_EQ(queue.push(with_id(3), false), 3u);
    EXPECT_FALSE(queue.gone(1));
    Completion out[2];
    ASSERT_EQ(queue.poll(out), 2u);
    EXPECT_TRUE(queue.gone(1) && queue.gone(2));
    EXPECT_FALSE(queue.gone(3));
    EXPECT_EQ(queue.push(with_id(4), false), 4u);
    queue.forget(0);
    EXPECT_TRUE(queue.gone(4));
    EXPECT_EQ(queue.push(with_id(5), false), 5u);
    EXPECT_FALSE(queue.gone(5));
}

TEST(CompletionQueue, AfterAnOverrunNothingHasAPlace) {
    CompletionQueue queue(1, nullptr);
    EXPECT_EQ(queue.push(with_id(1), false), 1u);
    EXPECT_EQ(queue.push(with_id(2), false), 0u);
    CompletionQueue careless(1, nullptr, true);
    EXPECT_EQ(careless.push(with_id(1), false), 1u);
    EXPECT_EQ(careless.push(with_id(2), false), 2u);
    EXPECT_TRUE(careless.gone(1));
    EXPECT_FALSE(careless.gone(2));
}

TEST(CompletionQueue, ProducersAndConsumersOfSeveralThreads) {
    CompletionQueue queue(1 << 16, nullptr);
    constexpr int kEach = 20000;
    std::atomic<int> taken{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < 2; t++)
        threads.emplace_back([&] {
            for (int i = 0; i < kEach; i++) queue.push(with_id(1), false);
        });
    for (int t = 0; t < 2; t++)
        threads.emplace_back([&] {
            Completion out[16];
            while (taken < 2 * kEach) taken += static_cast<int>(queue.poll(out));
        });
    for (auto& thread : threads) thread.join();
    EXPECT_EQ(taken, 2 * kEach);
}

}  // namespace
}  // namespace verbena::completion
