// A planned failure is told in the way of the call.
#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include "base/call_fault.h"

namespace verbena::verbs {
namespace {

struct AllFail final : CallFaults {
    int error_of(const char*) override { return EIO; }
};

TEST(PlannedFailure, OfClosing) {
    AllFail plan;
    call_faults = &plan;
    errno = 0;
    EXPECT_EQ(ibv_close_device(nullptr), -1);
    EXPECT_EQ(errno, EIO);
    call_faults = nullptr;
}

}  // namespace
}  // namespace verbena::verbs
