// The reference's key, and its answer for the bytes 0 to 7.
#include "base/keyed_hash.h"

#include <gtest/gtest.h>

namespace verbena {
namespace {

constexpr HashKey kKey{0x0706050403020100, 0x0f0e0d0c0b0a0908};

TEST(KeyedHashTest, IsThatOfTheReference) {
    EXPECT_EQ(keyed_hash(kKey, 0x0706050403020100), 0x93f5f5799a932462);
}

TEST(KeyedHashTest, DependsOnEveryBit) {
    for (unsigned bit = 0; bit < 64; bit++) {
        const std::uint64_t one = std::uint64_t{1} << bit;
        EXPECT_NE(keyed_hash(kKey, one), keyed_hash(kKey, 0));
        EXPECT_NE(keyed_hash({kKey.low ^ one, kKey.high}, 0), keyed_hash(kKey, 0));
        EXPECT_NE(keyed_hash({kKey.low, kKey.high ^ one}, 0), keyed_hash(kKey, 0));
    }
}

}  // namespace
}  // namespace verbena
