#include "base/free_list.h"

#include <gtest/gtest.h>

namespace verbena {
namespace {

TEST(FreeListTest, WhatWasGivenBackLastIsTakenFirst) {
    FreeList<int> list;
    int out = 0;
    EXPECT_FALSE(list.take(out));
    list.make_room_for(2);
    list.give_back(7);
    list.give_back(8);
    EXPECT_TRUE(list.take(out));
    EXPECT_EQ(out, 8);
    EXPECT_TRUE(list.take(out));
    EXPECT_EQ(out, 7);
    EXPECT_FALSE(list.take(out));
}

// An allocator would be asked, and could refuse.
TEST(FreeListTest, GivingBackMovesNothing) {
    FreeList<int> list;
    constexpr int kMany = 1000;
    for (int i = 0; i < kMany; i++) list.make_room_for(static_cast<std::size_t>(i) + 1);
    list.give_back(0);
    const int* const before = list.data();
    for (int i = 1; i < kMany; i++) list.give_back(i);
    EXPECT_EQ(list.data(), before);
}

}  // namespace
}  // namespace verbena
