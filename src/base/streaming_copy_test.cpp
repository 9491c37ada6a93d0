#include "base/streaming_copy.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

namespace verbena {
namespace {

TEST(StreamingCopy, CopiesEveryByteAndNoOther) {
    constexpr std::size_t kRoom = 512;
    std::vector<std::uint8_t> from(kRoom);
    for (std::size_t i = 0; i < kRoom; i++) from[i] = static_cast<std::uint8_t>(i * 7 + 1);
    for (std::size_t to_offset = 0; to_offset < 64; to_offset += 3)
        for (std::size_t from_offset = 0; from_offset < 64; from_offset += 5)
            for (const std::size_t length : {0u, 1u, 15u, 63u, 64u, 65u, 127u, 128u, 300u}) {
                std::vector<std::uint8_t> to(kRoom, 0), expected(kRoom, 0);
                std::memcpy(&expected[to_offset], &from[from_offset], length);
                streaming_copy(&to[to_offset], &from[from_offset], length);
                ASSERT_EQ(to, expected) << to_offset << " " << from_offset << " " << length;
            }
}

}  // namespace
}  // namespace verbena
