#include "adapter/memory_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>

#include "base/process_testing.h"

namespace verbena::adapter {
namespace {

constexpr std::size_t kPage = 4096;
using Result = MemoryFile::Result;

class MemoryFileTest : public ::testing::Test {
   protected:
    // A child with the same memory at the same place, of its own.
    void SetUp() override {
        void* mapping = mmap(nullptr, 3 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        ASSERT_NE(mapping, MAP_FAILED);
        page_ = static_cast<std::uint8_t*>(mapping);
        std::memset(page_, 0x11, 2 * kPage);
        ASSERT_EQ(munmap(page_ + 2 * kPage, kPage), 0);
        start_child();
    }
    void start_child() {
        child_ = fork();
        if (child_ == 0)
            for (;;) pause();
        ASSERT_GT(child_, 0);
    }
    void TearDown() override {
        if (child_ > 0) end_process(child_);
        waitpid(child_, nullptr, 0);
        munmap(page_, 2 * kPage);
    }
    std::uint64_t at(std::size_t offset) const { return reinterpret_cast<std::uintptr_t>(page_) + offset; }

    std::uint8_t* page_ = nullptr;
    pid_t child_ = 0;
};

TEST_F(MemoryFileTest, WritesAndReadsTheOtherProcess) {
    MemoryFile file(child_);
    ASSERT_TRUE(file.usable());
    const char text[] = "across two pages";
    ASSERT_EQ(file.write(text, at(kPage - 5), sizeof text), Result::done);
    char back[sizeof text] = {};
    ASSERT_EQ(file.read(at(kPage - 5), back, sizeof back), Result::done);
    EXPECT_STREQ(back, text);
    EXPECT_EQ(page_[kPage - 5], 0x11) << "ours is another";
}

TEST_F(MemoryFileTest, AllOrNothing) {
    MemoryFile file(child_);
    std::uint8_t bytes[16] = {};
    EXPECT_EQ(file.read(at(2 * kPage - 8), bytes, sizeof bytes), Result::failed);
    EXPECT_EQ(file.write(bytes, at(2 * kPage - 8), sizeof bytes), Result::failed);
    EXPECT_EQ(file.write(bytes, 64, sizeof bytes), Result::failed);
}

TEST_F(MemoryFileTest, NothingOfAnAddressSpaceThatHasEnded) {
    MemoryFile file(child_);
    end_process(child_);
    waitpid(child_, nullptr, 0);
    std::uint8_t bytes[8] = {};
    EXPECT_EQ(file.read(at(0), bytes, sizeof bytes), Result::over);
    EXPECT_EQ(file.write(bytes, at(0), sizeof bytes), Result::over);
    EXPECT_FALSE(MemoryFile(child_).usable());
    start_child();  // for TearDown()
}

TEST_F(MemoryFileTest, WhatTheProgramPutInItsPlaceIsNotClosed) {
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    int last = dup(ends[0]);
    close(last);
    {
        MemoryFile file(child_);
        ASSERT_TRUE(file.usable());
        while (fcntl(++last, F_GETFD) < 0) {
        }
        ASSERT_EQ(dup2(ends[0], last), last);
    }
    EXPECT_GE(fcntl(last, F_GETFD), 0);
    for (const int fd : {last, ends[0], ends[1]}) close(fd);
}

}  // namespace
}  // namespace verbena::adapter
