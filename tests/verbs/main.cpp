// A fabric of its own (daemon, devices) for this run, and a log of its own: the tests look whether each
// failure left a sentence there.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "harness.h"

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
