#include "base/shared_page.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

#include "base/sealed_file.h"

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

TEST(SharedPage, WhatCouldShrinkOrIsTooSmallIsNotOpened) {
    SharedPage page;
    int fd = memfd_create("verbena-test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    ASSERT_EQ(ftruncate(fd, SharedPage::kSize), 0);
    EXPECT_EQ(SharedPage::open(fd, page), EINVAL);
    close(fd);
    fd = create_sealed_file("verbena-test", SharedPage::kSize - 1);
    EXPECT_EQ(SharedPage::open(fd, page), EINVAL);
    close(fd);
    EXPECT_FALSE(page);
}

}  // namespace
}  // namespace verbena
