#include "base/trial.h"

#include <gtest/gtest.h>

namespace verbena {
namespace {

unsigned occasions_until_tried(Trial& trial) {
    unsigned occasions = 0;
    while (!trial.pays()) occasions++;
    return occasions;
}

TEST(Trial, ComesEverLessOftenWhileItIsInVain) {
    Trial trial;
    EXPECT_EQ(occasions_until_tried(trial), 0u);
    for (unsigned wanted = Trial::kFewest; wanted < Trial::kMost; wanted *= 2) {
        trial.in_vain();
        EXPECT_EQ(occasions_until_tried(trial), wanted);
    }
    for (unsigned i = 0; i < 3; i++) {
        trial.in_vain();
        EXPECT_EQ(occasions_until_tried(trial), Trial::kMost);
    }
}

TEST(Trial, IsNoneAnyMoreOnceItHasPaid) {
    Trial trial;
    for (unsigned i = 0; i < 3; i++) trial.in_vain();
    occasions_until_tried(trial);
    trial.paid();
    EXPECT_TRUE(trial.pays());
    EXPECT_TRUE(trial.pays());
    trial.in_vain();
    EXPECT_EQ(occasions_until_tried(trial), Trial::kFewest);
}

}  // namespace
}  // namespace verbena
