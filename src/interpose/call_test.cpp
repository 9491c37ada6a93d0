// How calls say that they failed.

#include "interpose/call.h"

#include <gtest/gtest.h>

namespace verbena::interpose {
namespace {

TEST(ErrorOf, AnswersWithErrno) {
    int object = 0;
    EXPECT_EQ(error_of(Answer::null, &object, ENOMEM), 0);
    EXPECT_EQ(error_of(Answer::null, static_cast<int*>(nullptr), ENOMEM), ENOMEM);
    EXPECT_EQ(error_of(Answer::error, EBUSY, 0), EBUSY);
    EXPECT_EQ(error_of(Answer::minus_one, 0, ENOMEM), 0);
    EXPECT_EQ(error_of(Answer::negative, -EBUSY, 0), EBUSY);
}

// What failed has no results to be looked at.
TEST(ErrorOf, FailuresWithoutErrno) {
    EXPECT_EQ(error_of(Answer::null, static_cast<int*>(nullptr), 0), EIO);
    EXPECT_EQ(error_of(Answer::minus_one, -1, 0), EIO);
    EXPECT_EQ(error_of(Answer::rereg, 1, 0), EIO);
}

}  // namespace
}  // namespace verbena::interpose
