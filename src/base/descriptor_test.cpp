#include "base/descriptor.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "base/cancellation_testing.h"

namespace verbena {
namespace {

TEST(Descriptor, IsClosedByACancelledThreadThatGoesOn) {
    int fd = -1;
    EXPECT_TRUE(is_through_although_cancelled([&fd] { const Descriptor one(fd = dup(STDERR_FILENO)); }));
    EXPECT_GE(fd, 0);
    EXPECT_EQ(fcntl(fd, F_GETFD), -1);
}

}  // namespace
}  // namespace verbena
