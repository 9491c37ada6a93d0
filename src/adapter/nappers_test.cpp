#include "adapter/nappers.h"

#include <gtest/gtest.h>

namespace verbena::adapter {
namespace {

TEST(NappersTest, AFewNapOnTheLinkAndFurtherOnesAside) {
    Nappers nappers;
    EXPECT_FALSE(nappers.any());
    for (unsigned i = 0; i < Nappers::kFew; i++) {
        const auto [on_link, length] = nappers.begins();
        EXPECT_TRUE(on_link);
        EXPECT_EQ(length, Nappers::kNap);
    }
    Duration last = Nappers::kNap;
    for (unsigned i = 0; i < 32; i++) {
        const auto [on_link, length] = nappers.begins();
        EXPECT_FALSE(on_link);
        EXPECT_TRUE(length > last || length == Nappers::kLongest) << length;
        last = length;
    }
    EXPECT_EQ(last, Nappers::kLongest);
    for (unsigned i = 0; i < 32; i++) nappers.ends();
    EXPECT_FALSE(nappers.begins().on_link) << "there are as many as are few";
    for (unsigned i = 0; i < 2; i++) nappers.ends();
    EXPECT_TRUE(nappers.begins().on_link);
    EXPECT_TRUE(nappers.any());
    for (unsigned i = 0; i < Nappers::kFew; i++) nappers.ends();
    EXPECT_FALSE(nappers.any());
}

}  // namespace
}  // namespace verbena::adapter
