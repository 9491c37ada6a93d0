#include "base/standard_error.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <utility>

namespace verbena {
namespace {

off_t size_of(int fd) {
    struct stat status {};
    EXPECT_EQ(fstat(fd, &status), 0);
    return status.st_size;
}

TEST(StandardError, IsWrittenToUnlessAnotherFileHasItsNumber) {
    const int before = dup(STDERR_FILENO);
    const int output = memfd_create("output", MFD_CLOEXEC), data = memfd_create("data", MFD_CLOEXEC);
    dup2(output, STDERR_FILENO);
    remember_standard_error();
    tell_user("first\n");
    dup2(data, STDERR_FILENO);
    tell_user("second\n");
    close(STDERR_FILENO);
    tell_user("third\n");
    // There was none from the beginning.
    remember_standard_error();
    dup2(data, STDERR_FILENO);
    tell_user("fourth\n");
    dup2(before, STDERR_FILENO);
    remember_standard_error();
    EXPECT_EQ(size_of(output), 6);
    EXPECT_EQ(size_of(data), 0);
    for (const int fd : {before, output, data}) close(fd);
}

}  // namespace
}  // namespace verbena
