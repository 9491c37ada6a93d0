// What an adapter does otherwise when it has many queue pairs.
#include <gtest/gtest.h>

#include <vector>

#include "adapter/adapter.h"
#include "adapter/test_endpoint.h"

namespace verbena::adapter {
namespace {

using testing::MemoryLink;
using transport::Operation;
using transport::QueuePair;

class ManyQueuePairsTest : public testing::Pair {
   protected:
    ManyQueuePairsTest() {
        for (int i = 1; i < 64; i++) others_.push_back(left_.create());
    }
    ~ManyQueuePairsTest() override {
        for (QueuePair* qp : others_) left_.adapter->destroy_qp(qp, now_);
    }
    void post() {
        ASSERT_EQ(left_.post(Operation::rdma_write, 0, 8, now_, right_.address_of(0), right_.keys.rkey), 0);
        left_.adapter->progress(now_, true);
    }
    void answer() {
        for (int i = 0; i < 2; i++) right_.adapter->progress(now_, true);
        left_.adapter->progress(now_, true);
    }

    std::vector<QueuePair*> others_;
};

// The timer of a queue pair that waits for nothing is let rest; it must ring again for the next message.
TEST_F(ManyQueuePairsTest, ALostPacketIsSentAgainAfterOthersThatWereNot) {
    MemoryLink nowhere;
    for (const Duration pause : {10 * kMicrosecond, 10 * kMillisecond, kSecond}) {
        for (int i = 0; i < 40; i++) {
            post();
            answer();
            ASSERT_EQ(left_.poll().size(), 1u);
            now_ += pause;
        }
        links_[0].peer = &nowhere;
        post();
        links_[0].peer = &links_[1];
        ASSERT_EQ(links_[1].waiting(), 0u);
        for (int i = 0; i < 100 && links_[1].waiting() == 0; i++) {
            now_ += kMillisecond;
            left_.adapter->progress(now_, true);
        }
        answer();
        EXPECT_EQ(left_.poll().size(), 1u);
    }
}

TEST_F(ManyQueuePairsTest, NobodyIsWokenForAQueuePairThatWaitsForNothing) {
    post();
    answer();
    EXPECT_EQ(left_.poll().size(), 1u);
    for (int i = 0; i < 3; i++) left_.adapter->progress(now_ += kSecond, true);
    EXPECT_EQ(left_.adapter->next_deadline(), kNever);
}

}  // namespace
}  // namespace verbena::adapter
