#include "base/shared_page.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

namespace verbena {
namespace {

TEST(SharedPage, BothSeeWhatEitherWrites) {
    int fd = -1;
    const SharedPage made = SharedPage::make("verbena-test", fd);
    ASSERT_TRUE(made);
    SharedPage opened;
    ASSERT_EQ(SharedPage::open(fd, opened), 0);
    EXPECT_EQ(opened.as<std::uint32_t>(), 0u);
    made.as<std::uint32_t>() = 7;
    EXPECT_EQ(opened.as<std::uint32_t>(), 7u);
    opened.as<std::uint32_t>() = 8;
    EXPECT_EQ(made.as<std::uint32_t>(), 8u);
    EXPECT_NE(ftruncate(fd, 0), 0) << "the memory could be taken away";
    close(fd);
    EXPECT_EQ(made.as<std::uint32_t>(), 8u);
}

TEST(SharedPage, WhatCouldShrinkIsNotOpened) {
    SharedPage page;
    int fd = memfd_create("verbena-test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    ASSERT_EQ(ftruncate(fd, SharedPage::kSize), 0);
    EXPECT_EQ(SharedPage::open(fd, page), EINVAL);
    close(fd);
    fd = memfd_create("verbena-test", MFD_CLOEXEC | MFD_ALLOW_SEALING);  // too small
    ASSERT_EQ(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
    EXPECT_EQ(SharedPage::open(fd, page), EINVAL);
    close(fd);
    constexpr std::size_t kHuge = std::size_t{2} << 20;
    fd = memfd_create("verbena-test", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_HUGETLB);
    if (fd >= 0 && ftruncate(fd, kHuge) == 0 && fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK) == 0) {
        EXPECT_EQ(SharedPage::open(fd, page), EINVAL);
    }
    if (fd >= 0) close(fd);
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    EXPECT_EQ(SharedPage::open(ends[0], page), EINVAL);
    close(ends[0]);
    close(ends[1]);
    EXPECT_EQ(SharedPage::open(-1, page), EINVAL);
}

}  // namespace
}  // namespace verbena
