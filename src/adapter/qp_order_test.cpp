#include "adapter/qp_order.h"

#include <gtest/gtest.h>

#include <map>

namespace verbena::adapter {
namespace {

class QpOrderTest : public ::testing::Test {
   protected:
    QpOrder::Expected come(std::uint32_t number) {
        return order_.comes_to(number,
                               [this](std::uint32_t of) { return of == 0 ? nullptr : &followers_[of]; });
    }
    // Each of the first `count` once.
    void round(std::uint32_t count) {
        for (std::uint32_t number = 1; number <= count; number++) come(number);
    }

    QpOrder order_;
    std::map<std::uint32_t, QpOrder::Follower> followers_;
};

TEST_F(QpOrderTest, NothingIsExpectedTheFirstTime) {
    for (std::uint32_t number = 1; number <= 100; number++) {
        const auto expected = come(number);
        EXPECT_FALSE(expected.this_one);
        EXPECT_EQ(expected.soon, 0u);
        EXPECT_EQ(expected.far, 0u);
    }
}

TEST_F(QpOrderTest, WhatCameBehindItTheLastTimeIsExpected) {
    constexpr std::uint32_t kCount = 100;
    round(kCount);
    for (std::uint32_t number = 1; number <= kCount; number++) {
        const auto expected = come(number);
        if (number <= QpOrder::kFar || number > kCount - QpOrder::kFar) continue;
        EXPECT_TRUE(expected.this_one) << number;
        EXPECT_EQ(expected.soon, number + QpOrder::kSoon);
        EXPECT_EQ(expected.far, number + QpOrder::kFar);
    }
}

TEST_F(QpOrderTest, TheSameOneAgainIsNoStep) {
    constexpr std::uint32_t kCount = 100;
    for (unsigned rounds = 0; rounds < 2; rounds++)
        for (std::uint32_t number = 1; number <= kCount; number++)
            for (unsigned times = 0; times < 3; times++) {
                const auto expected = come(number);
                if (times > 0) {
                    EXPECT_TRUE(expected.this_one && expected.soon == 0 && expected.far == 0);
                } else if (rounds > 0 && number <= kCount - QpOrder::kFar) {
                    EXPECT_EQ(expected.far, number + QpOrder::kFar);
                }
            }
}

TEST_F(QpOrderTest, AnotherOrderIsLearnt) {
    round(10);
    for (unsigned times = 0; times < 2; times++)
        for (std::uint32_t number = 10; number >= 1; number--) come(number);
    come(10);
    EXPECT_EQ(come(9).far, 9 - QpOrder::kFar);
}

}  // namespace
}  // namespace verbena::adapter
