// A fabric of its own (daemon, devices) for this run.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

int main(int argc, char** argv) {
    testing::InitGoogleTest(&argc, argv);
    setenv("VERBENA_FABRIC", ("test-shortage-" + std::to_string(getpid())).c_str(), 0);
    return RUN_ALL_TESTS();
}
