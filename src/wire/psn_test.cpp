#include "wire/psn.h"

#include <gtest/gtest.h>

namespace verbena::wire {
namespace {

TEST(Psn, AddWraps) {
    EXPECT_EQ(psn_add(5, 3), 8u);
    EXPECT_EQ(psn_add(kPsnMask, 1), 0u);
    EXPECT_EQ(psn_add(0, static_cast<std::uint32_t>(-1)), kPsnMask);
    EXPECT_EQ(psn_next(0xfffffe), 0xffffffu);
    EXPECT_EQ(psn_next(0xffffff), 0u);
}

TEST(Psn, DifferenceIsSignedAndShortestWay) {
    EXPECT_EQ(psn_diff(7, 7), 0);
    EXPECT_EQ(psn_diff(8, 7), 1);
    EXPECT_EQ(psn_diff(7, 8), -1);
    EXPECT_EQ(psn_diff(2, 0xfffffe), 4);
    EXPECT_EQ(psn_diff(0xfffffe, 2), -4);
    EXPECT_EQ(psn_diff(0x7fffff, 0), 0x7fffff);
    EXPECT_EQ(psn_diff(0x800000, 0), -0x800000);
}

TEST(Psn, HighBitsOfArgumentsDoNotCount) { EXPECT_EQ(psn_diff(0x01000003, 1), 2); }

TEST(Psn, OrderAcrossTheWrap) {
    EXPECT_TRUE(psn_less(0xffffff, 0));
    EXPECT_FALSE(psn_less(0, 0xffffff));
    EXPECT_FALSE(psn_less(4, 4));
    EXPECT_TRUE(psn_less_equal(4, 4));
    EXPECT_TRUE(psn_less_equal(0xffffff, 1));
    EXPECT_FALSE(psn_less_equal(1, 0xffffff));
}

}  // namespace
}  // namespace verbena::wire
