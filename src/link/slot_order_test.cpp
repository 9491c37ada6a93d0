#include "link/slot_order.h"

#include <gtest/gtest.h>

#include <vector>

namespace verbena::link {
namespace {

constexpr std::size_t kLinesOfPage = 64;

TEST(SlotOrder, EachLineHasOneSlot) {
    std::vector<bool> taken(4 * kSlotsTogether);
    for (std::uint64_t n = 0; n < taken.size(); n++) {
        const std::size_t line = line_of_slot(n);
        ASSERT_EQ(line / kSlotsTogether, n / kSlotsTogether) << n;
        ASSERT_FALSE(taken[line]) << n;
        taken[line] = true;
    }
}

TEST(SlotOrder, NeighboursShareNeitherPageNorPlaceInIt) {
    constexpr std::uint64_t kNear = 4;
    for (std::uint64_t n = 0; n < 2 * kSlotsTogether; n++)
        for (std::uint64_t ahead = 1; ahead <= kNear; ahead++) {
            const std::size_t one = line_of_slot(n), other = line_of_slot(n + ahead);
            ASSERT_NE(one / kLinesOfPage, other / kLinesOfPage) << n << " and " << ahead;
            ASSERT_NE(one % kLinesOfPage, other % kLinesOfPage) << n << " and " << ahead;
        }
}

}  // namespace
}  // namespace verbena::link
