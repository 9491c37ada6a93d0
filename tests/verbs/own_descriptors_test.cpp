// The descriptors that the library opens for itself, in programs that close what they do not know, and in
// those that were started without standard input, output and error.
#include <dirent.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <set>
#include <vector>

#include "harness.h"

namespace verbena::verbs_test {
namespace {

constexpr int kHigh = 512;

std::set<int> open_descriptors() {
    std::set<int> found;
    DIR* const folder = opendir("/proc/self/fd");
    while (const dirent* entry = readdir(folder))
        if (entry->d_name[0] != '.' && std::atoi(entry->d_name) != dirfd(folder))
            found.insert(std::atoi(entry->d_name));
    closedir(folder);
    return found;
}

Options with_channel() {
    Options options;
    options.with_channel = true;
    return options;
}

TEST(OwnDescriptors, NoneIsStandardOutputAndFewAreLow) {
    in_child([] {
        const int error = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, kHigh);  // for what may fail here
        for (const int fd : {0, 1, 2}) close(fd);
        const std::set<int> before = open_descriptors();
        {
            Pair pair(with_channel());
            exchange_message(pair);
            std::set<int> shown;
            for (const Side* side : {&pair.a, &pair.b})
                for (const int fd : {side->channel->fd, side->context->async_fd, side->context->cmd_fd})
                    shown.insert(fd);
            // The helper has some low one for a moment.
            std::set<int> low;
            wait_until([&] {
                low = open_descriptors();
                std::erase_if(low, [&](int fd) {
                    return fd >= kHigh || before.contains(fd) || (fd > STDERR_FILENO && shown.contains(fd));
                });
                return low.empty();
            });
            dup2(error, STDERR_FILENO);
            dup2(error, STDOUT_FILENO);
            EXPECT_EQ(low, std::set<int>());
        }
    });
}

// The program's own files, under all the numbers that the library may have had.
class ProgramsFiles {
   public:
    explicit ProgramsFiles(int last) {
        int ends[2];
        EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
        writer_ = fcntl(ends[1], F_DUPFD, last + 1);
        EXPECT_EQ(send(writer_, "its own", 7, 0), 7);
        for (int fd = 3; fd <= last; fd++) {
            EXPECT_EQ(dup2(ends[0], fd), fd);
            files_.push_back(fd);
        }
    }
    // Each still is what it was, and nobody has read or written anything.
    void look() const {
        char text[16];
        for (const int fd : files_)
            EXPECT_EQ(recv(fd, text, sizeof text, MSG_PEEK), 7) << fd << ": " << std::strerror(errno);
        EXPECT_EQ(recv(writer_, text, sizeof text, MSG_PEEK), -1);
        EXPECT_EQ(errno, EAGAIN);
    }
    void close_all() const { closefrom(3); }

   private:
    int writer_;
    std::vector<int> files_;
};

// Who polls is looked at by the helper, which finds it out.
void lose_files(Pair& pair) {
    closefrom(3);
    ibv_wc completion;
    const auto until = Clock::now() + std::chrono::milliseconds(kPatienceMs);
    while (pair.b.post_receive(2, nullptr, 0) != EIO && Clock::now() < until)
        ibv_poll_cq(pair.a.send_cq, 1, &completion);
}

TEST(OwnDescriptors, AreNotUsedAnyMoreAfterClosefrom) {
    in_child([] {
        auto pair = std::make_unique<Pair>(with_channel());
        auto memory = std::make_unique<Memory>(pair->a.pd, 64);
        exchange_message(*pair);
        ASSERT_EQ(ibv_req_notify_cq(pair->b.receive_cq, 0), 0);
        ASSERT_EQ(pair->b.post_receive(1, nullptr, 0), 0);
        const int last = *open_descriptors().rbegin();
        lose_files(*pair);
        const ProgramsFiles files(last);
        EXPECT_EQ(pair->b.post_receive(2, nullptr, 0), EIO);
        files.look();
        in_child([] {});
        memory.reset();
        pair.reset();
        files.look();
        files.close_all();
        Pair anew;
        exchange_message(anew);
    });
}

// The next ones have the numbers that the ones before had, whose end is not theirs.
TEST(OwnDescriptors, OfADeviceThatWasOpenedSinceAreLeftOpen) {
    in_child([] {
        auto pair = std::make_unique<Pair>(with_channel());
        exchange_message(*pair);
        lose_files(*pair);
        ibv_async_event event;  // which needs no descriptor any more; the helper is about to queue it
        ASSERT_TRUE(wait_until([&] { return ibv_get_async_event(pair->a.context, &event) == 0; }));
        EXPECT_EQ(event.event_type, IBV_EVENT_DEVICE_FATAL);
        ibv_ack_async_event(&event);
        Pair anew(with_channel());
        pair.reset();
        exchange_message(anew);
        for (const Side* side : {&anew.a, &anew.b})
            for (const int fd : {side->channel->fd, side->context->async_fd, side->context->cmd_fd})
                EXPECT_GE(fcntl(fd, F_GETFD), 0) << fd;
    });
}

// Who connects hears it; who posts would wait for a completion of packets that never left.
TEST(OwnDescriptors, WithoutAnyAConnectionIsRefused) {
    in_child([] {
        Side side;
        EXPECT_EQ(side.to_init(), 0);
        std::vector<int> taken;
        for (int fd; (fd = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0;) taken.push_back(fd);
        EXPECT_EQ(side.to_rtr(side.gid(), side.qp->qp_num), EMFILE);
        EXPECT_EQ(side.state(), IBV_QPS_INIT);
        for (const int fd : taken) close(fd);
        EXPECT_EQ(side.to_rtr(side.gid(), side.qp->qp_num), 0);
    });
}

}  // namespace
}  // namespace verbena::verbs_test
