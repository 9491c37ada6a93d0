// Programs that run under limits, filters and without devices, and start the daemon there.

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include <algorithm>
#include <cstddef>
#include <functional>

#include "daemon/testing.h"

namespace verbena::daemon::testing {
namespace {

class LaunchTest : public FabricTest {
   protected:
    // Runs a program in surroundings that `prepare` makes. False: it cannot make them here.
    bool run_where(const std::function<bool()>& prepare, const std::function<void()>& program) {
        constexpr int kCannot = 77;
        const int status = wait_for(start([&] {
            if (!prepare()) _exit(kCannot);
            program();
        }));
        if (WIFEXITED(status) && WEXITSTATUS(status) == kCannot) return false;
        EXPECT_EQ(status, 0);
        return true;
    }
};

rlimit limit_of(int which) {
    rlimit limit{};
    EXPECT_EQ(getrlimit(static_cast<__rlimit_resource>(which), &limit), 0);
    return limit;
}

void set_limit(int which, rlim_t soft, rlim_t hard) {
    const rlimit limit{soft, hard};
    EXPECT_EQ(setrlimit(static_cast<__rlimit_resource>(which), &limit), 0);
}

void set_soft_limit(int which, rlim_t soft) {
    const rlim_t hard = limit_of(which).rlim_max;
    set_limit(which, std::min(soft, hard), hard);
}

// From now on getrandom() answers EPERM. False: this kernel has no filters.
bool refuse_random() {
    sock_filter steps[] = {{BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(seccomp_data, nr)},
                           {BPF_JMP | BPF_JEQ | BPF_K, 0, 1, SYS_getrandom},
                           {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ERRNO | EPERM},
                           {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW}};
    const sock_fprog filter{std::size(steps), steps};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

// False: not here.
bool become_somebody() { return geteuid() != 0 || setresuid(65534, 65534, 65534) == 0; }

// False: not here.
bool hide_devices() {
    return geteuid() == 0 && unshare(CLONE_NEWNS) == 0 &&
           mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
           mount("none", "/dev", "tmpfs", 0, nullptr) == 0;
}

TEST_F(LaunchTest, SoftLimitsAreTheProgramsOwn) {
    Wire daemon_pid, finish;
    start([&] {
        set_soft_limit(RLIMIT_STACK, 64 << 10);
        set_soft_limit(RLIMIT_FSIZE, 64 << 10);
        set_soft_limit(RLIMIT_CPU, 1000);
        daemon_pid.say(status().daemon_pid);
        finish.hear();
    });
    const auto pid = static_cast<pid_t>(daemon_pid.hear());
    rlimit limit{};
    EXPECT_EQ(prlimit(pid, RLIMIT_CPU, nullptr, &limit), 0);
    EXPECT_EQ(limit.rlim_cur, limit_of(RLIMIT_CPU).rlim_max);
    EXPECT_EQ(prlimit(pid, RLIMIT_FSIZE, nullptr, &limit), 0);
    EXPECT_EQ(limit.rlim_cur, limit_of(RLIMIT_FSIZE).rlim_max);
    finish.say(1);
}

TEST_F(LaunchTest, AHardLimitOfFilesIsExplained) {
    if (kSanitized) GTEST_SKIP() << "a sanitizer opens files before the daemon can say that there are none";
    bool enough = false;
    for (rlim_t limit = 0; limit < 64 && !enough; limit++) {
        Wire came_up;
        run([&] {
            set_limit(RLIMIT_NOFILE, limit, limit);
            const bool there = host::devices() != nullptr;
            if (!there) {
                EXPECT_EQ(errno == EMFILE || errno == ENODEV, true) << limit << ": " << last_reason();
                EXPECT_TRUE(std::strstr(last_reason(), "Too many open files") ||
                            std::strstr(last_reason(), "ulimit -n"))
                    << limit << ": " << last_reason();
            }
            came_up.say(there);
        });
        enough = came_up.hear();
    }
    EXPECT_TRUE(enough);
}

TEST_F(LaunchTest, AHardLimitOfSizesIsExplained) {
    run([] {
        set_limit(RLIMIT_FSIZE, 64 << 10, 64 << 10);
        EXPECT_EQ(host::devices(), nullptr);
        EXPECT_NE(std::strstr(last_reason(), "File too large"), nullptr) << last_reason();
    });
}

// Root may have more.
TEST_F(LaunchTest, AHardLimitOfTheStackIsExplained) {
    if (!run_where(become_somebody, [] {
            set_limit(RLIMIT_STACK, 64 << 10, 64 << 10);
            EXPECT_EQ(host::devices(), nullptr);
            EXPECT_NE(std::strstr(last_reason(), "ulimit -s"), nullptr) << last_reason();
        }))
        GTEST_SKIP() << "root cannot become another user here";
}

TEST_F(LaunchTest, RandomNumbersComeFromTheDeviceIfNeedBe) {
    if (!run_where(refuse_random, [] { EXPECT_NE(status().daemon_pid, 0u); }))
        GTEST_SKIP() << "no filters of system calls here";
}

TEST_F(LaunchTest, WithoutDevices) {
    if (!run_where(hide_devices, [] { EXPECT_NE(status().daemon_pid, 0u); }))
        GTEST_SKIP() << "root alone can hide devices, where it may mount";
    setenv("VERBENA_FABRIC", (fabric_ + "-none").c_str(), 1);
    if (!run_where([] { return hide_devices() && refuse_random(); },
                   [] {
                       EXPECT_EQ(host::devices(), nullptr);
                       EXPECT_NE(std::strstr(last_reason(), "no random numbers"), nullptr) << last_reason();
                   }))
        GTEST_SKIP() << "no filters of system calls here";
}

// Somebody of this user has the name and takes nobody.
TEST_F(LaunchTest, ANameWhoseHolderTakesNobodyIsExplained) {
    const std::string name = host::daemon_address(geteuid(), fabric_);
    const int holder = host::listen_on(name, 0);
    ASSERT_GE(holder, 0);
    const int first = host::connect_to(name);
    ASSERT_GE(first, 0);
    run([&] {
        EXPECT_EQ(host::devices(), nullptr);
        EXPECT_EQ(errno, ETIMEDOUT);
        EXPECT_NE(std::strstr(last_reason(), name.c_str()), nullptr) << last_reason();
    });
    close(first);
    close(holder);
}

}  // namespace
}  // namespace verbena::daemon::testing
