#include "daemon/settle.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

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
        cpu_set_t first{}, one{}, now{};
        ASSERT_EQ(sched_getaffinity(1, sizeof first, &first), 0);
        for (int each = 0; each < CPU_SETSIZE && CPU_COUNT(&one) == 0; each++)
            if (CPU_ISSET(each, &first)) CPU_SET(each, &one);
        if (sched_setaffinity(0, sizeof one, &one) != 0) return;  // the first process may run elsewhere
        const sched_param none{};
        ASSERT_EQ(sched_setscheduler(0, SCHED_BATCH, &none), 0);
        settle(false);
        EXPECT_EQ(sched_getscheduler(0), SCHED_BATCH);
        settle(true);
        EXPECT_EQ(sched_getscheduler(0), SCHED_OTHER);
        EXPECT_EQ(sched_getaffinity(0, sizeof now, &now), 0);
        EXPECT_TRUE(CPU_COUNT(&first) == 1 || CPU_COUNT(&now) > 1);
    });
}

}  // namespace
}  // namespace verbena::daemon
