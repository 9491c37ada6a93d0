#include "interpose/strict_remembered.h"

#include <gtest/gtest.h>

namespace verbena::interpose {
namespace {

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
