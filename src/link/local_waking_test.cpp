// Who sleeps on a link is woken: by a packet, by room, and though he was overlooked. (local_sleep_test.cpp
// goes through the rules as a model.)
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>

#include "base/heavy_barrier.h"
#include "base/put_off.h"
#include "link/local_link_harness.h"

namespace verbena::link {
namespace {

using testing::End;
using testing::introduce;
using testing::kLoopback;

TEST(LocalWakingTest, ASleeperIsWoken) {
    End left(3), right(4);
    introduce(left, right);
    left.post(right.qp(), "nobody sleeps");
    EXPECT_FALSE(right.is_woken());
    right.link->enter_sleep();
    EXPECT_TRUE(right.is_woken());  // it waits already
    right.link->leave_sleep();
    EXPECT_EQ(right.receive(), 1u);
    right.link->enter_sleep();
    EXPECT_FALSE(right.is_woken());
    left.post(right.qp(), "somebody sleeps");
    EXPECT_TRUE(right.is_woken());
    right.link->leave_sleep();
    EXPECT_EQ(right.receive(), 1u);
}

TEST(LocalWakingTest, ASleeperIsWokenBehindTheSendersLocks) {
    End left(3), right(4);
    introduce(left, right);
    right.link->enter_sleep();
    {
        const PutOff behind_locks;
        left.post(right.qp(), "one");
        left.post(right.qp(), "two");
        EXPECT_FALSE(right.is_woken());
    }
    EXPECT_TRUE(right.is_woken());
    right.link->leave_sleep();
    EXPECT_EQ(right.receive(), 2u);
}

// The signal is for all sleepers; one of them takes it away and may go on to something else.
TEST(LocalWakingTest, WhoLeavesPassesTheSignalOn) {
    End left(3), right(4);
    introduce(left, right);
    right.link->enter_sleep();  // the helper
    right.link->enter_sleep();  // a poller's nap
    left.post(right.qp(), "x");
    EXPECT_TRUE(right.is_woken());
    right.link->leave_sleep();  // and the program computes
    EXPECT_TRUE(right.is_woken());
    right.link->leave_sleep();
    EXPECT_EQ(right.receive(), 1u);
    right.link->enter_sleep();
    EXPECT_FALSE(right.is_woken());
    right.link->leave_sleep();
}

struct Filled {
    Filled() {
        introduce(left, right);
        for (; sent < kPackets; sent++) left.post(right.qp(), std::to_string(sent) + std::string(4000, 'x'));
    }
    static constexpr unsigned kPackets = 600;  // 2.4 MB; a ring has 512 KiB
    End left{3}, right{4};
    unsigned sent = 0;
};

TEST(LocalWakingTest, AFullRingDelaysAndDoesNotLose) {
    Filled f;
    wire::Path path;
    path.source = path.destination = kLoopback;
    wire::PacketSink& sink = f.left.link->borrow_sink();
    EXPECT_TRUE(sink.is_full(path, f.right.qp()));
    for (unsigned round = 0; f.right.kept.texts.size() < f.sent; round++) {
        ASSERT_LT(round, 100u);
        f.right.receive();
        f.left.receive();
    }
    for (unsigned i = 0; i < f.sent; i++) EXPECT_EQ(std::stoul(f.right.kept.texts[i]), i);
    EXPECT_FALSE(sink.is_full(path, f.right.qp()));
    sink.flush();
    f.left.link->return_sink(sink);
    EXPECT_EQ(f.left.wire.sent, 0u);
}

TEST(LocalWakingTest, WhoWaitsForRoomIsWoken) {
    Filled f;
    f.left.link->enter_sleep();
    EXPECT_FALSE(f.left.is_woken());
    EXPECT_TRUE(f.left.peers().stands_still(kLoopback, f.right.qp()));
    while (f.right.receive() > 0) {
    }
    EXPECT_TRUE(f.left.is_woken());
    f.left.link->enter_sleep();  // and who goes to sleep now is not left alone either
    f.left.link->leave_sleep();
    EXPECT_TRUE(f.left.is_woken());
    f.left.link->leave_sleep();
    f.left.receive();
    EXPECT_GT(f.right.receive(), 0u);
}

// Both sides sleep whenever there is nothing to do, and a third thread takes signals away: nobody sleeps for
// ever.
TEST(LocalWakingTest, SleepersOfBothSidesAndAFullRing) {
    constexpr unsigned kPackets = 3000;
    End left(3), right(4);
    introduce(left, right);
    std::atomic<bool> done{false}, stuck{false};
    std::jthread naps([&] {
        while (!done && !stuck) {
            right.link->enter_sleep();
            std::this_thread::yield();
            right.link->leave_sleep();
        }
    });
    std::jthread writer([&] {
        LocalPeer* peer = left.peers().find(kLoopback, right.qp());
        for (unsigned i = 0; i < kPackets && !stuck; i++) {
            left.post(right.qp(), std::to_string(i) + std::string(4000, 'x'));
            if (i % 500 != 499 && i + 1 != kPackets) continue;
            while (peer->spilled && !stuck) {
                if (!left.sleep()) stuck = true;
                left.receive();
            }
        }
    });
    unsigned expected = 0;
    while (expected < kPackets && !stuck) {
        if (right.link->receive(right.kept, 100) == 0 && !right.sleep()) stuck = true;
        for (const std::string& text : right.kept.texts) EXPECT_EQ(std::stoul(text), expected++);
        right.kept.texts.clear();
    }
    done = true;
    EXPECT_FALSE(stuck);
}

// What was published lightly is looked at again after some calls of receive() in vain, or by one that follows
// a word that somebody still polls, before a sleep, and when nobody polls any more.
enum class Again { after_some_in_vain, still_polled, before_a_sleep, when_nobody_polls };

void look_again(End& end, Again when) {
    switch (when) {
        case Again::after_some_in_vain:
            for (unsigned i = 0; i < LocalLink::kLookAgainAfter; i++) end.link->receive(end.kept, 100);
            break;
        case Again::still_polled:
            end.link->still_polled();
            end.link->receive(end.kept, 100);
            break;
        case Again::before_a_sleep:
            end.link->enter_sleep();
            end.link->leave_sleep();
            break;
        case Again::when_nobody_polls:
            end.link->set_polled(false);
            break;
    }
}

TEST(LocalWakingTest, ASleeperThatWasOverlookedIsWoken) {
    if (!allow_heavy_barriers()) GTEST_SKIP() << "no membarrier here, so nothing is published lightly";
    for (const Again when :
         {Again::after_some_in_vain, Again::still_polled, Again::before_a_sleep, Again::when_nobody_polls}) {
        End left(3), right(4);
        introduce(left, right);
        left.link->set_polled(true);
        left.receive();
        right.link->enter_sleep();
        right.link->leave_sleep();
        EXPECT_FALSE(right.is_woken());
        left.post(right.qp(), "while it is awake");
        EXPECT_FALSE(right.is_woken());
        right.peers().at(0).in->enter_sleep();  // as if it had not seen that
        look_again(left, when);
        EXPECT_TRUE(right.is_woken()) << static_cast<int>(when);
    }
}

// A thread posts, and polls afterwards or not; another plays the helper; the peer falls asleep whenever it
// finds nothing.
TEST(LocalWakingTest, NobodySleepsForEverBesideAPollerThatStops) {
    constexpr int kPackets = 10'000;
    allow_heavy_barriers();
    End left(3), right(4);
    introduce(left, right);
    std::atomic<int> received{0};
    std::atomic<bool> done{false}, stuck{false};
    std::jthread helper([&] {
        for (unsigned tick = 0; !done; tick++) {
            left.link->set_polled(tick % 4 != 3);
            std::this_thread::sleep_for(std::chrono::microseconds(20));
        }
    });
    std::jthread poster([&] {
        for (int i = 0; i < kPackets && !stuck; i++) {
            left.post(right.qp(), "x");
            while (received <= i && !stuck)
                if (i % 2 == 0)
                    left.link->receive(left.kept, 100);
                else
                    std::this_thread::yield();
        }
    });
    while (received < kPackets && !stuck) {
        const unsigned came = right.link->receive(right.kept, 100);
        received += static_cast<int>(came);
        if (came == 0 && !right.sleep()) stuck = true;
    }
    done = true;
    EXPECT_FALSE(stuck);
}

TEST(LocalWakingTest, WhoHasReadEverythingSleepsOn) {
    allow_heavy_barriers();
    End left(3), right(4);
    introduce(left, right);
    left.link->set_polled(true);
    left.post(right.qp(), "read");
    EXPECT_EQ(right.receive(), 1u);
    right.link->enter_sleep();
    look_again(left, Again::after_some_in_vain);
    look_again(left, Again::when_nobody_polls);
    EXPECT_FALSE(right.is_woken());
    right.link->leave_sleep();
}

TEST(LocalWakingTest, ASleeperIsWokenAtOnceThoughThePeerPolls) {
    End left(3), right(4);
    introduce(left, right);
    left.link->set_polled(true);
    right.link->enter_sleep();
    left.post(right.qp(), "wake up");
    EXPECT_TRUE(right.is_woken());
    right.link->leave_sleep();
}

}  // namespace
}  // namespace verbena::link
