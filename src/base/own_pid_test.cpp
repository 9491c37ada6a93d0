#include "base/own_pid.h"

#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

namespace verbena {
namespace {

int exit_status_of(pid_t child) {
    int status = -1;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(OwnPidTest, IsGetpid) {
    EXPECT_EQ(own_pid(), getpid());
    EXPECT_EQ(own_pid(), getpid());
}

TEST(OwnPidTest, AChildHasItsOwnAndTheParentKeepsIts) {
    ASSERT_EQ(own_pid(), getpid());
    const pid_t child = fork();
    if (child == 0) {
        const bool right = own_pid() == getpid() && own_pid() == getpid();
        const pid_t grandchild = fork();
        if (grandchild == 0) _exit(own_pid() == getpid() ? 0 : 1);
        _exit(right && exit_status_of(grandchild) == 0 ? 0 : 1);
    }
    EXPECT_EQ(exit_status_of(child), 0);
    EXPECT_EQ(own_pid(), getpid());
}

// Made behind the C library's back, so that nobody's fork handlers run.
TEST(OwnPidTest, AChildOfTheBareSystemCallToo) {
    ASSERT_EQ(own_pid(), getpid());
    const auto child = static_cast<pid_t>(syscall(SYS_clone, SIGCHLD, nullptr, nullptr, nullptr, nullptr));
    if (child == 0) _exit(own_pid() == getpid() ? 0 : 1);
    EXPECT_EQ(exit_status_of(child), 0);
}

}  // namespace
}  // namespace verbena
