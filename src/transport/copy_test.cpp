#include "transport/copy.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

namespace verbena::transport {
namespace {

TEST(Place, EveryAlignmentAndLength) {
    std::vector<std::uint8_t> from(100), to(120);
    for (std::size_t i = 0; i < from.size(); i++) from[i] = static_cast<std::uint8_t>(i + 1);
    for (std::size_t offset = 0; offset < 9; offset++)
        for (std::size_t length = 0; length < 70; length++) {
            std::fill(to.begin(), to.end(), 0xcc);
            place(to.data() + 8 + offset, from.data() + 3, length);
            EXPECT_EQ(std::memcmp(to.data() + 8 + offset, from.data() + 3, length), 0)
                << offset << " " << length;
            EXPECT_EQ(to[7 + offset], 0xcc);
            EXPECT_EQ(to[8 + offset + length], 0xcc);
        }
}

class Lists : public ::testing::Test {
   protected:
    Lists() {
        EXPECT_EQ(regions.add(1, bytes.data(), bytes.size(), base(), memory::kLocalWrite, keys), 0);
        sges = {{base() + 10, 5, keys.lkey}, {base() + 50, 0, 0xbad00}, {base() + 20, 7, keys.lkey}};
    }
    std::uint64_t base() const { return reinterpret_cast<std::uintptr_t>(bytes.data()); }

    std::vector<std::uint8_t> bytes = std::vector<std::uint8_t>(64);
    memory::Sections sections{};
    std::vector<memory::RegionRecord> records = std::vector<memory::RegionRecord>(4);
    memory::RegionTable regions{records, sections};
    memory::Keys keys{};
    std::vector<Sge> sges;
};

TEST_F(Lists, ScatterAcrossElements) {
    EXPECT_EQ(total_length(sges), 12u);
    const std::uint8_t data[] = {1, 2, 3, 4, 5, 6};
    EXPECT_EQ(scatter(regions, 1, sges, 3, data), memory::LookupError::none);
    const std::uint8_t a[] = {0, 0, 0, 1, 2}, b[] = {3, 4, 5, 6, 0};
    EXPECT_EQ(std::memcmp(bytes.data() + 10, a, 5), 0);
    EXPECT_EQ(std::memcmp(bytes.data() + 20, b, 5), 0);
    EXPECT_EQ(scatter(regions, 2, sges, 3, data), memory::LookupError::wrong_pd);
}

TEST_F(Lists, GatherAcrossElements) {
    iovec out[3];
    unsigned count = 0;
    EXPECT_EQ(gather(regions, 1, sges, 4, 3, out, count), memory::LookupError::none);
    ASSERT_EQ(count, 2u);
    EXPECT_EQ(out[0].iov_base, bytes.data() + 14);
    EXPECT_EQ(out[0].iov_len, 1u);
    EXPECT_EQ(out[1].iov_base, bytes.data() + 20);
    EXPECT_EQ(out[1].iov_len, 2u);
    EXPECT_EQ(gather(regions, 1, sges, 12, 0, out, count), memory::LookupError::none);
    EXPECT_EQ(count, 0u);
}

TEST_F(Lists, EmptyElementsNeedNoKey) {
    EXPECT_EQ(check(regions, 1, sges, memory::kLocalWrite), memory::LookupError::none);
    EXPECT_EQ(check(regions, 1, sges, memory::kLocalWrite | memory::kRemoteRead),
              memory::LookupError::no_access);
    sges[2].length = 60;
    EXPECT_EQ(check(regions, 1, sges, 0), memory::LookupError::out_of_bounds);
}

}  // namespace
}  // namespace verbena::transport
