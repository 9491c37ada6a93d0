#include "verbs/standstill.h"

#include <gmock/gmock.h>

namespace verbena::verbs {
namespace {

using completion::CompletionQueue;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using Reasons = std::vector<std::string>;

constexpr std::uint64_t kQueue = 1, kChannel = 2;
const void* const queue_identity = &kQueue;
const void* const channel_identity = &kChannel;

class StandstillTest : public testing::Test {
   protected:
    // Looks once more, a second later.
    Reasons look() { return standstill_.look(found_, now_ += Standstill::kLookEvery); }
    // Until something may be told, by which nothing was.
    void wait_almost() {
        for (Time waited = 0; waited < Standstill::kLong; waited += Standstill::kLookEvery)
            ASSERT_THAT(look(), IsEmpty());
    }

    Standstill::QueuePair& sender() {
        Standstill::QueuePair& qp = found_.queue_pairs.emplace_back();
        qp.number = 0x11;
        qp.peer = "QP 0x000022 at 10.0.0.2";
        qp.standing = {.sends = 1, .signaled = true, .waits = true, .wr_id = 7, .psn = 100};
        qp.timeout = 14;
        return qp;
    }
    Standstill::Queue& queue() {
        Standstill::Queue& queue = found_.queues.emplace_back();
        queue.number = 3;
        queue.identity = queue_identity;
        return queue;
    }
    Standstill::Channel& channel_of(Standstill::Queue& queue, unsigned sleepers) {
        queue.channel = channel_identity;
        return found_.channels.emplace_back(
            Standstill::Channel{.identity = channel_identity, .sleepers = sleepers, .queues = 1, .found = 1});
    }

    Standstill standstill_;
    Standstill::Found found_;
    Time now_ = 1000 * kSecond;
};

TEST_F(StandstillTest, APeerThatDoesNotAnswerIsToldOnce) {
    sender();
    wait_almost();
    EXPECT_THAT(look(),
                ElementsAre("QP 0x000011: send request wr_id 0x7 has waited for 2 s: QP 0x000022 at "
                            "10.0.0.2 does not answer; its process may be stopped, or its host cannot "
                            "be reached"));
    EXPECT_THAT(look(), IsEmpty());
}

TEST_F(StandstillTest, AndAgainWhenItHasMovedMeanwhile) {
    Standstill::QueuePair& qp = sender();
    wait_almost();
    EXPECT_THAT(look(), testing::SizeIs(1));
    qp.standing.psn++;
    wait_almost();
    EXPECT_THAT(look(), testing::SizeIs(1));
}

TEST_F(StandstillTest, WhatMovesIsNotTold) {
    Standstill::QueuePair& qp = sender();
    for (int i = 0; i < 10; i++) {
        qp.standing.psn++;
        ASSERT_THAT(look(), IsEmpty());
    }
}

TEST_F(StandstillTest, WhatIsGoneBeginsAnew) {
    sender();
    wait_almost();
    found_.queue_pairs.clear();
    EXPECT_THAT(look(), IsEmpty());
    sender();
    wait_almost();
}

TEST_F(StandstillTest, NoReceiveIsPosted) {
    Standstill::QueuePair& qp = sender();
    qp.rnr_retry = 7;
    qp.rnr_naks_received = 5;  // before
    look();
    qp.rnr_naks_received = 50;
    look();
    EXPECT_THAT(look(), ElementsAre(HasSubstr("QP 0x000022 at 10.0.0.2 has no receive posted (45 RNR NAKs; "
                                              "rnr_retry 7, so it is asked for ever)")));
}

TEST_F(StandstillTest, ToTheReceiver) {
    Standstill::QueuePair& qp = sender();
    qp.standing = {};
    qp.rnr_naks_sent = 1;
    look();
    qp.rnr_naks_sent = 10;
    look();
    EXPECT_THAT(look(), ElementsAre(HasSubstr("no receive is posted (ibv_post_recv): 9 RNR NAKs")));
}

TEST_F(StandstillTest, RefusalsOfEarlierAreNoStandstill) {
    Standstill::QueuePair& qp = sender();
    qp.standing = {};
    qp.rnr_naks_sent = 10;
    for (int i = 0; i < 10; i++) ASSERT_THAT(look(), IsEmpty());
    qp.rnr_naks_sent = 20;
    qp.receives = 1;  // it has been mended
    EXPECT_THAT(look(), IsEmpty());
}

TEST_F(StandstillTest, CompletionsThatNoEventComesFor) {
    struct Case {
        CompletionQueue::Notice notice;
        unsigned sleepers;
        const char* reason;
    };
    for (const Case& each : {Case{{CompletionQueue::Armed::any}, 0, "came before it was armed"},
                             Case{{CompletionQueue::Armed::solicited}, 0, "armed for solicited ones only"},
                             Case{{CompletionQueue::Armed::any, true}, 0, "its moderation"},
                             Case{{CompletionQueue::Armed::no}, 1, "it is not armed"}}) {
        standstill_ = {};
        found_ = {};
        Standstill::Queue& its = queue();
        its.notice = each.notice;
        its.taken = 10;
        its.waiting = 2;
        channel_of(its, each.sleepers);
        wait_almost();
        EXPECT_THAT(look(), ElementsAre(testing::AllOf(
                                HasSubstr("completion queue 3: 2 completion(s) have waited for 2 s"),
                                HasSubstr(each.reason))));
    }
}

// Who has no channel, or does not wait for it, takes completions when he likes; and an event that waits tells
// him.
TEST_F(StandstillTest, CompletionsThatAreLeftAlone) {
    Standstill::Queue& its = queue();
    its.waiting = 2;
    for (int i = 0; i < 5; i++) ASSERT_THAT(look(), IsEmpty());
    Standstill::Channel& channel = channel_of(its, 0);
    for (int i = 0; i < 5; i++) ASSERT_THAT(look(), IsEmpty());
    channel.sleepers = channel.events = 1;
    for (int i = 0; i < 5; i++) ASSERT_THAT(look(), IsEmpty());
}

TEST_F(StandstillTest, NothingIsArmed) {
    Standstill::Queue& its = queue();
    its.taken = 10;
    its.may_get_one = true;
    Standstill::Channel& channel = channel_of(its, 1);
    wait_almost();
    EXPECT_THAT(look(), ElementsAre(HasSubstr("no completion queue of its channel is armed")));

    its.taken++;
    channel.queues = 2;  // one more that nobody knows of
    for (int i = 0; i < 5; i++) ASSERT_THAT(look(), IsEmpty());
    channel.queues = 1;
    its.notice.armed = CompletionQueue::Armed::solicited;
    for (int i = 0; i < 5; i++) ASSERT_THAT(look(), IsEmpty());
}

TEST_F(StandstillTest, NothingIsSignaled) {
    Standstill::Queue& its = queue();
    its.silent = true;
    look();
    its.polls = Standstill::kManyPolls;
    look();
    EXPECT_THAT(look(), ElementsAre(HasSubstr("what was sent has no IBV_SEND_SIGNALED")));
}

TEST_F(StandstillTest, WhereSomethingMayComeNobodyMinds) {
    Standstill::Queue& its = queue();
    its.silent = its.may_get_one = true;
    for (int i = 0; i < 5; i++) {
        its.polls += Standstill::kManyPolls;
        ASSERT_THAT(look(), IsEmpty());
    }
    its.may_get_one = false;
    its.taken = 1;  // there was one, so the program knows of signals
    for (int i = 0; i < 5; i++) {
        its.polls += Standstill::kManyPolls;
        ASSERT_THAT(look(), IsEmpty());
    }
}

}  // namespace
}  // namespace verbena::verbs
