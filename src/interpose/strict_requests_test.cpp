// Mistakes that are told from posts and completions, and what is none.

#include "interpose/strict_requests.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <string>
#include <vector>

namespace verbena::interpose {
namespace {

constexpr std::uint32_t kLkey = 7;
constexpr Regions::Key kKey{nullptr, kLkey};

class StrictRequests : public testing::Test {
   protected:
    StrictRequests() {
        requests.region_made(kKey, region_of(&region, "mr 1", address(0), sizeof memory));
        requests.completion_queue_made(&cq, "cq 1", 8);
        make(qp, 17, 4);
    }
    void make(int& object, std::uint32_t number, std::uint32_t max_send, const void* shared = nullptr) {
        requests.queue_pair_made(&object, {"qp", number, max_send, &cq, &cq, shared});
        requests.queue_pair_works(&object);
    }
    static Regions::Region region_of(const void* object, const char* name, std::uint64_t address,
                                     std::uint64_t length) {
        return {object, name, address, address, length, Regions::Backing::memory};
    }
    std::uint64_t address(std::size_t offset) { return reinterpret_cast<std::uintptr_t>(memory) + offset; }
    StrictBuffer buffer(std::size_t offset, std::uint32_t length = 8) {
        return {address(offset), length, kLkey};
    }
    void send(std::uint64_t wr_id, std::size_t offset, bool signaled = true) {
        post(&qp, {StrictSend{wr_id, signaled, true, {buffer(offset)}}});
    }
    void post(const void* queue, const std::vector<StrictSend>& all, std::size_t accepted = 99) {
        requests.posted_send(queue, requests.post_send(queue, all), accepted);
    }
    void post(const void* queue, const std::vector<StrictReceive>& all, std::size_t accepted = 99) {
        requests.posted_receive(queue, requests.post_receive(queue, all), accepted);
    }
    void receive(std::uint64_t wr_id, std::size_t offset) {
        post(&qp, {StrictReceive{wr_id, {buffer(offset)}}});
    }
    void sent(std::uint64_t wr_id, bool success = true) { completed({17, wr_id, success, false}); }
    void received(std::uint64_t wr_id, bool success = true) { completed({17, wr_id, success, true}); }
    void completed(const Requests::Completion& completion) {
        const std::uint64_t began = requests.poll_begins(&cq, 1);
        requests.completed(&cq, completion, began);
        requests.poll_ends(&cq, 1);
    }
    void deregister(bool success = true) {
        requests.region_left(requests.region_leaves(kKey, "ibv_dereg_mr"), success);
    }

    char memory[256] = {};
    int region = 0, cq = 0, qp = 0;
    std::string mistakes;
    Requests requests{[this](const char* mistake, const void*, const std::string&) {
        mistakes += std::string(mistake) + " ";
    }};
};

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

// --- what several threads do: they are told of in another order than it happened in

TEST_F(StrictRequests, CompletionsThatTwoThreadsTook) {
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

TEST_F(StrictRequests, OneWrIdForAllThatTwoThreadsPoll) {
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

TEST_F(StrictRequests, ARegionOfASendThatALaterCompletionProvedOver) {
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

TEST_F(StrictRequests, ARegionOfAReceiveThatALaterCompletionProvedOver) {
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

TEST_F(StrictRequests, OneWrIdForAllAndARegionOfOneThatTwoThreadsPoll) {
    send(1, 0);
    send(1, 8);
    requests.poll_begins(&cq, 1);
    sent(1);
    deregister();
    EXPECT_EQ(mistakes, "");
}

TEST_F(StrictRequests, UnsignalledOnesThatFailedInAnyOrder) {
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

TEST_F(StrictRequests, AnUnsignalledOneThatFailedBeforeALaterOneSucceeded) {
    send(1, 0, false);  // the queue pair was made to work again meanwhile
    send(2, 8);
    const auto began = requests.poll_begins(&cq, 1);
    sent(2);
    requests.completed(&cq, {17, 1, false, false}, began);
    EXPECT_EQ(mistakes, "");
    requests.completed(&cq, {17, 1, false, false}, began);
    EXPECT_EQ(mistakes, "twice ");
}

TEST_F(StrictRequests, UnsignalledOnesThatAreOverMakeNothingFull) {
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

TEST_F(StrictRequests, WhatWasForgottenMayFail) {
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

TEST_F(StrictRequests, CompletionsThatNobodySees) {
    requests.completion_queue_made(&cq, "cq 1", 10);
    for (std::uint64_t i = 0; i < 1000; i++) send(i, 0);
    EXPECT_EQ(mistakes, "");  // the oldest are forgotten, and not outstanding
    sent(0);
    EXPECT_EQ(mistakes, "");
    deregister();
    EXPECT_EQ(mistakes, "region ");
}

TEST_F(StrictRequests, OnlyWhatWasRefusedIsTakenBack) {
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

TEST_F(StrictRequests, WhatIsRefusedOverrunsNothing) {
    for (std::uint64_t i = 0; i < 8; i++) receive(i, 8 * i);
    post(&qp, {StrictReceive{9, {buffer(128)}}}, 0);
    EXPECT_EQ(mistakes, "");
}

TEST_F(StrictRequests, WhatAPollHasTakenThatIsUnderWayOverrunsNothing) {
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

TEST_F(StrictRequests, ACompletionFromBeforeTheQueuePairWentOrWasReset) {
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

TEST_F(StrictRequests, CompletionsWithoutANumberOfOneOfTwo) {
    int other = 0;
    make(other, 18, 4);
    send(1, 0);
    post(&other, {StrictSend{1, true, true, {buffer(8)}}});
    completed({Requests::kAnyQueuePair, 1});
    memory[8] = 1;  // it was the other's
    completed({Requests::kAnyQueuePair, 1});
    EXPECT_EQ(mistakes, "");
}

// --- regions

TEST_F(StrictRequests, ARegionThatWasNotDeregistered) {
    deregister(false);
    send(1, 0);
    sent(1);
    EXPECT_EQ(mistakes, "");
    deregister();
    send(2, 0);
    EXPECT_EQ(mistakes, "key ");
}

TEST_F(StrictRequests, AKeyThatIsAnothersBeforeTheCallReturns) {
    const auto ticket = requests.region_leaves(kKey, "ibv_dereg_mr");
    requests.region_made(kKey, region_of(&qp, "mr 2", address(0), sizeof memory));
    requests.region_left(ticket, true);
    send(1, 0);
    EXPECT_EQ(mistakes, "");
}

TEST_F(StrictRequests, AKeyOfAnotherAdapterOrOfOtherMemory) {
    deregister();
    post(&qp, {StrictSend{1, true, true, {{address(0), 8, kLkey, &cq}}}});
    EXPECT_EQ(mistakes, "");
    requests.region_made(kKey, {});
    receive(1, 0);
    receive(2, 0);  // nobody's memory
    EXPECT_EQ(mistakes, "");
    deregister();
    requests.region_imported(kKey, {&region, "mr 2"});
    send(2, 0);
    EXPECT_EQ(mistakes, "region ");
}

// Of a region that was made by a call that nobody sees.
TEST_F(StrictRequests, AKeyThatMayBeAnothersByNow) {
    deregister();
    requests.region_left(requests.region_leaves({nullptr, 8}, "ibv_dereg_mr"), true);
    send(1, 0);
    sent(1);
    EXPECT_EQ(mistakes, "");
    requests.region_made(kKey, {});
    deregister();
    for (std::uint32_t tag = 1; tag < 127; tag++) {
        const Regions::Key key{nullptr, kLkey + 256 * tag};
        requests.region_made(key, {});
        requests.region_left(requests.region_leaves(key, "ibv_dereg_mr"), true);
    }
    send(2, 0);
    EXPECT_EQ(mistakes, "");
}

TEST_F(StrictRequests, TheKeyOfARequestThatReadsNothing) {
    deregister();
    post(&qp, {StrictSend{1, true, false, {buffer(0)}}});
    EXPECT_EQ(mistakes, "key ");
}

TEST_F(StrictRequests, ARegionOfAQueuePairThatNeverWorked) {
    int fresh = 0;
    requests.queue_pair_made(&fresh, {"qp", 18, 4, &cq, &cq, nullptr});
    post(&fresh, {StrictReceive{1, {buffer(0)}}});
    deregister();
    EXPECT_EQ(mistakes, "");
}

TEST_F(StrictRequests, ARegionOfASharedQueueThatNobodyUses) {
    int srq = 0, user = 0;
    requests.shared_queue_made(&srq, "srq 1");
    make(user, 18, 4, &srq);
    post(&srq, {StrictReceive{1, {buffer(0)}}});
    deregister();
    EXPECT_EQ(mistakes, "region ");
    requests.region_made(kKey, region_of(&region, "mr 1", address(0), sizeof memory));
    requests.queue_pair_gone(&user);
    deregister();
    EXPECT_EQ(mistakes, "region ");
}

TEST(Remembered, TheLastOnes) {
    Remembered<int, int> all(2);
    all.add(1, 10);
    all.add(2, 20);
    all.add(1, 11);
    all.add(3, 30);
    EXPECT_EQ(all.find(2), nullptr);
    ASSERT_NE(all.find(1), nullptr);
    EXPECT_EQ(*all.find(1), 11);
    EXPECT_NE(all.find(3), nullptr);
    all.clear();
    EXPECT_EQ(all.find(3), nullptr);
    all.add(4, 40);
    EXPECT_NE(all.find(4), nullptr);
}

}  // namespace
}  // namespace verbena::interpose
