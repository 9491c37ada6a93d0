// Signals for tests. A test that has gone wrong may have 0 or -1 in place of a pid, and kill(2) would take
// that for a whole group of processes, or for all that the user has.
#pragma once

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/types.h>

#include <cerrno>
#include <cstring>

namespace verbena {

// To a process that may have ended.
inline void signal_process(pid_t pid, int signal) {
    ASSERT_GT(pid, 1) << "the test has no such process";
    EXPECT_TRUE(kill(pid, signal) == 0 || errno == ESRCH) << pid << ": " << std::strerror(errno);
}

// Does not wait for its end.
inline void end_process(pid_t pid) { signal_process(pid, SIGKILL); }

}  // namespace verbena
