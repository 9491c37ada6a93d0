#include "adapter/precedence.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <thread>

namespace verbena::adapter {
namespace {

int nice_value() { return getpriority(PRIO_PROCESS, static_cast<id_t>(gettid())); }

// In a thread of its own, as the helper is; the others stay as they are.
TEST(Precedence, IsTakenByTheThreadThatAsksIfItMay) {
    const int before = nice_value();
    int during = 0, lowered_again = 0;
    std::thread([&] {
        take_precedence();
        during = nice_value();
        setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), before + 1);
        setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), before);
        lowered_again = nice_value();
    }).join();
    EXPECT_GE(during, before - kPrecedence);
    EXPECT_EQ(during < before, lowered_again == before) << "it may raise a priority, or not";
    EXPECT_EQ(nice_value(), before);
}

}  // namespace
}  // namespace verbena::adapter
