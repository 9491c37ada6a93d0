// Sentences about requests: who finds which.
#include "base/failures.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <thread>

#include "base/reason.h"

namespace verbena {
namespace {

TEST(Failures, ARequestIsFoundByItsQueuePairAndNumber) {
    record_failure(FailedPart::send, 0x101, 7, "lkey 0x%x", 0x42);
    record_failure(FailedPart::receive, 0x101, 8, "short");
    record_failure(FailedPart::send, 0x102, 7, "other");
    EXPECT_EQ(failure_of_request(0x101, 7), "lkey 0x42");
    EXPECT_EQ(failure_of_request(0x101, 8), "short");
    EXPECT_EQ(failure_of_request(0x102, 7), "other");
    EXPECT_EQ(failure_of_request(0x103, 7), "");
}

TEST(Failures, TheNewestOfOneNumber) {
    record_failure(FailedPart::send, 0x111, 0, "first");
    record_failure(FailedPart::send, 0x111, 0, "second");
    EXPECT_EQ(failure_of_request(0x111, 0), "second");
}

// A receive that is reported as flushed, or an event: the peer's request was at fault.
TEST(Failures, ThePeersRequestStandsInForOneWithoutASentence) {
    record_failure(FailedPart::peer_request, 0x121, 0, "rkey");
    EXPECT_EQ(failure_of_request(0x121, 99), "rkey");
    record_failure(FailedPart::receive, 0x121, 99, "own");
    EXPECT_EQ(failure_of_request(0x121, 99), "own");
}

TEST(Failures, AQueuePairsIsTheFirst) {
    record_failure(FailedPart::send, 0x131, 1, "cause");
    record_failure(FailedPart::queue_pair, 0x131, 0, "consequence");
    EXPECT_EQ(failure_of_queue_pair(0x131), "cause");
    EXPECT_EQ(failure_of_queue_pair(0x132), "");
}

TEST(Failures, ANewQueuePairOfTheNumberHasNone) {
    record_failure(FailedPart::send, 0x141, 1, "old");
    forget_failures(0x141);
    EXPECT_EQ(failure_of_request(0x141, 1), "");
    EXPECT_EQ(failure_of_queue_pair(0x141), "");
    record_failure(FailedPart::send, 0x141, 1, "new");
    EXPECT_EQ(failure_of_request(0x141, 1), "new");
}

TEST(Failures, OldOnesMakeRoom) {
    for (std::size_t i = 0; i <= kFailuresKept; i++) record_failure(FailedPart::send, 0x151, i, "%zu", i);
    EXPECT_EQ(failure_of_request(0x151, 0), "");
    EXPECT_EQ(failure_of_request(0x151, 1), "1");
    EXPECT_EQ(failure_of_request(0x151, kFailuresKept), std::to_string(kFailuresKept));
    EXPECT_EQ(failure_of_queue_pair(0x151), "1");
}

TEST(Failures, ALongSentenceIsCut) {
    record_failure(FailedPart::send, 0x161, 1, "%s", std::string(2000, 'x').c_str());
    const std::string text = failure_of_request(0x161, 1);
    EXPECT_GT(text.size(), 300u);
    EXPECT_LT(text.size(), 2000u);
}

TEST(Failures, AForkedChildIsNotBlockedByTheParentsThreads) {
    std::atomic<bool> stop = false;
    std::thread busy([&stop] {
        while (!stop) record_failure(FailedPart::queue_pair, 0x171, 0, "again");
    });
    for (int i = 0; i < 50; i++) {
        const pid_t child = fork();
        if (child == 0) {
            alarm(20);
            failures_forked();
            record_failure(FailedPart::queue_pair, 0x172, 0, "in the child");
            _exit(failure_of_queue_pair(0x172) == "in the child" && failure_of_queue_pair(0x171).empty() ? 0
                                                                                                         : 1);
        }
        int status = -1;
        ASSERT_EQ(waitpid(child, &status, 0), child);
        EXPECT_EQ(status, 0);
    }
    stop = true;
    busy.join();
}

TEST(Failures, TheCallInProgressHasAName) {
    EXPECT_EQ(current_call_name(), nullptr);
    Call call("ibv_modify_qp");
    EXPECT_STREQ(current_call_name(), "ibv_modify_qp");
}

}  // namespace
}  // namespace verbena
