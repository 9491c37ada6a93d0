// What a poll between two looks takes: one packet that is alone.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "link/local_link_harness.h"

namespace verbena::link {
namespace {

using testing::End;
using testing::introduce;
using testing::kLoopback;

class LocalGlanceTest : public ::testing::Test {
   protected:
    // The rings are busy, and the addresses known.
    LocalGlanceTest() {
        introduce(left_, right_);
        left_.post(right_.qp(), "first");
        EXPECT_EQ(right_.receive(), 1u);
        right_.kept = {};
    }
    End left_{3}, right_{4};
};

TEST_F(LocalGlanceTest, OneThatIsAloneIsTaken) {
    EXPECT_TRUE(right_.link->looks_empty());
    left_.post(right_.qp(), "alone");
    EXPECT_FALSE(right_.link->looks_empty());
    EXPECT_TRUE(right_.take_alone());
    EXPECT_EQ(right_.kept.texts, std::vector<std::string>{"alone"});
    EXPECT_TRUE(right_.link->looks_empty());
}

TEST_F(LocalGlanceTest, WhatIsNotTakenStays) {
    left_.post(right_.qp(), "not taken");
    EXPECT_FALSE(right_.take_alone(false));
    EXPECT_EQ(right_.receive(), 1u);
    EXPECT_EQ(right_.kept.texts, std::vector<std::string>{"not taken"});
}

TEST_F(LocalGlanceTest, SeveralAreLeftToALook) {
    left_.post_together(right_.qp(), {"one", "two"});
    EXPECT_FALSE(right_.take_alone());
    EXPECT_EQ(right_.receive(), 2u);
    EXPECT_EQ(right_.kept.texts, (std::vector<std::string>{"one", "two"}));
}

// It would have to be fetched.
TEST_F(LocalGlanceTest, WhatLiesElsewhereIsLeftToALook) {
    right_.peers().at(0).in->fetch(true);
    left_.post(right_.qp(), std::string(LocalRing::kCapacity / 16, 'x'), kLoopback,
               wire::Opcode::rc_send_only, 256, true);
    EXPECT_FALSE(right_.take_alone());
}

TEST_F(LocalGlanceTest, WhoeverAskedForALookGetsOne) {
    left_.post(right_.qp(), "waits");
    right_.link->look_everywhere();
    EXPECT_FALSE(right_.link->looks_empty());
    EXPECT_EQ(right_.receive(), 1u);
}

// The ring has room again for as many packets as ever came by it.
TEST_F(LocalGlanceTest, WhatWasTakenMakesRoom) {
    for (unsigned i = 0; i < 2 * LocalRing::kSlots; i++) {
        left_.post(right_.qp(), "again");
        ASSERT_TRUE(right_.take_alone());
    }
    EXPECT_FALSE(right_.peers().at(0).spilled);
    EXPECT_EQ(left_.wire.sent, 0u);
}

}  // namespace
}  // namespace verbena::link
