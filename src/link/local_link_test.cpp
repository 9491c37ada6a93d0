// Two links of this process, each as if it were a process of its own, over a wire that notes what comes its
// way.
#include "link/local_link.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "base/heavy_barrier.h"
#include "link/local_reference.h"
#include "wire/byte_order.h"
#include "wire/opcode.h"

namespace verbena::link {
namespace {

class NotedWire final : public Link {
   public:
    NotedWire() : fd_(eventfd(0, EFD_CLOEXEC)) {}
    ~NotedWire() override { close(fd_); }
    void send(const wire::OutPacket&) override { sent++; }
    void flush() override {}
    unsigned receive(Receiver&, unsigned) override {
        looks++;
        return 0;
    }
    int wait_fd() const override { return fd_; }
    std::size_t receive_capacity() const override { return 1 << 20; }

    unsigned sent = 0, looks = 0;

   private:
    const int fd_;
};

class Kept final : public Receiver {
   public:
    void datagram(const Datagram& datagram) override {
        EXPECT_TRUE(datagram.by_memory);
        // BTH, payload, ICRC
        texts.emplace_back(datagram.bytes.begin() + 12, datagram.bytes.end() - 4);
    }
    std::vector<std::string> texts;
};

const std::string& fabric() {
    static const std::string name = "test-" + std::to_string(getpid());
    return name;
}

const Gid kLoopback = Gid::from_ipv4(0x7f000001);
const Gid kElsewhere = Gid::from_ipv4(0x0a090807);

struct End {
    End(std::uint32_t number, const std::string& name = fabric()) : block(number) {
        segment = memfd_create("tables", MFD_CLOEXEC);
        link = LocalLink::create(wire,
                                 {.fabric = name, .segment_fd = segment, .nonce = number, .open_memory = {}});
        EXPECT_NE(link, nullptr);
        EXPECT_EQ(link->peers().add_block(block), 0);
    }
    ~End() {
        link.reset();
        close(segment);
    }

    bool is_woken() const {
        pollfd waiting{link->wait_fd(), POLLIN, 0};
        return poll(&waiting, 1, 0) == 1;
    }
    void post(std::uint32_t qp, const std::string& text, const Gid& to = kLoopback,
              wire::Opcode opcode = wire::Opcode::rc_send_only) {
        wire::Path path;
        path.source = kLoopback;
        path.destination = to;
        wire::OutPacket packet;
        packet.path = &path;
        packet.header = {};
        packet.header[0] = static_cast<std::uint8_t>(opcode);
        wire::store_be24(packet.header.data() + 5, qp);
        packet.header_length = 12;
        std::string copy = text;
        const iovec piece{copy.data(), copy.size()};
        packet.payload = {&piece, 1};
        wire::PacketSink& sink = link->borrow_sink();
        sink.send(packet);
        sink.flush();
        link->return_sink(sink);
    }
    unsigned receive() {
        link->look_everywhere();
        return link->receive(kept, 100);
    }
    LocalPeers& peers() { return link->peers(); }
    std::uint32_t qp() const { return block << kBlockBits | 5; }

    const std::uint32_t block;
    int segment;
    NotedWire wire;
    std::unique_ptr<LocalLink> link;
    Kept kept;
};

void introduce(End& left, End& right) {
    EXPECT_EQ(left.peers().meet(kLoopback, right.qp()), LocalPeers::Met::asked);
    right.receive();
    left.receive();
    EXPECT_EQ(left.peers().meet(kLoopback, right.qp()), LocalPeers::Met::yes);
    EXPECT_EQ(right.peers().meet(kLoopback, left.qp()), LocalPeers::Met::yes);
}

// What was published lightly is looked at again after some calls of receive() in vain, before a sleep, and
// when nobody polls any more.
void look_again(End& end, int way) {
    if (way == 0)
        for (int i = 0; i < 16; i++) end.link->receive(end.kept, 100);
    if (way == 1) {
        end.link->enter_sleep();
        end.link->leave_sleep();
    }
    end.link->set_polled(way == 0);
}

TEST(LocalLinkTest, ASleeperThatWasOverlookedIsWoken) {
    if (!allow_heavy_barriers()) GTEST_SKIP() << "no membarrier here, so nothing is published lightly";
    for (int way = 0; way < 3; way++) {
        End left(3), right(4);
        introduce(left, right);
        left.receive();
        left.link->set_polled(true);
        right.link->enter_sleep();
        right.link->leave_sleep();
        EXPECT_FALSE(right.is_woken());
        left.post(right.qp(), "while it is awake");
        EXPECT_FALSE(right.is_woken());
        right.peers().at(0).in->enter_sleep();  // as if it had not seen that
        look_again(left, way);
        EXPECT_TRUE(right.is_woken()) << "way " << way;
    }
}

// A thread posts, and polls afterwards or not; another plays the helper; the peer falls asleep whenever it
// finds nothing.
TEST(LocalLinkTest, NobodySleepsForEverBesideAPollerThatStops) {
    constexpr int kPackets = 10'000, kFarTooLong = 20'000;  // ms
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
        if (came > 0) continue;
        right.link->enter_sleep();
        pollfd waiting{right.link->wait_fd(), POLLIN, 0};
        if (poll(&waiting, 1, kFarTooLong) == 0) stuck = true;
        right.link->leave_sleep();
    }
    done = true;
    EXPECT_FALSE(stuck);
}

TEST(LocalLinkTest, WhoHasReadEverythingSleepsOn) {
    allow_heavy_barriers();
    End left(3), right(4);
    introduce(left, right);
    left.link->set_polled(true);
    left.post(right.qp(), "read");
    EXPECT_EQ(right.receive(), 1u);
    right.link->enter_sleep();
    left.link->receive(left.kept, 100);
    left.link->set_polled(false);
    EXPECT_FALSE(right.is_woken());
    right.link->leave_sleep();
}

TEST(LocalLinkTest, ASleeperIsWokenAtOnceThoughThePeerPolls) {
    End left(3), right(4);
    introduce(left, right);
    left.link->set_polled(true);
    right.link->enter_sleep();
    left.post(right.qp(), "wake up");
    EXPECT_TRUE(right.is_woken());
    right.link->leave_sleep();
}

TEST(LocalLinkTest, PacketsOfThoseWhoHaveMetGoByMemory) {
    End left(3), right(4);
    introduce(left, right);
    left.post(right.qp(), "over there");
    right.post(left.qp(), "and back");
    EXPECT_EQ(right.receive(), 1u);
    EXPECT_EQ(left.receive(), 1u);
    EXPECT_EQ(right.kept.texts, std::vector<std::string>{"over there"});
    EXPECT_EQ(left.kept.texts, std::vector<std::string>{"and back"});
    EXPECT_EQ(left.wire.sent + right.wire.sent, 0u);
}

TEST(LocalLinkTest, TheFirstPacketAsksAndLeavesByTheWire) {
    End left(3), right(4);
    left.post(right.qp(), "first");
    EXPECT_EQ(left.wire.sent, 1u);
    right.receive();
    left.receive();
    left.post(right.qp(), "second");
    EXPECT_EQ(left.wire.sent, 1u);
    right.receive();
    EXPECT_EQ(right.kept.texts, std::vector<std::string>{"second"});
}

TEST(LocalLinkTest, WhatIsNotForAPeerIsTheWires) {
    End left(3), right(4);
    introduce(left, right);
    left.post(right.qp(), "x", kElsewhere);
    left.post(right.qp(), "x", kLoopback, wire::Opcode::ud_send_only);
    left.post(77 << kBlockBits, "x");  // nobody's
    left.post(1, "x");                 // the daemon
    EXPECT_EQ(left.wire.sent, 4u);
    EXPECT_EQ(right.receive(), 0u);
}

TEST(LocalLinkTest, BothMayAskAtOnce) {
    End left(3), right(4);
    EXPECT_EQ(left.peers().meet(kLoopback, right.qp()), LocalPeers::Met::asked);
    EXPECT_EQ(right.peers().meet(kLoopback, left.qp()), LocalPeers::Met::asked);
    for (int i = 0; i < 2; i++) {
        left.receive();
        right.receive();
    }
    EXPECT_EQ(left.peers().meet(kLoopback, right.qp()), LocalPeers::Met::yes);
    EXPECT_EQ(right.peers().meet(kLoopback, left.qp()), LocalPeers::Met::yes);
    EXPECT_EQ(left.peers().count(), 1u);
    EXPECT_EQ(right.peers().count(), 1u);
    left.post(right.qp(), "a");
    right.post(left.qp(), "b");
    EXPECT_EQ(left.receive() + right.receive(), 2u);
}

TEST(LocalLinkTest, WhatCannotBeFetchedIsCopied) {
    End left(3), right(4);
    introduce(left, right);
    wire::Path path;
    path.source = path.destination = kLoopback;
    wire::PacketSink& sink = left.link->borrow_sink();
    EXPECT_EQ(sink.largest_payload(path, right.qp()), kLargestCopied);  // its tables are none
    path.destination = kElsewhere;
    EXPECT_EQ(sink.largest_payload(path, right.qp()), 0u);
    sink.flush();
    left.link->return_sink(sink);
}

TEST(LocalReferenceTest, NonsenseIsRefused) {
    LocalPeer peer;
    ReferredPayload payload(peer);
    std::vector<LocalReference> references{{4096, 100}, {8192, 200}};
    const auto read = [&] {
        return payload.read({reinterpret_cast<const std::uint8_t*>(references.data()),
                             references.size() * sizeof(LocalReference)});
    };
    EXPECT_TRUE(read());
    EXPECT_EQ(payload.length(), 300u);
    references[1].length = kLargestFetched;
    EXPECT_FALSE(read());
    references[1].length = ~std::uint64_t{0};
    EXPECT_FALSE(read());
    references.assign(kMaxReferences + 1, {4096, 1});
    EXPECT_FALSE(read());
    EXPECT_FALSE(payload.read({}));
    const std::uint8_t half[24] = {};
    EXPECT_FALSE(payload.read(half));
}

TEST(LocalLinkTest, WeAreOurOwnPeer) {
    End end(3);
    EXPECT_EQ(end.peers().meet(kLoopback, end.qp()), LocalPeers::Met::yes);
    end.post(end.qp(), "to myself");
    EXPECT_EQ(end.receive(), 1u);
    EXPECT_EQ(end.wire.sent, 0u);
}

TEST(LocalLinkTest, AnotherFabricIsAnotherWorld) {
    End left(3), right(4, fabric() + "-other");
    EXPECT_EQ(left.peers().meet(kLoopback, right.qp()), LocalPeers::Met::no);
}

TEST(LocalLinkTest, WhoDoesNotAnswerIsNotWaitedForTwice) {
    End left(3), right(4);
    EXPECT_EQ(left.peers().meet(kLoopback, right.qp()), LocalPeers::Met::asked);
    left.peers().stop_waiting_for(right.qp());
    EXPECT_EQ(left.peers().meet(kLoopback, right.qp()), LocalPeers::Met::no);
    right.receive();  // late
    left.receive();
    EXPECT_EQ(left.peers().meet(kLoopback, right.qp()), LocalPeers::Met::yes);
}

TEST(LocalLinkTest, ASecondBlockOfAKnownProcessNeedsNoSecondRing) {
    End left(3), right(4);
    ASSERT_EQ(right.peers().add_block(9), 0);
    introduce(left, right);
    EXPECT_EQ(left.peers().meet(kLoopback, 9 << kBlockBits), LocalPeers::Met::asked);
    right.receive();
    left.receive();
    EXPECT_EQ(left.peers().meet(kLoopback, 9 << kBlockBits), LocalPeers::Met::yes);
    EXPECT_EQ(right.peers().count(), 1u);
    left.post(9 << kBlockBits | 1, "x");
    EXPECT_EQ(right.receive(), 1u);
}

TEST(LocalLinkTest, ASleeperIsWoken) {
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

// The signal is for all sleepers; one of them takes it away and may go on to something else.
TEST(LocalLinkTest, WhoLeavesPassesTheSignalOn) {
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
    static constexpr unsigned kPackets = 600;  // 2.4 MB; a ring has 1 MiB
    End left{3}, right{4};
    unsigned sent = 0;
};

TEST(LocalLinkTest, AFullRingDelaysAndDoesNotLose) {
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

TEST(LocalLinkTest, WhoWaitsForRoomIsWoken) {
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
TEST(LocalLinkTest, SleepersOfBothSidesAndAFullRing) {
    constexpr unsigned kPackets = 3000;
    constexpr int kFarTooLong = 20'000;  // ms
    End left(3), right(4);
    introduce(left, right);
    std::atomic<bool> done{false}, stuck{false};
    const auto sleep = [&](End& end) {
        end.link->enter_sleep();
        pollfd waiting{end.link->wait_fd(), POLLIN, 0};
        if (poll(&waiting, 1, kFarTooLong) == 0) stuck = true;
        end.link->leave_sleep();
    };
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
                sleep(left);
                left.receive();
            }
        }
    });
    unsigned expected = 0;
    while (expected < kPackets && !stuck) {
        if (right.link->receive(right.kept, 100) == 0) sleep(right);
        for (const std::string& text : right.kept.texts) EXPECT_EQ(std::stoul(text), expected++);
        right.kept.texts.clear();
    }
    done = true;
    EXPECT_FALSE(stuck);
}

TEST(LocalLinkTest, StandingStillIsNotHavingLooked) {
    End left(3), right(4);
    introduce(left, right);
    EXPECT_FALSE(left.peers().stands_still(kLoopback, right.qp()));
    left.post(right.qp(), "x");
    EXPECT_TRUE(left.peers().stands_still(kLoopback, right.qp()));
    right.receive();
    EXPECT_FALSE(left.peers().stands_still(kLoopback, right.qp()));
}

TEST(LocalLinkTest, WhoTakesMemoryAwayWaitsForThoseAtWork) {
    End left(3), right(4);
    introduce(left, right);
    std::atomic<bool> returned{false};
    std::jthread waiter;
    {
        const LocalPeers::Visit visit(left.peers(), kLoopback, right.qp());
        ASSERT_NE(visit.peer(), nullptr);
        const LocalMark mark(*visit.peer()->out);
        left.peers().wait_for_them();  // nobody works on ours
        waiter = std::jthread([&] {
            right.peers().wait_for_them();
            returned = true;
        });
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
        EXPECT_FALSE(returned);
    }
    waiter.join();
    EXPECT_TRUE(returned);
}

// A process that is killed in the middle of its work is not waited for, what it had sent arrives, and its
// place goes to the next one.
TEST(LocalLinkTest, APeerThatIsKilled) {
    End here(3);
    for (int round = 0; round < 3; round++) {
        int ready[2];
        ASSERT_EQ(pipe(ready), 0);
        const pid_t child = fork();
        ASSERT_GE(child, 0);
        if (child == 0) {
            End there(4);
            while (there.peers().meet(kLoopback, here.qp()) != LocalPeers::Met::yes) there.receive();
            there.post(here.qp(), "a last word");
            const LocalPeers::Visit visit(there.peers(), kLoopback, here.qp());
            const LocalMark mark(*visit.peer()->out);
            if (write(ready[1], "x", 1) != 1) _exit(1);
            for (;;) pause();
        }
        pollfd said{ready[0], POLLIN, 0};
        while (poll(&said, 1, 1) == 0) here.receive();
        kill(child, SIGKILL);
        waitpid(child, nullptr, 0);
        here.peers().wait_for_them();
        here.receive();
        EXPECT_EQ(here.kept.texts, std::vector<std::string>{"a last word"});
        here.kept.texts.clear();
        here.receive();
        EXPECT_EQ(here.peers().find(kLoopback, 4 << kBlockBits), nullptr);
        EXPECT_FALSE(here.peers().stands_still(kLoopback, 4 << kBlockBits));
        EXPECT_EQ(here.peers().count(), 1u);
        close(ready[0]);
        close(ready[1]);
    }
}

TEST(LocalLinkTest, TwoThreadsEachWay) {
    constexpr unsigned kPackets = 5000;
    End left(3), right(4);
    introduce(left, right);
    std::atomic<bool> stop{false};
    std::jthread sleeper([&] {  // the helper's and the pollers' naps
        while (!stop) {
            right.link->enter_sleep();
            right.link->leave_sleep();
        }
    });
    std::jthread writer([&] {
        for (unsigned i = 0; i < kPackets; i++) {
            while (left.peers().stands_still(kLoopback, right.qp()) && i % 64 == 0) std::this_thread::yield();
            left.post(right.qp(), std::to_string(i));
        }
    });
    unsigned expected = 0;
    while (expected < kPackets) {
        if (right.link->receive(right.kept, 100) == 0) std::this_thread::yield();
        for (const std::string& text : right.kept.texts) ASSERT_EQ(text, std::to_string(expected++));
        right.kept.texts.clear();
    }
    stop = true;
}

}  // namespace
}  // namespace verbena::link
