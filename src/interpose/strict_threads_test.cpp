// What several threads post and poll is told of in another order than it happened in.

#include "interpose/strict_requests_testing.h"

namespace verbena::interpose {
namespace {

using StrictThreads = StrictRequests;

TEST_F(StrictThreads, CompletionsThatTwoThreadsTook) {
    send(1, 0);
    send(2, 8, false);
    send(3, 16);
    sent(3);
    memory[0] = memory[8] = 1;  // that one was over, so these are
    sent(1);
    EXPECT_EQ(mistakes, "");
    sent(1);
    EXPECT_EQ(mistakes, "twice ");
}

TEST_F(StrictThreads, OneWrIdForAllThatTwoThreadsPoll) {
    send(1, 0);
    send(1, 8);
    requests.poll_begins(&cq, 1);
    sent(1);        // the second one
    memory[8] = 1;  // which that thread knows
    EXPECT_EQ(mistakes, "");
    sent(1);
    requests.poll_ends(&cq, 1);
    EXPECT_EQ(mistakes, "");
}

TEST_F(StrictThreads, ARegionOfASendThatALaterCompletionProvedOver) {
    send(1, 0);
    post(&qp, {StrictSend{2, true, true, {}}});
    requests.poll_begins(&cq, 1);  // has taken the first one's
    sent(2);
    deregister();
    EXPECT_EQ(mistakes, "");
    sent(1);
    requests.poll_ends(&cq, 1);
    EXPECT_EQ(mistakes, "");
}

TEST_F(StrictThreads, ARegionOfAReceiveThatALaterCompletionProvedOver) {
    receive(1, 0);
    post(&qp, {StrictReceive{2, {}}});
    requests.poll_begins(&cq, 1);
    received(2);
    receive(3, 0);  // the first one's memory
    received(3);
    deregister();
    EXPECT_EQ(mistakes, "");
    received(1);
    EXPECT_EQ(mistakes, "");
}

TEST_F(StrictThreads, OneWrIdForAllAndARegionOfOneThatTwoThreadsPoll) {
    send(1, 0);
    send(1, 8);
    requests.poll_begins(&cq, 1);
    sent(1);
    deregister();
    EXPECT_EQ(mistakes, "");
}

TEST_F(StrictThreads, UnsignalledOnesThatFailedInAnyOrder) {
    send(1, 0, false);
    send(2, 8, false);
    send(3, 16);
    sent(3, false);
    sent(2, false);
    sent(1, false);
    EXPECT_EQ(mistakes, "");
    sent(1, false);
    EXPECT_EQ(mistakes, "twice ");
}

TEST_F(StrictThreads, AnUnsignalledOneThatFailedBeforeALaterOneSucceeded) {
    send(1, 0, false);  // the queue pair was made to work again meanwhile
    send(2, 8);
    const auto began = requests.poll_begins(&cq, 1);
    sent(2);
    requests.completed(&cq, {17, 1, false, false}, began);
    EXPECT_EQ(mistakes, "");
    requests.completed(&cq, {17, 1, false, false}, began);
    EXPECT_EQ(mistakes, "twice ");
}

TEST_F(StrictThreads, UnsignalledOnesThatAreOverMakeNothingFull) {
    for (std::uint64_t i = 0; i < 3; i++) send(i, 0, false);
    send(3, 0);
    requests.poll_begins(&cq, 1);  // two poll, so the three may have failed and are remembered
    sent(3);
    requests.poll_ends(&cq, 1);
    for (std::uint64_t i = 4; i < 8; i++) send(i, 0, false);
    EXPECT_EQ(mistakes, "");
    send(8, 0, false);
    EXPECT_EQ(mistakes, "unsignaled ");
}

TEST_F(StrictThreads, WhatWasForgottenMayFail) {
    for (std::uint64_t i = 0; i < 20; i++) send(i, 0, false);
    mistakes.clear();  // the queue is full
    sent(0, false);
    completed({17, 1, false, true});  // the direction is a hint
    EXPECT_EQ(mistakes, "");
    send(20, 0);
    mistakes.clear();
    sent(20);
    EXPECT_EQ(mistakes, "");
    sent(20);
    EXPECT_EQ(mistakes, "twice ");
}

TEST_F(StrictThreads, CompletionsThatNobodySees) {
    requests.completion_queue_made(&cq, "cq 1", 10);
    for (std::uint64_t i = 0; i < 1000; i++) send(i, 0);
    EXPECT_EQ(mistakes, "");  // the oldest are forgotten, and not outstanding
    sent(0);
    EXPECT_EQ(mistakes, "");
    deregister();
    EXPECT_EQ(mistakes, "region ");
}

TEST_F(StrictThreads, OnlyWhatWasRefusedIsTakenBack) {
    const auto first =
        requests.post_send(&qp, {StrictSend{1, true, false, {}}, StrictSend{2, true, false, {}}});
    const auto second = requests.post_send(&qp, {StrictSend{3, true, false, {}}});
    requests.posted_send(&qp, first, 1);
    requests.posted_send(&qp, second, 1);
    sent(1);
    sent(3);
    EXPECT_EQ(mistakes, "");
    sent(2);
    EXPECT_EQ(mistakes, "twice ");
}

TEST_F(StrictThreads, WhatIsRefusedOverrunsNothing) {
    for (std::uint64_t i = 0; i < 8; i++) receive(i, 8 * i);
    post(&qp, {StrictReceive{9, {buffer(128)}}}, 0);
    EXPECT_EQ(mistakes, "");
}

TEST_F(StrictThreads, WhatAPollHasTakenThatIsUnderWayOverrunsNothing) {
    for (std::uint64_t i = 0; i < 8; i++) receive(i, 8 * i);
    const auto began = requests.poll_begins(&cq, 2);
    receive(8, 64);
    receive(9, 72);
    EXPECT_EQ(mistakes, "");
    requests.completed(&cq, {17, 0, true, true}, began);
    requests.completed(&cq, {17, 1, true, true}, began);
    requests.poll_ends(&cq, 2);
    EXPECT_EQ(mistakes, "");
    receive(10, 80);
    EXPECT_EQ(mistakes, "overrun ");
}

TEST_F(StrictThreads, ACompletionFromBeforeTheQueuePairWentOrWasReset) {
    send(1, 0);
    auto began = requests.poll_begins(&cq, 1);
    requests.queue_pair_stopped(&qp, true);
    requests.completed(&cq, {17, 1, true, false}, began);
    EXPECT_EQ(mistakes, "");
    began = requests.poll_begins(&cq, 1);
    requests.queue_pair_gone(&qp);
    requests.completed(&cq, {17, 1, true, false}, began);
    EXPECT_EQ(mistakes, "");
    sent(1);
    EXPECT_EQ(mistakes, "unknown ");
}

TEST_F(StrictThreads, CompletionsWithoutANumberOfOneOfTwo) {
    int other = 0;
    make(other, 18, 4);
    send(1, 0);
    post(&other, {StrictSend{1, true, true, {buffer(8)}}});
    completed({Requests::kAnyQueuePair, 1});
    memory[8] = 1;  // it was the other's
    completed({Requests::kAnyQueuePair, 1});
    EXPECT_EQ(mistakes, "");
}

}  // namespace
}  // namespace verbena::interpose
