#include "adapter/presence.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstddef>
#include <new>
#include <thread>
#include <utility>

namespace verbena::adapter {
namespace {

using State = Presence::State;

class PresenceTest : public ::testing::Test {
   protected:
    void SetUp() override {
        void* page = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        ASSERT_NE(page, MAP_FAILED);
        word_ = new (page) std::atomic<std::uint32_t>(0);
        ASSERT_EQ(pipe(pipe_), 0);
    }
    void TearDown() override {
        for (const int fd : pipe_)
            if (fd >= 0) close(fd);
        munmap(word_, 4096);
    }
    State state() const { return Presence::state(*word_); }

    // A process, a thread of which shows its presence and then stays; its first thread goes on as told.
    pid_t start(void (*then)()) {
        const pid_t child = fork();
        if (child != 0) {
            char said;
            close(std::exchange(pipe_[1], -1));
            EXPECT_EQ(read(pipe_[0], &said, 1), 1);
            return child;
        }
        std::thread([this] {
            const Presence presence(*word_);
            for (;;) pause();
        }).detach();
        while (state() == State::unknown) std::this_thread::yield();
        if (write(pipe_[1], "", 1) != 1) _exit(1);
        then();
        for (;;) pause();
    }
    static void end(pid_t child) {
        kill(child, SIGKILL);
        EXPECT_EQ(waitpid(child, nullptr, 0), child);
    }

    std::atomic<std::uint32_t>* word_ = nullptr;
    int pipe_[2] = {-1, -1};
};

TEST_F(PresenceTest, LastsAsLongAsItIsShown) {
    EXPECT_EQ(state(), State::unknown);
    {
        const Presence presence(*word_);
        EXPECT_EQ(state(), State::here);
    }
    EXPECT_EQ(state(), State::unknown);
}

TEST_F(PresenceTest, IsOverWithItsThread) {
    alignas(Presence) static std::byte place[sizeof(Presence)];
    std::thread([this] { new (place) Presence(*word_); }).join();  // its destructor does not run
    // The kernel wakes who joins a thread after it has looked at its list.
    EXPECT_EQ(state(), State::over);
}

TEST_F(PresenceTest, IsOverWhenItsProcessIsKilled) {
    const pid_t child = start([] {});
    EXPECT_EQ(state(), State::here);
    end(child);
    EXPECT_EQ(state(), State::over);
}

// The process is the same afterwards, and has another memory.
TEST_F(PresenceTest, IsOverBeforeItsProcessRunsAnotherProgram) {
    // Which closes a pipe: that is when exec() has succeeded.
    int closed[2];
    ASSERT_EQ(pipe2(closed, O_CLOEXEC), 0);
    const pid_t child = start([] {
        execl("/bin/sleep", "sleep", "60", nullptr);
        _exit(1);
    });
    close(closed[1]);
    char none;
    EXPECT_EQ(read(closed[0], &none, 1), 0);
    EXPECT_EQ(state(), State::over);
    close(closed[0]);
    end(child);
}

}  // namespace
}  // namespace verbena::adapter
