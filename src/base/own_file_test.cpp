#include "base/own_file.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>

#include "base/own_socket.h"
#include "base/sealed_file.h"

namespace verbena {
namespace {

int any_file() { return open("/dev/null", O_RDWR | O_CLOEXEC); }
bool is_open(int fd) { return fcntl(fd, F_GETFD) >= 0; }

// Of how many descriptors the process may have, while it lives.
class Limit {
   public:
    explicit Limit(rlim_t most) {
        getrlimit(RLIMIT_NOFILE, &before_);
        const rlimit now{std::min(most, before_.rlim_max), before_.rlim_max};
        setrlimit(RLIMIT_NOFILE, &now);
    }
    ~Limit() { setrlimit(RLIMIT_NOFILE, &before_); }
    Limit(const Limit&) = delete;
    Limit& operator=(const Limit&) = delete;

   private:
    rlimit before_{};
};

// As in a program that was started without it.
class WithoutStandardInput {
   public:
    WithoutStandardInput() : kept_(fcntl(0, F_DUPFD_CLOEXEC, 3)) { close(0); }
    ~WithoutStandardInput() {
        close(0);
        if (kept_ < 0) return;
        dup2(kept_, 0);
        close(kept_);
    }
    WithoutStandardInput(const WithoutStandardInput&) = delete;
    WithoutStandardInput& operator=(const WithoutStandardInput&) = delete;

   private:
    const int kept_;
};

TEST(OwnFile, IsOutOfTheWay) {
    const Limit limit(2048);
    const int low = any_file(), fd = out_of_the_way(low);
    EXPECT_GE(fd, kFirstOwnFile);
    EXPECT_FALSE(is_open(low));
    EXPECT_EQ(fcntl(fd, F_GETFD), FD_CLOEXEC);
    EXPECT_EQ(out_of_the_way(fd), fd);
    const int second = duplicate_out_of_the_way(fd);
    EXPECT_GT(second, fd);
    for (const int made : {own_socket(AF_UNIX, SOCK_DGRAM), create_memory_file("verbena-test")}) {
        EXPECT_GE(made, kFirstOwnFile);
        close(made);
    }
    close(second);
    close(fd);
}

TEST(OwnFile, AnErrorStaysOne) {
    errno = ENOENT;
    EXPECT_EQ(out_of_the_way(-1), -1);
    EXPECT_EQ(beside_standard_files(-1), -1);
    EXPECT_EQ(errno, ENOENT);
}

TEST(OwnFile, IsNeverStandardInput) {
    const WithoutStandardInput without;
    const int shown = beside_standard_files(any_file());
    EXPECT_GE(shown, kFirstUnusedFile);
    {
        const Limit limit(256);
        const int own = out_of_the_way(any_file());
        EXPECT_GE(own, kFirstUnusedFile);
        EXPECT_LT(own, 256);
        close(own);
        const int low = any_file();  // standard input
        const int second = out_of_the_way(any_file());
        EXPECT_GE(second, kFirstUnusedFile);
        close(second);
        close(low);
    }
    {
        const Limit limit(3);  // and no number beyond it is to be had
        errno = 0;
        EXPECT_EQ(out_of_the_way(any_file()), -1);
        EXPECT_EQ(errno, EMFILE);
        EXPECT_FALSE(is_open(0));
    }
    close(shown);
}

}  // namespace
}  // namespace verbena
