// Engines over real packets on loopback: who serves when the program polls, sleeps or blocks. Times are
// bounds that a loaded machine keeps, too.
#include "adapter/engine.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>

#include "adapter/clock.h"
#include "adapter/engine_testing.h"
#include "adapter/presence.h"

namespace verbena::adapter {
namespace {

using testing::Endpoint;
using testing::EngineTest;
using transport::Operation;

TEST_F(EngineTest, ATargetThatSleepsAnswersWithinTenMilliseconds) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    Duration best = kSecond;
    for (int i = 0; i < 20 && best >= 10 * kMillisecond; i++) {
        ASSERT_EQ(read_from_far(4), 0);
        const Duration took = poll_near(1);
        ASSERT_GE(took, 0);
        best = std::min(best, took);
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    EXPECT_LT(best, 10 * kMillisecond);
}

// The helper left the link to a poller; the poller goes away without a word.
TEST_F(EngineTest, TheHelperTakesOverFromAPollerThatStops) {
    Duration best = kSecond;
    for (int i = 0; i < 20 && best >= 10 * kMillisecond; i++) {
        for (const Time start = now(); now() - start < 5 * kMillisecond;) far_engine().poll_progress();
        ASSERT_EQ(read_from_far(4), 0);
        const Duration took = poll_near(1);
        ASSERT_GE(took, 0);
        best = std::min(best, took);
    }
    EXPECT_LT(best, 10 * kMillisecond);
}

TEST_F(EngineTest, ArmingBringsTheHelperAtOnce) {
    for (const Time start = now(); now() - start < 5 * kMillisecond;) far_engine().poll_progress();
    far_engine().arm();
    ASSERT_EQ(read_from_far(4), 0);
    EXPECT_GE(poll_near(1), 0);
}

TEST_F(EngineTest, LargeTransfersMoveWhileTheTargetSleeps) {
    for (std::size_t i = 0; i < 2 << 20; i++)
        far().memory[8192 + i] = static_cast<std::uint8_t>(i * 13 + i / 4099);
    ASSERT_EQ(read_from_far(2 << 20), 0);
    ASSERT_GE(poll_near(1), 0);
    EXPECT_EQ(std::memcmp(near().memory.data(), far().memory.data() + 8192, 2 << 20), 0);
    ASSERT_EQ(
        near().post(Operation::rdma_write, 0, 2 << 20, now(), far().address_of(2 << 20), far().keys.rkey), 0);
    ASSERT_GE(poll_near(1), 0);
    EXPECT_EQ(std::memcmp(near().memory.data(), far().memory.data() + (2 << 20), 2 << 20), 0);
    EXPECT_EQ(near().segment->counters().bad_icrc, 0u);
    EXPECT_EQ(far().segment->counters().bad_icrc, 0u);
}

// Without steering the kernel gives packets to either process by a hash of addresses and ports. Each flow of
// this test has its own source port, so some are misdelivered as a whole; every packet reaches its queue pair
// all the same.
class UnsteeredTest : public EngineTest {
   protected:
    void SetUp() override { set_up(false, "unsteered-" + std::to_string(getpid())); }
};

TEST_F(UnsteeredTest, MisdeliveredPacketsArePassedOn) {
    for (std::size_t i = 0; i < 1 << 20; i++)
        far().memory[8192 + i] = static_cast<std::uint8_t>(i * 13 + i / 4099);
    ASSERT_EQ(read_from_far(1 << 20), 0);
    ASSERT_GE(poll_near(1), 0);
    EXPECT_EQ(std::memcmp(near().memory.data(), far().memory.data() + 8192, 1 << 20), 0);
    EXPECT_GT(near().segment->counters().strays + far().segment->counters().strays, 0u);
    EXPECT_GT(near().segment->counters().strays_received + far().segment->counters().strays_received, 0u);
}

// Neither side polls: both helpers do everything, retransmission timers included.
TEST_F(EngineTest, NobodyNeedsToPoll) {
    ASSERT_EQ(read_from_far(1 << 20), 0);
    for (int i = 0; i < 1000 && near().cq.waiting() == 0; i++)
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    EXPECT_EQ(near().cq.waiting(), 1u);
}

// The channel of a program: readable when a completion came.
class Notifier : public completion::CompletionListener {
   public:
    Notifier() : fd(eventfd(0, EFD_CLOEXEC)) {}
    ~Notifier() override { close(fd); }
    void completion_event(completion::CompletionQueue&) override {
        const std::uint64_t one = 1;
        ASSERT_EQ(write(fd, &one, sizeof one), 8);
    }
    void overrun(completion::CompletionQueue&) override {}
    void take() {
        std::uint64_t count;
        ASSERT_EQ(read(fd, &count, sizeof count), 8);
    }
    const int fd;
};

TEST_F(EngineTest, ABlockedThreadDrivesTheAdapterItself) {
    Notifier notifier;
    completion::CompletionQueue cq(16, &notifier);
    transport::QpSetup setup = near().qp->setup();
    setup.send_cq = setup.receive_cq = &cq;
    setup.receive_queue = std::make_shared<transport::ReceiveQueue>(4, 1);
    near().adapter->destroy_qp(near().qp, now());
    near().qp = near().adapter->create_qp(setup, now());
    transport::Attributes error;
    error.state = transport::QpState::reset;
    ASSERT_EQ(far().adapter->modify(*far().qp, error, transport::kAttrState, now()), 0);
    near().connect(far(), now());
    far().connect(near(), now());

    for (int i = 0; i < 50; i++) {
        cq.arm(false);
        engine().arm();
        ASSERT_EQ(read_from_far(64), 0);
        ASSERT_EQ(wait(notifier.fd, now() + 10 * kSecond), Engine::Wait::readable);
        notifier.take();
        completion::Completion completion;
        ASSERT_EQ(cq.poll({&completion, 1}), 1u);
        EXPECT_EQ(completion.status, completion::Status::success);
        if (i % 10 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    near().adapter->destroy_qp(near().qp, now());
    near().qp = nullptr;
}

// A request of UC completes when a timer says so, and nothing else wakes anybody. The helper sleeps, the
// program begins to wait about when the timer fires: whoever takes it from the descriptor, it is served.
TEST_F(EngineTest, ATimerThatFiresWhileTheLinkChangesHandsIsServed) {
    using namespace transport;
    Notifier notifier;
    completion::CompletionQueue cq(16, &notifier);
    QpSetup setup = near().qp->setup();
    setup.service = Service::uc;
    setup.send_cq = setup.receive_cq = &cq;
    setup.receive_queue = std::make_shared<ReceiveQueue>(4, 1);
    near().adapter->destroy_qp(near().qp, now());
    near().qp = near().adapter->create_qp(setup, now());
    Attributes a;
    a.port = 1;
    near().change(a, QpState::init, kAttrPkeyIndex | kAttrPort | kAttrAccessFlags, now());
    a.path.source = a.path.destination = Gid::from_ipv4(0x7f000001);
    a.path_mtu = 1024;
    a.destination_qp = far().qp->number();  // which drops it: it is RC
    near().change(a, QpState::rtr, kAttrAv | kAttrPathMtu | kAttrDestQpn | kAttrRqPsn, now());
    near().change(a, QpState::rts, kAttrSqPsn, now());

    // The two meet when one of them is held up.
    std::atomic<bool> done{false};
    std::vector<std::thread> others;
    for (int i = 0; i < 4; i++)
        others.emplace_back([&] {
            while (!done) std::this_thread::yield();
        });
    for (int i = 0; i < 400; i++) {
        std::this_thread::sleep_for(std::chrono::milliseconds(3));  // the helper notices that nobody polls
        cq.arm(false);
        const Time start = now();
        ASSERT_EQ(near().post(Operation::send, 0, 4, start), 0);
        engine().posted();
        while (now() - start < i % 80 * kMicrosecond) {
        }
        const Engine::Wait answer = wait(notifier.fd, now() + 10 * kSecond);
        EXPECT_EQ(answer, Engine::Wait::readable) << i;
        if (answer != Engine::Wait::readable) break;
        notifier.take();
        completion::Completion completion;
        EXPECT_EQ(cq.poll({&completion, 1}), 1u);
    }
    done = true;
    for (std::thread& other : others) other.join();
    near().adapter->destroy_qp(near().qp, now());
    near().qp = nullptr;
}

TEST_F(EngineTest, WaitingEndsAtTheDeadline) {
    const int fd = eventfd(0, EFD_CLOEXEC);
    const Time start = now();
    EXPECT_EQ(wait(fd, start + 30 * kMillisecond), Engine::Wait::timed_out);
    EXPECT_GE(now() - start, 30 * kMillisecond);
    close(fd);
}

TEST_F(EngineTest, ANonBlockingDescriptorIsNotWaitedFor) {
    const int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    EXPECT_EQ(wait(fd), Engine::Wait::readable);
    close(fd);
}

// What has become O_NONBLOCK since the last call is not slept on.
TEST_F(EngineTest, ADescriptorThatNoLongerBlocksIsNotWaitedFor) {
    Awaited awaited(eventfd(0, EFD_CLOEXEC));
    EXPECT_EQ(engine().wait_readable(awaited, now() + kMillisecond), Engine::Wait::timed_out);
    EXPECT_TRUE(awaited.blocks);
    fcntl(awaited.fd, F_SETFL, O_NONBLOCK);
    EXPECT_EQ(engine().wait_readable(awaited), Engine::Wait::readable);
    close(awaited.fd);
}

// ... nor while it serves others without a pause.
TEST_F(EngineTest, OthersPacketsDoNotKeepWhoDoesNotBlock) {
    std::atomic<bool> over{false};
    std::thread others([&] {
        while (!over) {
            if (far().post(Operation::rdma_read, 0, 64, now(), near().address_of(0), near().keys.rkey) != 0)
                break;
            far_engine().posted();
            completion::Completion completion;
            for (const Time start = now(); far().cq.poll({&completion, 1}) == 0 && now() - start < kSecond;)
                far_engine().poll_progress();
        }
    });
    Awaited awaited(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), true);
    for (int n = 0; n < 20; n++) {
        awaited.blocks = true;  // as was known
        const Time start = now();
        EXPECT_EQ(engine().wait_readable(awaited, start + 10 * kSecond), Engine::Wait::readable);
        EXPECT_LT(now() - start, 5 * kSecond);
    }
    over = true;
    others.join();
    close(awaited.fd);
}

// Events that were counted and not yet told to the descriptor are not slept over.
TEST_F(EngineTest, WhatIsCountedNeedNotBeReadable) {
    Awaited awaited(eventfd(0, EFD_CLOEXEC), true);
    awaited.events = 1;
    EXPECT_EQ(engine().wait_readable(awaited), Engine::Wait::readable);
    close(awaited.fd);
}

TEST_F(EngineTest, ASignalInterruptsUnlessItsHandlerRestarts) {
    const int fd = eventfd(0, EFD_CLOEXEC);
    struct sigaction action {};
    struct sigaction before;
    action.sa_handler = [](int) {};
    sigaction(SIGUSR1, &action, &before);
    const pthread_t waiter = pthread_self();
    std::atomic<bool> done{false};
    std::thread sender([&] {
        while (!done) {
            pthread_kill(waiter, SIGUSR1);
            std::this_thread::sleep_for(std::chrono::milliseconds(5));
        }
    });
    EXPECT_EQ(wait(fd, now() + 10 * kSecond), Engine::Wait::interrupted);
#ifndef VERBENA_THREAD_SANITIZER  // which installs handlers of its own
    action.sa_flags = SA_RESTART;
    sigaction(SIGUSR1, &action, nullptr);
    EXPECT_EQ(wait(fd, now() + 50 * kMillisecond), Engine::Wait::timed_out);
#endif
    done = true;
    sender.join();
    sigaction(SIGUSR1, &before, nullptr);
    close(fd);
}

TEST_F(EngineTest, SeveralThreadsMayWait) {
    const int first = eventfd(0, EFD_CLOEXEC), second = eventfd(0, EFD_CLOEXEC);
    std::atomic<int> woken{0};
    std::thread a([&] { woken += wait(first, now() + 10 * kSecond) == Engine::Wait::readable; });
    std::thread b([&] { woken += wait(second, now() + 10 * kSecond) == Engine::Wait::readable; });
    // While both are blocked, requests are served.
    ASSERT_EQ(far().post(Operation::rdma_read, 0, 64, now(), near().address_of(0), near().keys.rkey), 0);
    far_engine().posted();
    for (int i = 0; i < 1000 && far().cq.waiting() == 0; i++)
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    EXPECT_EQ(far().cq.waiting(), 1u);
    const std::uint64_t one = 1;
    ASSERT_EQ(write(first, &one, sizeof one), 8);
    a.join();
    // And when the one that did the work has gone.
    ASSERT_EQ(far().post(Operation::rdma_read, 0, 64, now(), near().address_of(0), near().keys.rkey), 0);
    far_engine().posted();
    for (int i = 0; i < 1000 && far().cq.waiting() == 1; i++)
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    EXPECT_EQ(far().cq.waiting(), 2u);
    ASSERT_EQ(write(second, &one, sizeof one), 8);
    b.join();
    EXPECT_EQ(woken, 2);
    close(first);
    close(second);
}

TEST(EngineWatchTest, TheLifelinesEndIsReported) {
    int ends[2];
    ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
    auto link = link::UdpLink::create({.fabric = {}});
    auto segment = Segment::create_on_heap({.regions = 8, .queue_pairs = 8, .objects = 1});
    Adapter adapter({link.get(), segment.get(), 4096, 16, 1});
    std::atomic<int> gone{0};
    std::atomic<int> bytes{0};
    const auto ready = [&] {
        char byte;
        if (read(ends[0], &byte, 1) == 1) return ++bytes > 0;
        gone++;
        return false;
    };
    std::atomic<int> lost{0};
    auto engine = std::make_unique<Engine>(adapter, *link);
    engine->watch(ends[0], ready, [&] { lost++; });
    ASSERT_EQ(engine->start(), 0);
    auto write_one = [&](int expected) {
        ASSERT_EQ(write(ends[1], "x", 1), 1);
        for (int i = 0; i < 1000 && bytes < expected; i++)
            std::this_thread::sleep_for(std::chrono::milliseconds(10));
        ASSERT_EQ(bytes, expected);
    };
    write_one(1);
    write_one(2);
    close(ends[1]);
    for (int i = 0; i < 1000 && gone == 0; i++) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    EXPECT_EQ(gone, 1);
    engine.reset();
    EXPECT_EQ(lost, 0);
    close(ends[0]);
}

// A program has closed what it did not know, and opened a file of its own.
TEST(EngineWatchTest, WhoHasTheLifelinesNumberKeepsWhatIsHis) {
    int ends[2], programs[2];
    ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
    ASSERT_EQ(pipe2(programs, O_CLOEXEC), 0);
    const int kept = dup(ends[0]);  // somebody who reads
    auto link = link::UdpLink::create({.fabric = {}});
    auto segment = Segment::create_on_heap({.regions = 8, .queue_pairs = 8, .objects = 1});
    Adapter adapter({link.get(), segment.get(), 4096, 16, 1});
    std::atomic<int> lost{0};
    {
        Engine engine(adapter, *link);
        const auto ready = [&] {
            char byte;
            return read(ends[0], &byte, 1) == 1;
        };
        engine.watch(ends[0], ready, [&] { lost++; });
        ASSERT_EQ(engine.start(), 0);
        EXPECT_TRUE(engine.files_are_ours());
        ASSERT_EQ(write(programs[1], "its", 3), 3);
        ASSERT_EQ(dup2(programs[0], ends[0]), ends[0]);
        EXPECT_FALSE(engine.files_are_ours());
        // Wherever it sleeps: on the old file, or by now on the new one.
        ASSERT_EQ(write(ends[1], "x", 1), 1);
        for (int i = 0; i < 1000 && lost == 0; i++)
            std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    EXPECT_EQ(lost, 1);
    char text[4];
    EXPECT_EQ(read(programs[0], text, sizeof text), 3);
    for (const int fd : {ends[0], ends[1], programs[0], programs[1], kept}) close(fd);
}

// Voluntary context switches of the helper threads, which bear the library's name.
long helper_switches() {
    long total = 0;
    for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
        std::ifstream status(task.path() / "status");
        std::string line;
        bool helper = false;
        while (std::getline(status, line)) {
            if (line == "Name:\tverbena") helper = true;
            if (helper && line.starts_with("voluntary_ctxt_switches:")) total += std::stol(line.substr(24));
        }
    }
    return total;
}

// During the quietest of so many turns; none is the end of it.
template <class Turn>
long least_helper_switches(int turns, Turn&& turn) {
    long least = 1000;
    for (int i = 0; i < turns && least > 0; i++) {
        const long before = helper_switches();
        turn();
        least = std::min(least, helper_switches() - before);
    }
    return least;
}

// The poller takes a packet whose acknowledgement may wait, and polls no more; the helper sleeps already, and
// no packet wakes it.
TEST(EngineSleepTest, ASleeperLearnsOfTheTimersOfAPoller) {
    testing::MemoryLink near_link, far_link;
    near_link.peer = &far_link;
    far_link.peer = &near_link;
    Endpoint near(near_link, 0x1000, Gid::from_ipv4(1)), far(far_link, 0x2000, Gid::from_ipv4(2));
    near.connect(far, now());
    far.connect(near, now());
    {
        Engine engine(*near.adapter, near_link);
        ASSERT_EQ(engine.start(), 0);
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        ASSERT_EQ(near.post_receive(0, 64, now()), 0);
        ASSERT_EQ(far.post(Operation::send, 0, 64, now()), 0);
        engine.poll_progress();
        for (const Time start = now(); far_link.waiting() == 0 && now() - start < 5 * kSecond;)
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        EXPECT_EQ(far_link.waiting(), 1u);
    }
}

// With nobody else.
struct EngineAloneTest : ::testing::Test {
    EngineAloneTest() { link.peer = &link; }
    testing::MemoryLink link;
    const Endpoint endpoint{link, 0x1000, Gid::from_ipv4(1)};
};
using EnginePollTest = EngineAloneTest;
using EnginePresenceTest = EngineAloneTest;

// By the helper, as long as that is so.
TEST_F(EnginePollTest, TheLinkIsToldWhetherSomebodyPolls) {
    {
        Engine engine(*endpoint.adapter, link);
        ASSERT_EQ(engine.start(), 0);
        const auto until = [&](bool polled, auto&& act) {
            for (const Time start = now(); link.polled != polled && now() - start < 10 * kSecond;) act();
            return link.polled == polled;
        };
        EXPECT_TRUE(until(true, [&] { engine.poll_progress(); }));
        EXPECT_TRUE(until(false, [] { std::this_thread::sleep_for(std::chrono::milliseconds(1)); }));
        EXPECT_TRUE(until(true, [&] { engine.poll_progress(); }));
        engine.arm();
        EXPECT_TRUE(until(false, [] { std::this_thread::sleep_for(std::chrono::milliseconds(1)); }));
        EXPECT_TRUE(until(true, [&] { engine.poll_progress(); }));
        EXPECT_TRUE(until(false, [] { std::this_thread::sleep_for(std::chrono::milliseconds(1)); }));
        for (int i = 0; i < 100; i++) engine.posted(now());
        EXPECT_FALSE(link.polled) << "a program that posts little may not poll";
        EXPECT_TRUE(until(true, [&] { engine.posted(now() - 100 * kMicrosecond); })) << "as if it had copied";
        engine.arm();
        EXPECT_TRUE(until(false, [] { std::this_thread::sleep_for(std::chrono::milliseconds(1)); }));
        for (int i = 0; i < 1000; i++) engine.posted(now() - 100 * kMicrosecond);
        EXPECT_FALSE(link.polled) << "it sleeps for its completions";
    }
    EXPECT_FALSE(link.polled) << "the helper has gone";
}

TEST_F(EnginePresenceTest, TheHelperShowsIt) {
    const auto state = [&] { return Presence::state(endpoint.segment->header().present); };
    EXPECT_EQ(state(), Presence::State::unknown);
    {
        Engine engine(*endpoint.adapter, link);
        ASSERT_EQ(engine.start(), 0);
        for (const Time start = now(); state() == Presence::State::unknown && now() - start < 10 * kSecond;)
            std::this_thread::yield();
        EXPECT_EQ(state(), Presence::State::here);
    }
    EXPECT_EQ(state(), Presence::State::unknown);
}

// Unless the poller itself has to wait for a processor; some time it need not.
TEST_F(EnginePollTest, TheHelperSleepsWhileSomebodyPolls) {
    Engine engine(*endpoint.adapter, link);
    ASSERT_EQ(engine.start(), 0);
    for (const Time start = now(); !link.polled && now() - start < 10 * kSecond;) engine.poll_progress();
    EXPECT_EQ(least_helper_switches(200,
                                    [&] {
                                        for (const Time start = now(); now() - start < 25 * kMillisecond;)
                                            engine.poll_progress();
                                    }),
              0);
    EXPECT_TRUE(link.polled);
    EXPECT_GT(link.reminders, 0u);
}

TEST_F(EngineTest, AnIdlePairDoesNotWakeUp) {
    ASSERT_EQ(read_from_far(64), 0);
    ASSERT_GE(poll_near(1), 0);
    std::this_thread::sleep_for(std::chrono::milliseconds(500));  // timers of the exchange run out
    EXPECT_GT(helper_switches(), 0);
    // A timer of the exchange that was taken back may still end a sleep.
    EXPECT_EQ(least_helper_switches(3, [] { std::this_thread::sleep_for(std::chrono::milliseconds(1000)); }),
              0);
}

}  // namespace
}  // namespace verbena::adapter
