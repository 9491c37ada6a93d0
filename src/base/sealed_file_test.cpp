#include "base/sealed_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <optional>

namespace verbena {
namespace {

constexpr std::size_t kSize = 12345;

std::optional<std::size_t> length_and_close(int fd) {
    const std::optional<std::size_t> length = sealed_length(fd);
    close(fd);
    return length;
}

int unsealed(std::size_t size, unsigned flags = 0) {
    const int fd = memfd_create("verbena-test", MFD_CLOEXEC | MFD_ALLOW_SEALING | flags);
    if (fd >= 0 && ftruncate(fd, static_cast<off_t>(size)) != 0) ADD_FAILURE() << "ftruncate";
    return fd;
}

TEST(SealedFile, StaysAsLongAsItWasMade) {
    const int fd = create_sealed_file("verbena-test", kSize);
    ASSERT_GE(fd, 0);
    EXPECT_EQ(sealed_length(fd), kSize);
    EXPECT_NE(ftruncate(fd, 0), 0);
    EXPECT_NE(ftruncate(fd, 2 * kSize), 0);
    EXPECT_TRUE(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    EXPECT_EQ(length_and_close(fd), kSize);
}

TEST(SealedFile, IsForItsUser) {
    const int fd = create_memory_file("verbena-test");
    struct stat status {};
    ASSERT_EQ(fstat(fd, &status), 0);
    EXPECT_EQ(status.st_mode & 0777, 0600u);
    close(fd);
}

// Its maker goes on writing by the mapping that it had.
TEST(SealedFile, WhenItIsClosedToWritersOthersOnlyRead) {
    constexpr int kFutureWrite = 0x10;  // F_SEAL_FUTURE_WRITE, since Linux 5.1
    const int probe = create_memory_file("verbena-test");
    ASSERT_GE(probe, 0);
    const bool is_known = fcntl(probe, F_ADD_SEALS, kFutureWrite) == 0 || errno != EINVAL;
    close(probe);
    if (!is_known) GTEST_SKIP() << "this kernel has no seal against writers to come";
    const int fd = create_sized_file("verbena-test", kSize);
    ASSERT_GE(fd, 0);
    const auto map = [fd](int protection) { return mmap(nullptr, kSize, protection, MAP_SHARED, fd, 0); };
    auto* const mine = static_cast<char*>(map(PROT_READ | PROT_WRITE));
    ASSERT_NE(mine, MAP_FAILED);
    close_to_writers(fd);
    EXPECT_EQ(map(PROT_READ | PROT_WRITE), MAP_FAILED);
    EXPECT_EQ(pwrite(fd, "x", 1, 0), -1);
    const auto* const theirs = static_cast<const char*>(map(PROT_READ));
    ASSERT_NE(theirs, MAP_FAILED);
    mine[5] = 'x';
    EXPECT_EQ(theirs[5], 'x');
    EXPECT_EQ(sealed_length(fd), kSize);
    close(fd);
}

TEST(SealedFile, LargerThanAnyFileMayBeIsAnError) {
    rlimit before{};
    ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
    const rlimit low{kSize - 1, before.rlim_max};
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &low), 0);
    const int fd = create_sealed_file("verbena-test", kSize);
    const int error = errno;
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
    EXPECT_EQ(fd, -1);
    EXPECT_EQ(error, EFBIG);
}

TEST(SealedFile, CannotBeExecutedWhereThatIsKnown) {
    const int probe = memfd_create("verbena-test", 8);  // MFD_NOEXEC_SEAL, since Linux 6.3
    if (probe >= 0) close(probe);
    const int fd = create_memory_file("verbena-test");
    ASSERT_GE(fd, 0);
    struct stat status {};
    ASSERT_EQ(fstat(fd, &status), 0);
    EXPECT_EQ((status.st_mode & 0111) == 0, probe >= 0);
    close(fd);
}

TEST(SealedFile, SomebodyElsesNeedOnlyNotShrink) {
    const int fd = unsealed(kSize);
    EXPECT_EQ(sealed_length(fd), std::nullopt);
    ASSERT_EQ(fcntl(fd, F_ADD_SEALS, F_SEAL_GROW), 0);
    EXPECT_EQ(sealed_length(fd), std::nullopt);
    ASSERT_EQ(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
    EXPECT_EQ(length_and_close(fd), kSize);
}

TEST(SealedFile, HugePagesAreNone) {
    const int fd = unsealed(0, MFD_HUGETLB);
    if (fd < 0) GTEST_SKIP() << "this kernel has no huge pages";
    ASSERT_EQ(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
    EXPECT_EQ(length_and_close(fd), std::nullopt);
}

TEST(SealedFile, OtherDescriptorsAreNone) {
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    EXPECT_EQ(length_and_close(ends[0]), std::nullopt);
    close(ends[1]);
    EXPECT_EQ(sealed_length(-1), std::nullopt);
}

}  // namespace
}  // namespace verbena
