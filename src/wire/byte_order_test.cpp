#include "wire/byte_order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace verbena::wire {
namespace {

using ::testing::ElementsAre;

constexpr std::uint8_t kBytes[] = {0x00, 0x81, 0x82, 0x83, 0x84, 0x85, 0x86, 0x87, 0x88};

TEST(ByteOrder, LoadsAtAnyAlignment) {
    EXPECT_EQ(load_be16(kBytes + 1), 0x8182);
    EXPECT_EQ(load_be24(kBytes + 1), 0x818283u);
    EXPECT_EQ(load_be32(kBytes + 1), 0x81828384u);
    EXPECT_EQ(load_be64(kBytes + 1), 0x8182838485868788u);
    EXPECT_EQ(load_le32(kBytes + 1), 0x84838281u);
}

TEST(ByteOrder, StoresTheirWidthOnly) {
    std::uint8_t out[9] = {};
    store_be16(out, 0x8182);
    EXPECT_THAT(out, ElementsAre(0x81, 0x82, 0, 0, 0, 0, 0, 0, 0));
    store_be24(out, 0xff010203);
    EXPECT_THAT(out, ElementsAre(1, 2, 3, 0, 0, 0, 0, 0, 0));
    store_be32(out, 0x81828384);
    EXPECT_THAT(out, ElementsAre(0x81, 0x82, 0x83, 0x84, 0, 0, 0, 0, 0));
    store_le32(out, 0x81828384);
    EXPECT_THAT(out, ElementsAre(0x84, 0x83, 0x82, 0x81, 0, 0, 0, 0, 0));
    store_be64(out, 0x8182838485868788);
    EXPECT_THAT(out, ElementsAre(0x81, 0x82, 0x83, 0x84, 0x85, 0x86, 0x87, 0x88, 0));
}

}  // namespace
}  // namespace verbena::wire
