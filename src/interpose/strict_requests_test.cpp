// Mistakes that are told from posts and completions, and what is none.

#include <sys/mman.h>

#include "interpose/strict_requests_testing.h"

namespace verbena::interpose {
namespace {

TEST_F(StrictRequests, WhatIsRight) {
    for (std::uint64_t i = 0; i < 20; i++) {
        receive(i, 64);
        send(i, 0);
        sent(i);
        received(i);
        memory[0]++;
    }
    EXPECT_EQ(mistakes, "");
}

TEST_F(StrictRequests, AChangedBuffer) {
    send(1, 0);
    memory[7] = 1;
    sent(1);
    EXPECT_EQ(mistakes, "changed ");
}

TEST_F(StrictRequests, AnUnsignalledOneIsOverWithTheNextThatIsNot) {
    send(1, 0, false);
    memory[0] = 1;
    send(2, 64);
    sent(2);
    EXPECT_EQ(mistakes, "changed ");
}

TEST_F(StrictRequests, WhatIsFlushedIsNotLookedAt) {
    send(1, 0);
    memory[0] = 1;
    sent(1, false);
    EXPECT_EQ(mistakes, "");
}

TEST_F(StrictRequests, ABufferThatAReceiveHasTooMayChange) {
    receive(1, 0);
    send(1, 0);
    memory[0] = 1;
    sent(1);
    EXPECT_EQ(mistakes, "");
}

TEST_F(StrictRequests, OverlappingReceives) {
    receive(1, 0);
    receive(2, 8);
    EXPECT_EQ(mistakes, "");
    receive(3, 15);
    EXPECT_EQ(mistakes, "overlap ");
}

TEST_F(StrictRequests, AReceivePostedTwice) {
    receive(1, 0);
    receive(2, 8);
    receive(2, 8);
    EXPECT_EQ(mistakes, "overlap ");
}

TEST_F(StrictRequests, OneBufferForAllIsABenchmark) {
    for (int i = 0; i < 4; i++) receive(1, 0);
    EXPECT_EQ(mistakes, "");
}

TEST_F(StrictRequests, WhatHasCompletedIsFree) {
    receive(1, 0);
    received(1);
    receive(2, 0);
    received(2);
    post(&qp, {StrictReceive{3, {buffer(0)}}}, 0);
    receive(4, 0);
    EXPECT_EQ(mistakes, "");
}

TEST_F(StrictRequests, ARegionInUse) {
    receive(1, 0);
    deregister();
    EXPECT_EQ(mistakes, "region ");
}

TEST_F(StrictRequests, ARegionOfAQueuePairThatStopped) {
    receive(1, 0);
    requests.queue_pair_stopped(&qp, false);
    deregister();
    EXPECT_EQ(mistakes, "");
    requests.queue_pair_works(&qp);
    receive(2, 64);
    EXPECT_EQ(mistakes, "key ");
}

TEST_F(StrictRequests, MemoryThatIsGone) {
    void* mapped = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    const auto begin = reinterpret_cast<std::uintptr_t>(mapped);
    requests.region_made({nullptr, 8}, region_of(mapped, "mr 2", begin, 4096));
    post(&qp, {StrictSend{1, true, true, {{begin, 64, 8}}}});
    EXPECT_EQ(mistakes, "");
    munmap(mapped, 4096);
    sent(1);
    EXPECT_EQ(mistakes, "unmapped ");
    post(&qp, {StrictReceive{1, {{begin, 64, 8}}}});
    EXPECT_EQ(mistakes, "unmapped unmapped ");
}

TEST_F(StrictRequests, ACompletionQueueThatCanOverrun) {
    for (std::uint64_t i = 0; i < 8; i++) receive(i, 8 * i);
    EXPECT_EQ(mistakes, "");
    send(9, 128, false);
    EXPECT_EQ(mistakes, "");
    send(10, 128);
    EXPECT_EQ(mistakes, "overrun ");
}

TEST_F(StrictRequests, AQueueFullOfUnsignalled) {
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 3; i++) send(1, 0, false);
        send(2, 0);
        sent(2);
    }
    for (int i = 0; i < 4; i++) send(1, 0, false);
    EXPECT_EQ(mistakes, "");
    send(1, 0, false);
    EXPECT_EQ(mistakes, "unsignaled ");
}

TEST_F(StrictRequests, CompletionsOfNothing) {
    send(1, 0);
    sent(1);
    sent(1);
    EXPECT_EQ(mistakes, "twice ");
    receive(1, 0);
    received(2);
    EXPECT_EQ(mistakes, "twice twice ");
    completed({99, 1, true, true});  // a provider's own queue pair
    EXPECT_EQ(mistakes, "twice twice ");
}

TEST_F(StrictRequests, PostsThatAreNotSeenSayNothing) {
    sent(1);
    received(1);
    EXPECT_EQ(mistakes, "");
}

TEST_F(StrictRequests, OfAFailureTheDirectionIsFound) {
    receive(1, 0);
    send(2, 8);
    completed({17, 1, false, false});
    completed({17, 2, false, true});
    EXPECT_EQ(mistakes, "");
}

TEST_F(StrictRequests, SharedReceiveQueues) {
    int srq = 0, user = 0;
    requests.shared_queue_made(&srq, "srq 1");
    make(user, 18, 4, &srq);
    post(&srq, std::vector<StrictReceive>{{1, {buffer(0)}}, {2, {buffer(8)}}});
    completed({18, 2, true, true});
    completed({18, 1, true, true});
    EXPECT_EQ(mistakes, "");
    completed({18, 1, true, true});
    EXPECT_EQ(mistakes, "twice ");
}

TEST_F(StrictRequests, CompletionsWithoutANumber) {
    receive(1, 0);
    send(1, 8);
    completed({Requests::kAnyQueuePair, 1, true, true});
    receive(2, 0);
    completed({Requests::kAnyQueuePair, 1, true, false});
    EXPECT_EQ(mistakes, "");
    memory[8] = 1;
    send(3, 8);
    requests.queue_pair_gone(&qp);
    EXPECT_EQ(mistakes, "");
}

}  // namespace
}  // namespace verbena::interpose
