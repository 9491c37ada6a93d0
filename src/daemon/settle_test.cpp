#include "daemon/settle.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>

#include "base/sealed_file.h"

namespace verbena::daemon {
namespace {

constexpr int kLimits[] = {RLIMIT_NOFILE, RLIMIT_CPU, RLIMIT_FSIZE, RLIMIT_AS, RLIMIT_DATA};

// In a process of its own; its status is 0 if it had no test failure.
template <class Body>
void run(Body body) {
    const pid_t child = fork();
    if (child == 0) {
        body();
        _exit(::testing::Test::HasFailure() ? 1 : 0);
    }
    int status = -1;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
}

using Processors = std::array<cpu_set_t, 8>;  // 8192, the most that Linux has

Processors processors_of(pid_t process) {
    Processors out{};
    EXPECT_EQ(sched_getaffinity(process, sizeof out, out.data()), 0);
    return out;
}

bool run_on(const Processors& processors) {
    return sched_setaffinity(0, sizeof processors, processors.data()) == 0;
}

Processors first_of(const Processors& processors) {
    Processors out{};
    std::size_t each = 0;
    while (each < CHAR_BIT * sizeof out && !CPU_ISSET_S(each, sizeof processors, processors.data())) each++;
    CPU_SET_S(each, sizeof out, out.data());
    return out;
}

TEST(Settle, TakesWhatItMayOfTheLimits) {
    run([] {
        for (const int each : kLimits) {
            rlimit limit{};
            EXPECT_EQ(getrlimit(static_cast<__rlimit_resource>(each), &limit), 0);
            // (An address space that is too small already would keep the test from working.)
            if (each != RLIMIT_AS && each != RLIMIT_DATA && limit.rlim_max > 1000) limit.rlim_cur = 1000;
            EXPECT_EQ(setrlimit(static_cast<__rlimit_resource>(each), &limit), 0);
        }
        settle(true);
        for (const int each : kLimits) {
            rlimit limit{};
            EXPECT_EQ(getrlimit(static_cast<__rlimit_resource>(each), &limit), 0);
            EXPECT_EQ(limit.rlim_cur, limit.rlim_max) << each;
        }
    });
}

TEST(Settle, AFileThatMayNotGrowIsAnError) {
    run([] {
        signal(SIGXFSZ, SIG_DFL);
        const rlimit small{1000, 1000};
        EXPECT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
        settle(true);
        EXPECT_EQ(ftruncate(create_memory_file("settle"), 2000), -1);
        EXPECT_EQ(errno, EFBIG);
    });
}

TEST(Settle, IsScheduledAsEverybodyIfAProgramStartedIt) {
    run([] {
        const bool may_follow = run_on(processors_of(1));  // else the first process runs elsewhere
        const Processors most = processors_of(0), one = first_of(most);
        ASSERT_TRUE(run_on(one));
        const sched_param none{};
        ASSERT_EQ(sched_setscheduler(0, SCHED_BATCH, &none), 0);
        settle(false);
        EXPECT_EQ(sched_getscheduler(0), SCHED_BATCH);
        settle(true);
        EXPECT_EQ(sched_getscheduler(0), SCHED_OTHER);
        const Processors now = processors_of(0), expected = may_follow ? most : one;
        EXPECT_TRUE(CPU_EQUAL_S(sizeof now, now.data(), expected.data()));
    });
}

}  // namespace
}  // namespace verbena::daemon
