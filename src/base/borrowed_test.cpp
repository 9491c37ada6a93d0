#include "base/borrowed.h"

#include <gtest/gtest.h>

#include <vector>

namespace verbena {
namespace {

TEST(Borrowed, IsKeptBetweenCalls) {
    const void* before = nullptr;
    {
        Borrowed<std::vector<int>> first;
        (*first).reserve(100);
        before = (*first).data();
    }
    Borrowed<std::vector<int>> again;
    EXPECT_EQ((*again).data(), before);
}

TEST(Borrowed, OneThatComesMeanwhileGetsAnother) {
    Borrowed<std::vector<int>> outer;
    (*outer).assign(3, 7);
    {
        Borrowed<std::vector<int>> inner;
        EXPECT_TRUE((*inner).empty());
        (*inner).assign(1000, 1);
    }
    EXPECT_EQ(*outer, std::vector<int>(3, 7));
}

}  // namespace
}  // namespace verbena
