// A fabric of its own (daemon, devices) for this run, and a log of its own: the tests look whether each
// failure left a sentence there.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "harness.h"

// A program that changes memory while a peer may still read it (a response that is sent again) is right, if
// it does not look at what the peer gets then.
extern "C" const char* __tsan_default_suppressions();  // NOLINT(bugprone-reserved-identifier)
extern "C" const char* __tsan_default_suppressions() {
    return "race:verbena::verbs_test::Memory::\n"
           "race:memory_kinds_test.cpp\n"
           "race:neighbor_visibility_test.cpp\n";
}

// Children of the test open devices, which starts a thread.
extern "C" const char* __tsan_default_options();  // NOLINT(bugprone-reserved-identifier)
extern "C" const char* __tsan_default_options() { return "die_after_fork=0"; }

int main(int argc, char** argv) {
    testing::InitGoogleTest(&argc, argv);
    setenv("VERBENA_FABRIC", ("test-verbs-" + std::to_string(getpid())).c_str(), 0);
    std::string log = testing::TempDir() + "verbena-verbs-log-" + std::to_string(getpid());
    setenv("VERBENA_LOG", ("warn,file=" + log).c_str(), 1);
    verbena::verbs_test::log_path() = log;
    const int result = RUN_ALL_TESTS();
    unlink(log.c_str());
    return result;
}
