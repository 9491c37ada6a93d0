// Who meets, what goes by memory and what by the wire, and what becomes of it when a peer goes. (Sleeping and
// waking: local_waking_test.cpp.)
#include "link/local_link.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "base/process_testing.h"
#include "base/signal_event.h"
#include "link/local_link_harness.h"
#include "link/local_reference.h"
#include "wire/opcode.h"

namespace verbena::link {
namespace {

using testing::End;
using testing::fabric;
using testing::introduce;
using testing::kElsewhere;
using testing::kLoopback;
using testing::OwnMemory;

// Behind the first packet, beside which its addresses lie.
void introduce_with_addresses(End& left, End& right) {
    introduce(left, right);
    left.post(right.qp(), "says the addresses");
    ASSERT_EQ(right.receive(), 1u);
    right.kept = {};
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

// Behind it the peer is everybody's again; what goes by the wire waits for the flush.
TEST(LocalLinkTest, APauseLetsGoWhatGoesByMemory) {
    End left(3), right(4);
    introduce(left, right);
    wire::PacketSink& sink = left.link->borrow_sink();
    wire::Path path;
    path.source = kLoopback;
    wire::OutPacket packet;
    packet.path = &path;
    packet.header = {};
    packet.header[0] = static_cast<std::uint8_t>(wire::Opcode::rc_send_only);
    packet.header_length = 12;
    const auto send_to = [&](const Gid& destination, std::uint32_t qp) {
        path.destination = destination;
        wire::store_be24(packet.header.data() + 5, qp);
        sink.send(packet);
    };
    send_to(kElsewhere, 1);
    send_to(kLoopback, right.qp());
    EXPECT_EQ(sink.pause(), 1u) << "bytes, as the wire says";
    EXPECT_EQ(right.receive(), 1u);
    EXPECT_TRUE(left.link->copy(packet)) << "its lock is free";
    sink.flush();
    left.link->return_sink(sink);
    EXPECT_EQ(left.wire.waiting, 0u);
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

// Once a word: who polls slowly makes few calls, and who polls fast pays for no more.
TEST(LocalLinkTest, BesideBusyRingsTheWireAndGreetingsAreLookedAtNowAndThen) {
    End left(3), right(4), third(5);
    introduce(left, right);
    const auto look = [&] {
        left.post(right.qp(), "busy");
        right.link->receive(right.kept, 100);
        EXPECT_TRUE(right.link->looks_empty());
    };
    look();
    signal_event(right.wire.wait_fd());
    EXPECT_EQ(third.peers().meet(kLoopback, right.qp()), LocalPeers::Met::asked);
    const unsigned looks = right.wire.looks;
    look();
    EXPECT_EQ(right.wire.looks, looks);
    right.link->set_polled(true);
    EXPECT_TRUE(right.link->looks_empty());
    right.link->still_polled();
    EXPECT_FALSE(right.link->looks_empty());
    look();
    EXPECT_EQ(right.wire.looks, looks + 1);
    EXPECT_NE(right.peers().find(kLoopback, third.qp()), nullptr);
    look();
    right.link->set_polled(false);
    look();
    EXPECT_EQ(right.wire.looks, looks + 1);
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
    EXPECT_EQ(sink.largest_payload(path, right.qp(), true), kLargestCopied);  // its tables are none
    path.destination = kElsewhere;
    EXPECT_EQ(sink.largest_payload(path, right.qp(), true), 0u);
    sink.flush();
    left.link->return_sink(sink);
}

TEST(LocalLinkTest, OnlyWhatStaysIsLeftWhereItLies) {
    End left(3), right(4);
    introduce(left, right);
    right.peers().find(kLoopback, left.qp())->in->fetch(true);
    wire::Path path;
    path.source = path.destination = kLoopback;
    wire::PacketSink& sink = left.link->borrow_sink();
    EXPECT_EQ(sink.largest_payload(path, right.qp(), true), kLargestFetched);
    EXPECT_EQ(sink.largest_payload(path, right.qp(), false), kLargestCopied);
    sink.flush();
    left.link->return_sink(sink);

    const std::string large(kFetchedFrom + 100, 'x');
    left.post(right.qp(), large, kLoopback, wire::Opcode::rc_send_only, 9, true);
    left.post(right.qp(), large, kLoopback, wire::Opcode::rc_send_only, 9, true);
    left.post(right.qp(), large, kLoopback, wire::Opcode::rc_send_only, 9);
    left.post(right.qp(), large, kLoopback, wire::Opcode::rc_write_middle, 9);
    EXPECT_EQ(right.receive(), 4u);
    EXPECT_EQ(right.kept.texts, (std::vector<std::string>{"", "", large, large}));
}

// Right fetches what left refers to.
void introduce_with_memory(End& left, End& right) {
    introduce(left, right);
    LocalPeer* const peer = right.peers().find(kLoopback, left.qp());
    peer->memory = std::make_unique<OwnMemory>();
    peer->in->fetch(true);
    right.kept.fetches = true;
    right.kept.texts.clear();
}

// Right writes a part of the answer to where left wants it, when it has answered what was before.
TEST(LocalLinkTest, AnAnswerIsWrittenWhereItsRequestSays) {
    for (const std::size_t length : {std::size_t{100}, kFetchedFrom + 100}) {
        End left(3), right(4);
        introduce_with_memory(left, right);
        const std::string wanted(length, 'x');
        left.post(right.qp(), "before");
        left.post(right.qp(), wanted, kLoopback, wire::Opcode::rc_read_request, 1, true);
        right.kept.answer = std::string(wanted.size(), 'a');
        EXPECT_EQ(right.receive(), 1u);
        EXPECT_TRUE(right.link->answers_first());
        EXPECT_EQ(left.posted.back(), wanted);
        EXPECT_EQ(right.receive(), 1u);
        EXPECT_TRUE(right.kept.stored);
        EXPECT_EQ(left.posted.back(), right.kept.answer);
    }
}

// The peer takes no references any more: its answer has what the place was for.
TEST(LocalLinkTest, ARequestLeavesWithoutItsPlace) {
    constexpr std::size_t kReth = 16;
    for (const std::size_t length : {std::size_t{100}, 2 * kLargestCopied}) {
        End left(3), right(4);
        introduce_with_addresses(left, right);
        right.kept.texts.clear();
        left.post(right.qp(), std::string(length, 'x'), kLoopback, wire::Opcode::rc_read_request, 1, true);
        EXPECT_EQ(right.receive(), 1u);
        ASSERT_EQ(right.kept.texts.size(), 1u);
        EXPECT_EQ(right.kept.texts[0].size(), kReth);
    }
}

TEST(LocalLinkTest, AnAnswerIsNotWrittenToWhomNobodyMayWrite) {
    End left(3), right(4);
    introduce_with_addresses(left, right);
    right.peers().find(kLoopback, left.qp())->in->fetch(true);
    const std::string wanted(kFetchedFrom + 100, 'x');
    left.post(right.qp(), wanted, kLoopback, wire::Opcode::rc_read_request, 1, true);
    right.kept.answer = std::string(wanted.size(), 'a');
    EXPECT_EQ(right.receive(), 1u);
    EXPECT_EQ(left.posted.back(), wanted);
    EXPECT_FALSE(right.kept.stored);
}

// What is fetched takes long: not too much of it is received before it is answered, and the last is left for
// the time in which the peer makes more.
TEST(LocalLinkTest, WhatIsFetchedIsReceivedInParts) {
    struct Case {
        std::vector<std::size_t> lengths;
        std::vector<unsigned> received;
    };
    constexpr std::size_t kQuarter = LocalLink::kFetchedTogether / 4, kShort = 100;
    for (const Case& c : {Case{{kQuarter}, {1}}, Case{{kQuarter, kQuarter}, {1, 1}},
                          Case{{kQuarter, kQuarter, kQuarter}, {2, 1}},
                          Case{std::vector<std::size_t>(11, kQuarter), {4, 4, 2, 1}},
                          Case{{5 * kQuarter, kQuarter, kQuarter}, {1, 1, 1}},
                          Case{{kShort, kShort, kQuarter, kShort, kShort, kShort}, {5, 1}},
                          Case{{kShort, kShort, kShort}, {3}}}) {
        End left(3), right(4);
        introduce_with_memory(left, right);
        std::vector<std::string> texts;
        for (const std::size_t length : c.lengths) {
            texts.emplace_back(length, static_cast<char>('a' + texts.size()));
            left.post(right.qp(), texts.back(), kLoopback, wire::Opcode::rc_send_only,
                      length == kShort ? 1 : 9, true);
        }
        for (const unsigned expected : c.received) EXPECT_EQ(right.receive(), expected);
        EXPECT_EQ(right.kept.texts, texts);
    }
}

// Who makes it goes on while it is received, if he hears of room in time.
TEST(LocalLinkTest, WhatIsCopiedIsReceivedInParts) {
    End left(3), right(4);
    introduce(left, right);
    std::vector<std::string> texts;
    for (unsigned n = 0; n < 5; n++) {
        texts.emplace_back();
        for (std::size_t i = 0; i < LocalLink::kTakenTogether / 2; i++)
            texts.back() += static_cast<char>(i * (n + 3) >> 2);
        left.post(right.qp(), texts.back(), kLoopback, wire::Opcode::rc_send_only, 9);
    }
    for (const unsigned expected : {2u, 2u, 1u, 0u}) {
        EXPECT_EQ(right.receive(), expected);
        EXPECT_EQ(right.link->goes_on(), expected == 2);
        if (expected != 2) continue;
        right.link->enter_sleep();
        EXPECT_TRUE(right.is_woken());
        right.link->leave_sleep();
    }
    EXPECT_EQ(right.kept.texts, texts);
}

// What the receiver leaves comes one at a time, in order, before others are offered.
TEST(LocalLinkTest, WhatIsThereTogetherIsOfferedTogether) {
    for (const std::size_t takes : {0u, 1u, 3u, 16u}) {
        End left(3), right(4);
        introduce_with_addresses(left, right);
        right.kept.takes_together = takes;
        std::vector<std::string> texts;
        for (unsigned n = 0; n < 40; n++) texts.push_back("message " + std::to_string(n));
        left.post_together(right.qp(), texts);
        EXPECT_EQ(right.receive(), texts.size());
        EXPECT_EQ(right.kept.texts, texts);
        EXPECT_EQ(right.kept.offered, (std::vector<std::size_t>{16, 16, 8}));
    }
}

// With all that is behind it, and not longer: it is taken when nothing came before it.
TEST(LocalLinkTest, WhatIsEarlyStaysForOnce) {
    for (const std::size_t takes : {0u, 2u}) {
        End left(3), right(4);
        introduce_with_addresses(left, right);
        right.kept.takes_together = takes;
        right.kept.early = "third";
        left.post_together(right.qp(), {"first", "second", "third", "fourth"});
        EXPECT_EQ(right.receive(), 2u);
        EXPECT_FALSE(right.link->looks_empty());
        EXPECT_EQ(right.receive(), 2u);
        EXPECT_EQ(right.kept.texts, (std::vector<std::string>{"first", "second", "third", "fourth"}));
    }
}

// Who copies with us has the answer to the last one before we fetch our part of the next.
TEST(LocalLinkTest, WhatCameBeforeALargeMessageIsAnsweredFirst) {
    End left(3), right(4);
    introduce_with_memory(left, right);
    const std::string large(20'000, 'x');
    left.post(right.qp(), "before");
    left.post(right.qp(), large, kLoopback, wire::Opcode::rc_send_first, 5, true);
    left.post(right.qp(), "behind", kLoopback, wire::Opcode::rc_send_last);
    EXPECT_EQ(right.receive(), 1u) << "not what is to be fetched";
    EXPECT_TRUE(right.link->answers_first());
    EXPECT_EQ(right.kept.texts, std::vector<std::string>{"before"});
    EXPECT_EQ(right.receive(), 1u) << "the last one is left";
    EXPECT_FALSE(right.link->answers_first());
    EXPECT_EQ(right.receive(), 1u);
    EXPECT_EQ(right.kept.texts, (std::vector<std::string>{"before", large, "behind"}));
}

TEST(LocalLinkTest, AboutAsManyAreReceivedAsWereAskedFor) {
    End left(3), right(4);
    introduce_with_addresses(left, right);
    right.kept.takes_together = 16;
    left.post_together(right.qp(), std::vector<std::string>(40, "message"));
    for (const unsigned received : {16u, 16u, 8u, 0u})
        EXPECT_EQ(right.link->receive(right.kept, 1), received);
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
        const LocalMark mark(*visit.peer()->out, {.qp = 7, .region = 8});
        right.peers().wait_for_them({.qp = 6}, kNever);
        right.peers().wait_for_them({.region = 7}, kNever);
        left.peers().wait_for_them({}, kNever);  // nobody works on ours
        waiter = std::jthread([&] {
            right.peers().wait_for_them({.region = 8}, kNever);
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
            const LocalMark mark(*visit.peer()->out, {});
            if (write(ready[1], "x", 1) != 1) _exit(1);
            for (;;) pause();
        }
        pollfd said{ready[0], POLLIN, 0};
        while (poll(&said, 1, 1) == 0) here.receive();
        end_process(child);
        waitpid(child, nullptr, 0);
        here.peers().wait_for_them({}, kNever);
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
