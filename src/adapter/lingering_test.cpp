#include "adapter/lingering.h"

#include <gtest/gtest.h>

namespace verbena::adapter {
namespace {

unsigned servings_until_asked(Lingering& lingering) {
    unsigned servings = 0;
    while (!lingering.pays()) servings++;
    return servings;
}

TEST(Lingering, IsAskedEverLessOftenWhileOthersRun) {
    Lingering lingering;
    EXPECT_EQ(servings_until_asked(lingering), 0u);
    for (unsigned wanted = Lingering::kFewest; wanted < Lingering::kMost; wanted *= 2) {
        lingering.others_ran();
        EXPECT_EQ(servings_until_asked(lingering), wanted);
    }
    for (unsigned i = 0; i < 3; i++) {
        lingering.others_ran();
        EXPECT_EQ(servings_until_asked(lingering), Lingering::kMost);
    }
}

TEST(Lingering, PaysAgainWhenNobodyElseRuns) {
    Lingering lingering;
    for (unsigned i = 0; i < 3; i++) lingering.others_ran();
    servings_until_asked(lingering);
    lingering.nobody_ran();
    EXPECT_TRUE(lingering.pays());
    EXPECT_TRUE(lingering.pays());
    lingering.others_ran();
    EXPECT_EQ(servings_until_asked(lingering), Lingering::kFewest);
}

}  // namespace
}  // namespace verbena::adapter
