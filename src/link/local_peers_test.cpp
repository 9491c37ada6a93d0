// How peers are met where that does not go smoothly: both ask, a block goes to another process, a question or
// an answer is lost. A peer of which only the greetings matter is played by hand.
#include "link/local_peers.h"

#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/cancellation_testing.h"
#include "base/put_off.h"
#include "base/signal_event.h"
#include "link/local_link_harness.h"
#include "link/local_meeting.h"

namespace verbena::link {
namespace {

using testing::End;
using testing::fabric;
using testing::kLoopback;
using State = LocalPeer::State;

constexpr unsigned kEnough = 5000;  // packets until the next question, at least

// Where no pidfd is to be had.
int nobody(pid_t) { return -1; }

std::uint32_t qp_of(std::uint32_t block) { return block << kBlockBits | 5; }

// The owner of a block, without a link of its own. It ends, or calls exec(), by leave().
struct ByHand {
    explicit ByHand(std::uint32_t number) : block(number), inbox(open_inbox(fabric(), number)) {
        EXPECT_NE(inbox, nullptr);
    }
    ~ByHand() {
        leave();
        close(event);
        close(segment);
    }
    void leave() { inbox.reset(); }
    bool receive() {
        greeting.emplace();
        return receive_greeting(*inbox, *greeting) == Received::greeting;
    }
    bool received(Greeting::Kind kind) { return receive() && greeting->text.kind == kind; }
    void send(Greeting::Kind kind, std::uint32_t to, std::uint64_t cookie) const {
        const bool offers = kind == Greeting::Kind::question || kind == Greeting::Kind::answer;
        Greeting::Text text;
        text.kind = kind;
        text.from = block;
        text.to = to;
        text.cookie = cookie;
        text.nonce = 1000 + block;
        const Greeting::Descriptors fds{in->fd(), event, segment, sign};
        EXPECT_EQ(send_greeting(fabric(), text, offers ? fds : Greeting::kNone), 0);
    }
    // What came last had one.
    std::unique_ptr<LocalRing> ring() const { return LocalRing::open(greeting->fds[0]); }
    void crowd() const {
        Greeting::Text text;
        text.to = block;
        while (send_greeting(fabric(), text, Greeting::kNone) == 0) {
        }
    }

    const std::uint32_t block;
    std::unique_ptr<NamedInbox> inbox;
    const int event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), segment = memfd_create("tables", MFD_CLOEXEC);
    const std::unique_ptr<LocalRing> in = LocalRing::create();
    int sign = -1;  // of life
    std::optional<Greeting> greeting;
};

void write_to(LocalRing& ring) {
    wire::Path path;
    path.source = path.destination = kLoopback;
    std::string text = "its BTH, and all of it";
    const iovec piece{text.data(), text.size()};
    ASSERT_TRUE(ring.append(path, {&piece, 1}));
    ring.publish();
}

void expect_both_ways(End& left, End& right, std::uint32_t rights_block) {
    const auto by_wire = left.wire.sent + right.wire.sent;
    left.kept.texts.clear();
    right.kept.texts.clear();
    left.post(qp_of(rights_block), "there");
    right.post(left.qp(), "and back");
    left.receive();
    right.receive();
    EXPECT_EQ(right.kept.texts, std::vector<std::string>{"there"});
    EXPECT_EQ(left.kept.texts, std::vector<std::string>{"and back"});
    EXPECT_EQ(left.wire.sent + right.wire.sent, by_wire);
}

// Who connects asks once, and waits for no other answer.
TEST(LocalPeersTest, ARefusalIsTheAnswer) {
    End left(3);
    ByHand right(9);
    EXPECT_EQ(left.peers().meet(kLoopback, qp_of(9)), LocalPeers::Met::asked);
    EXPECT_EQ(left.peers().how_met(qp_of(9)), LocalPeers::Met::asked);
    ASSERT_TRUE(right.received(Greeting::Kind::question));
    right.send(Greeting::Kind::refusal, 3, right.greeting->text.cookie);
    left.receive();
    EXPECT_EQ(left.peers().how_met(qp_of(9)), LocalPeers::Met::no);
    EXPECT_FALSE(right.receive());
    EXPECT_EQ(left.peers().meet(kLoopback, qp_of(9)), LocalPeers::Met::asked);  // by the next connection
}

// Each does not know that who asks is the one that it asks.
TEST(LocalPeersTest, QuestionsCrossThoughOneHasTwoBlocks) {
    End left(3), right(4);
    ASSERT_EQ(right.peers().add_block(9), 0);
    EXPECT_EQ(left.peers().meet(kLoopback, qp_of(9)), LocalPeers::Met::asked);
    EXPECT_EQ(right.peers().meet(kLoopback, left.qp()), LocalPeers::Met::asked);
    right.receive();
    left.receive();
    right.receive();
    for (int i = 0; i < 3; i++)
        for (const std::uint32_t block : {9u, 4u}) expect_both_ways(left, right, block);
}

// Who owned the block was asked, and is gone; who owns it now asks. Ours would count, but he has not got it.
TEST(LocalPeersTest, TheNextOwnersQuestionIsHeard) {
    for (const auto& [ours, his] : {std::pair{3u, 9u}, std::pair{9u, 3u}}) {
        End here(ours);
        {
            const ByHand before(his);
            EXPECT_EQ(here.peers().meet(kLoopback, qp_of(his)), LocalPeers::Met::asked);
        }
        End next(his);
        EXPECT_EQ(next.peers().meet(kLoopback, here.qp()), LocalPeers::Met::asked);
        for (int i = 0; i < 2; i++) {
            here.receive();
            next.receive();
        }
        expect_both_ways(here, next, his);
    }
}

// The same, and his predecessor has written to the ring that he was offered, or was at work just then.
TEST(LocalPeersTest, NobodyGetsARingThatWasAnothers) {
    for (const auto& [ours, his] : {std::pair{3u, 9u}, std::pair{9u, 3u}})
        for (const bool writes : {true, false})
            for (const bool he_asks : {true, false}) {
                std::unique_ptr<LocalRing> ring;
                std::unique_ptr<LocalMark> mark;  // of who was killed
                End here(ours);
                {
                    ByHand before(his);
                    EXPECT_EQ(here.peers().meet(kLoopback, qp_of(his)), LocalPeers::Met::asked);
                    ASSERT_TRUE(before.received(Greeting::Kind::question));
                    ring = before.ring();
                    if (writes)
                        write_to(*ring);
                    else
                        mark = std::make_unique<LocalMark>(*ring, memory::Work{});
                }
                End next(his);
                if (he_asks)
                    EXPECT_EQ(next.peers().meet(kLoopback, here.qp()), LocalPeers::Met::asked);
                else
                    for (unsigned i = 0; i < kEnough; i++) here.post(qp_of(his), "by the wire");
                for (int i = 0; i < 4; i++) {
                    next.receive();
                    here.receive();
                }
                expect_both_ways(here, next, his);
                if (HasFailure()) return;  // or that would have no end
                here.peers().wait_for_them({}, kNever);
            }
}

TEST(LocalPeersTest, WhoWasAskedAndIsGoneHasNoPlace) {
    End here(3);
    {
        const ByHand never_answers(9);
        EXPECT_EQ(here.peers().meet(kLoopback, qp_of(9)), LocalPeers::Met::asked);
        for (int i = 0; i < 3; i++) here.peers().look_around();
        EXPECT_EQ(here.peers().at(0).state, State::asked) << "it is still there";
    }
    for (int i = 0; i < 3; i++) here.peers().look_around();
    EXPECT_EQ(here.peers().at(0).state, State::unused);
}

TEST(LocalPeersTest, WhoWasAskedAndIsGoneIsNotAtWork) {
    End here(3);
    ByHand there(9);
    EXPECT_EQ(here.peers().meet(kLoopback, qp_of(9)), LocalPeers::Met::asked);
    ASSERT_TRUE(there.received(Greeting::Kind::question));
    const auto ring = there.ring();
    const LocalMark mark(*ring, {});
    there.leave();
    here.peers().wait_for_them({}, kNever);
}

// By exec(): the process lives, and its mark is set.
TEST(LocalPeersTest, WhoHasBecomeAnotherProgramIsNotAtWork) {
    End left(3), right(4);
    testing::introduce(left, right);
    const LocalPeers::Visit visit(left.peers(), kLoopback, right.qp());
    const LocalMark mark(*visit.peer()->out, {});
    left.peers().abandon();
    right.peers().wait_for_them({}, kNever);
}

TEST(LocalPeersTest, AQuestionThatCannotBeRepeatedIsStillAnswered) {
    End here(3);
    ByHand there(9);
    EXPECT_EQ(here.peers().meet(kLoopback, qp_of(9)), LocalPeers::Met::asked);
    ASSERT_TRUE(there.received(Greeting::Kind::question));
    const std::uint64_t cookie = there.greeting->text.cookie;
    there.crowd();
    for (unsigned i = 0; i < kEnough; i++) here.post(qp_of(9), "by the wire");
    there.send(Greeting::Kind::answer, 3, cookie);
    here.receive();
    EXPECT_NE(here.peers().find(kLoopback, qp_of(9)), nullptr);
}

TEST(LocalPeersTest, AnAnswerToNoQuestionIsRefused) {
    End here(3);
    ByHand there(9);
    there.send(Greeting::Kind::answer, 3, 12345);
    here.receive();
    ASSERT_TRUE(there.received(Greeting::Kind::refusal));
    EXPECT_EQ(there.greeting->text.cookie, 12345u);
    EXPECT_EQ(here.peers().find(kLoopback, qp_of(9)), nullptr);
}

TEST(LocalPeersTest, AnAnswerThatCameTwiceIsNotRefused) {
    End here(3);
    ByHand there(9);
    EXPECT_EQ(here.peers().meet(kLoopback, qp_of(9)), LocalPeers::Met::asked);
    ASSERT_TRUE(there.received(Greeting::Kind::question));
    for (const Greeting::Kind kind : {Greeting::Kind::answer, Greeting::Kind::answer, Greeting::Kind::known})
        there.send(kind, 3, there.greeting->text.cookie);
    here.receive();
    EXPECT_FALSE(there.receive());
    EXPECT_NE(here.peers().find(kLoopback, qp_of(9)), nullptr);
}

TEST(LocalPeersTest, WhoRefusesTheAnswerIsNotWrittenTo) {
    End here(3);
    ByHand there(9);
    there.send(Greeting::Kind::question, 3, 77);
    here.receive();
    ASSERT_TRUE(there.received(Greeting::Kind::answer));
    ASSERT_NE(here.peers().find(kLoopback, qp_of(9)), nullptr);
    there.send(Greeting::Kind::refusal, 3, 78);  // of something else
    here.receive();
    EXPECT_NE(here.peers().find(kLoopback, qp_of(9)), nullptr);
    there.send(Greeting::Kind::refusal, 3, 77);
    here.receive();
    EXPECT_EQ(here.peers().find(kLoopback, qp_of(9)), nullptr);
}

TEST(LocalPeersTest, ASignOfLifeTellsOfTheEnd) {
    LifeSign life;
    End here(3, fabric(), nobody);
    ByHand there(9);
    there.sign = life.shown();
    ASSERT_GE(there.sign, 0);
    EXPECT_EQ(life.shown(), there.sign) << "one for all";
    there.send(Greeting::Kind::question, 3, 77);
    here.receive();
    ASSERT_TRUE(there.received(Greeting::Kind::answer));
    EXPECT_GE(there.greeting->fds[3], 0) << "it tells its own";
    here.receive();
    ASSERT_NE(here.peers().find(kLoopback, qp_of(9)), nullptr);
    EXPECT_FALSE(here.is_woken());
    life.abandon();
    EXPECT_TRUE(here.is_woken());
    here.receive();
    EXPECT_EQ(here.peers().find(kLoopback, qp_of(9)), nullptr);
}

// Or else the signal would go to whatever has the descriptor's number by then.
TEST(LocalPeersTest, WhoIsStillToBeWokenKeepsItsPlace) {
    LifeSign life;
    End here(3, fabric(), nobody);
    ByHand there(9);
    there.sign = life.shown();
    there.send(Greeting::Kind::question, 3, 77);
    here.receive();
    LocalPeer* const peer = here.peers().find(kLoopback, qp_of(9));
    ASSERT_NE(peer, nullptr);
    there.in->enter_sleep();
    {
        const PutOff behind_locks;
        here.post(qp_of(9), "somebody sleeps");
        life.abandon();
        here.receive();
        here.receive();
        EXPECT_EQ(peer->state, State::dead);
        EXPECT_FALSE(take_events(there.event));
    }
    EXPECT_TRUE(take_events(there.event));
    here.receive();
    EXPECT_EQ(peer->state, State::unused);
}

// As fork() leaves it, in the child: that is not its parent, who may end before it.
TEST(LocalPeersTest, AChildIsNoSignOfItsParentsLife) {
    End left(3, fabric(), nobody), right(4, fabric(), nobody);
    testing::introduce(left, right);
    right.peers().look_around();
    ASSERT_NE(right.peers().find(kLoopback, left.qp()), nullptr);
    left.peers().abandon();
    right.peers().look_around();
    EXPECT_EQ(right.peers().find(kLoopback, left.qp()), nullptr);
}

TEST(LocalPeersTest, WhoseEndNothingTellsOfIsNotMet) {
    End here(3, fabric(), nobody);
    ByHand there(9);
    there.send(Greeting::Kind::question, 3, 77);
    here.receive();
    EXPECT_TRUE(there.received(Greeting::Kind::refusal));
    EXPECT_EQ(here.peers().find(kLoopback, qp_of(9)), nullptr);
}

// Whether the address is one of the host's is asked of the kernel, with locks held.
TEST(LocalPeersTest, ACancelledThreadLooksForAnAddressToTheEnd) {
    End left(3);
    const Gid unknown = Gid::from_ipv4(0x7f000009);
    ASSERT_TRUE(is_through_although_cancelled([&] { left.peers().meet(unknown, qp_of(4)); }));
    EXPECT_EQ(left.peers().meet(unknown, qp_of(4)), LocalPeers::Met::no);
}

TEST(LocalPeersTest, WithoutDescriptorsWeDoNotMeetOurselves) {
    End end(3);
    rlimit before{};
    ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
    const int next = dup(STDERR_FILENO);
    close(next);
    rlimit one_more = before;
    one_more.rlim_cur = static_cast<rlim_t>(next) + 1;  // the ring's
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &one_more), 0);
    const LocalPeers::Met met = end.peers().meet(kLoopback, end.qp());
    setrlimit(RLIMIT_NOFILE, &before);
    EXPECT_EQ(met, LocalPeers::Met::no);
    EXPECT_EQ(end.peers().count(), 1u) << "the ring was there";
    EXPECT_EQ(end.peers().meet(kLoopback, end.qp()), LocalPeers::Met::yes) << "later it goes";
}

}  // namespace
}  // namespace verbena::link
