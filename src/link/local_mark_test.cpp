// What a ring's producer says of its work on the consumer's memory.
#include <gtest/gtest.h>

#include <memory>

#include "link/local_ring.h"

namespace verbena::link {
namespace {

class LocalMarkTest : public ::testing::Test {
   protected:
    void SetUp() override {
        ASSERT_NE(consumer_, nullptr);
        ASSERT_NE(producer_, nullptr);
    }

    const std::unique_ptr<LocalRing> consumer_ = LocalRing::create();
    const std::unique_ptr<LocalRing> producer_ = consumer_ ? LocalRing::open(consumer_->fd()) : nullptr;
};

TEST_F(LocalMarkTest, TheConsumerSeesWhoIsAtWork) {
    const auto marked = [&] {
        unsigned count = 0;
        for (unsigned mark = 0; mark < LocalRing::kMarks; mark++) count += consumer_->marked(mark);
        return count;
    };
    EXPECT_EQ(marked(), 0u);
    {
        const LocalMark one(*producer_, {});
        EXPECT_EQ(marked(), 1u);
        const LocalMark another(*producer_, {});  // of the same thread
        EXPECT_EQ(marked(), 1u);
    }
    EXPECT_EQ(marked(), 0u);
}

TEST_F(LocalMarkTest, AndAtWhat) {
    const auto marked = [&](const memory::Work& work) {
        unsigned count = 0;
        for (unsigned mark = 0; mark < LocalRing::kMarks; mark++) count += consumer_->marked(mark, work);
        return count;
    };
    const memory::Work ours{.qp = 0xabcdef, .region = 0x123456};
    {
        LocalMark mark(*producer_, {.qp = ours.qp});
        EXPECT_EQ(marked({.region = 5}), 1u) << "it may be any";
        EXPECT_EQ(marked({.qp = 5}), 0u);
        mark.narrow(ours);
        EXPECT_EQ(marked(ours), 1u);
        EXPECT_EQ(marked({.qp = ours.qp}), 1u);
        EXPECT_EQ(marked({.region = ours.region}), 1u);
        EXPECT_EQ(marked({.qp = ours.qp, .region = 5}), 0u);
        EXPECT_EQ(marked({.region = 5}), 0u);
        {
            LocalMark another(*producer_, {.qp = 9});  // of several nothing is said
            another.narrow({.qp = 9, .region = 9});
            EXPECT_EQ(marked({.qp = 5, .region = 5}), 1u);
        }
        EXPECT_EQ(marked({.qp = 5}), 1u) << "nor of the one that is left";
        mark.narrow(ours);
        EXPECT_EQ(marked({.qp = 5}), 1u);
    }
    EXPECT_EQ(marked({}), 0u);
}

TEST_F(LocalMarkTest, WhoIsAtWorkIsAProducer) {
    const LocalMark mark(*producer_, {});
    EXPECT_TRUE(consumer_->is_used());
}

}  // namespace
}  // namespace verbena::link
