// Who gets into an inbox, and who may have its name.
#include "link/named_inbox.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <string>
#include <vector>

namespace verbena::link {
namespace {

constexpr uid_t kSomebodyElse = 1234;

class NamedInboxTest : public ::testing::Test {
   protected:
    static InboxName name(std::uint32_t block = 7) {
        static const std::string fabric = "inbox-test-" + std::to_string(getpid());
        return {"test", fabric, block};
    }
    std::unique_ptr<NamedInbox> open(Trust trust = Trust::own_user) {
        return NamedInbox::open(name(), trust);
    }

    // What the next message says; "" if there is none.
    static std::string next(NamedInbox& inbox) {
        std::array<char, 64> text{};
        NamedInbox::Message message;
        message.into = text.data();
        message.room = text.size();
        return inbox.next(message) ? std::string(text.data(), message.size) : std::string();
    }
    static bool readable(const NamedInbox& inbox) {
        pollfd waiting{inbox.wait_fd(), POLLIN, 0};
        return poll(&waiting, 1, 0) == 1;
    }
    static int lowest_free() {
        const int descriptor = dup(STDERR_FILENO);
        close(descriptor);
        return descriptor;
    }
    static std::ptrdiff_t open_files() {
        const std::filesystem::directory_iterator all("/proc/self/fd");
        return std::distance(begin(all), end(all));
    }
    static void say(int connection, const std::string& text) {
        EXPECT_EQ(send(connection, text.data(), text.size(), 0), static_cast<ssize_t>(text.size()));
    }
    // 0, or the number of the first step that failed, in another process of that user.
    template <class Steps>
    static int as(uid_t user, Steps steps) {
        const pid_t child = fork();
        if (child == 0) _exit(setresuid(user, user, user) == 0 ? steps() : 99);
        int status = -1;
        waitpid(child, &status, 0);
        return WIFEXITED(status) ? WEXITSTATUS(status) : 98;
    }
};

TEST_F(NamedInboxTest, ANameIsOnes) {
    auto inbox = open();
    ASSERT_NE(inbox, nullptr);
    EXPECT_EQ(open(), nullptr);
    EXPECT_EQ(errno, EADDRINUSE);
    EXPECT_NE(NamedInbox::open(name(8), Trust::own_user), nullptr);
    EXPECT_TRUE(inbox_exists(name()));
    inbox.reset();
    EXPECT_FALSE(inbox_exists(name()));
    EXPECT_NE(open(), nullptr);
}

TEST_F(NamedInboxTest, MessagesOfSeveralSendersComeEachInOrderAndAreToldByTheDescriptor) {
    auto inbox = open();
    EXPECT_FALSE(readable(*inbox));
    std::array<int, 3> senders;
    for (int& sender : senders) {
        sender = connect_to_inbox(name(), Trust::own_user);
        ASSERT_GE(sender, 0);
    }
    for (int round = 0; round < 40; round++)
        for (std::size_t i = 0; i < senders.size(); i++)
            say(senders[i], std::to_string(i) + std::to_string(round));
    EXPECT_TRUE(readable(*inbox));
    for (const int sender : senders) close(sender);
    std::array<int, 3> rounds{};
    for (std::string text = next(*inbox); !text.empty(); text = next(*inbox)) {
        const auto sender = static_cast<std::size_t>(text[0] - '0');
        ASSERT_LT(sender, rounds.size());
        EXPECT_EQ(text.substr(1), std::to_string(rounds[sender]++));
    }
    for (const int count : rounds) EXPECT_EQ(count, 40);
    EXPECT_FALSE(readable(*inbox));
}

TEST_F(NamedInboxTest, ASenderIsWhomTheKernelNames) {
    auto inbox = open();
    const pid_t child = fork();
    if (child == 0) {
        const int connection = connect_to_inbox(name(), Trust::own_user);
        _exit(send(connection, "x", 1, 0) == 1 ? 0 : 1);
    }
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_EQ(status, 0);
    char byte;
    NamedInbox::Message message;
    message.into = &byte;
    message.room = 1;
    ASSERT_TRUE(inbox->next(message));
    EXPECT_EQ(message.sender.pid, child);
    EXPECT_EQ(message.sender.user, geteuid());
}

// Another user knows the name: he gets nothing in.
TEST_F(NamedInboxTest, AnotherUsersMessagesAreClosedUnread) {
    if (geteuid() != 0) GTEST_SKIP() << "only root can become another user";
    auto inbox = open();
    // Root's inbox is trusted by those who trust root; what they send is not.
    EXPECT_EQ(as(kSomebodyElse,
                 [] {
                     const int connection = connect_to_inbox(name(), Trust::own_user_and_root);
                     return send(connection, "x", 1, 0) == 1 ? 0 : 1;
                 }),
              0);
    EXPECT_EQ(next(*inbox), "");
    EXPECT_FALSE(readable(*inbox));
    EXPECT_EQ(inbox->refused(), 1u);
}

// Another user has taken the name: nobody sends him anything.
TEST_F(NamedInboxTest, NobodyConnectsToAnotherUsersInbox) {
    if (geteuid() != 0) GTEST_SKIP() << "only root can become another user";
    std::array<int, 2> ready, done;
    ASSERT_EQ(pipe(ready.data()), 0);
    ASSERT_EQ(pipe(done.data()), 0);
    const pid_t child = fork();
    if (child == 0) {
        char byte;
        if (setresuid(kSomebodyElse, kSomebodyElse, kSomebodyElse) != 0) _exit(1);
        auto inbox = open();
        if (!inbox || write(ready[1], "x", 1) != 1 || read(done[0], &byte, 1) != 1) _exit(2);
        _exit(next(*inbox).empty() ? 0 : 3);
    }
    char byte;
    ASSERT_EQ(read(ready[0], &byte, 1), 1);
    EXPECT_EQ(open(), nullptr);
    for (const Trust trust : {Trust::own_user, Trust::own_user_and_root}) {
        EXPECT_EQ(connect_to_inbox(name(), trust), -1);
        EXPECT_EQ(errno, ECONNREFUSED);
    }
    EXPECT_TRUE(inbox_exists(name()));
    ASSERT_EQ(write(done[1], "x", 1), 1);
    int status = -1;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
    for (const int fd : {ready[0], ready[1], done[0], done[1]}) close(fd);
}

TEST_F(NamedInboxTest, DescriptorsThatNobodyAskedForAreNotTaken) {
    auto inbox = open();
    const int connection = connect_to_inbox(name(), Trust::own_user);
    std::array<int, 2> pipe_ends;
    ASSERT_EQ(pipe(pipe_ends.data()), 0);
    alignas(cmsghdr) std::array<std::uint8_t, CMSG_SPACE(sizeof(int))> control{};
    char byte = 'x';
    iovec piece{&byte, 1};
    msghdr message{};
    message.msg_iov = &piece;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(header), &pipe_ends[1], sizeof(int));
    ASSERT_EQ(sendmsg(connection, &message, 0), 1);
    close(pipe_ends[1]);
    EXPECT_EQ(next(*inbox), "x");
    EXPECT_EQ(read(pipe_ends[0], &byte, 1), 0) << "somebody has the other end";
    close(pipe_ends[0]);
    close(connection);
}

// Who is not let in takes nobody's place.
TEST_F(NamedInboxTest, StrangersPushNobodyOut) {
    if (geteuid() != 0) GTEST_SKIP() << "only root can become another user";
    auto inbox = open();
    const int connection = connect_to_inbox(name(), Trust::own_user);
    say(connection, "one");
    EXPECT_EQ(next(*inbox), "one");
    say(connection, "two");
    for (int i = 0; i < 5; i++) {
        EXPECT_EQ(as(kSomebodyElse,
                     [] {
                         for (int k = 0; k < 20; k++)
                             if (connect_to_inbox(name(), Trust::own_user_and_root) < 0) return 1;
                         return 0;
                     }),
                  0);
        for (int k = 0; k < 4; k++) {
            const std::string text = next(*inbox);
            EXPECT_TRUE(text.empty() || text == "two") << text;
        }
    }
    EXPECT_EQ(inbox->refused(), 100u);
    say(connection, "three");
    EXPECT_EQ(next(*inbox), "three");
    close(connection);
}

// Two that were root's when they opened theirs, and are somebody's now.
TEST_F(NamedInboxTest, WhoHasLaidPrivilegesDownStillFindsHisLike) {
    if (geteuid() != 0) GTEST_SKIP() << "only root can become another user";
    const auto inbox = open();
    EXPECT_EQ(as(kSomebodyElse,
                 [] {
                     const int connection = connect_to_inbox(name(), Trust::own_user);
                     return connection >= 0 && inbox_exists(name()) ? 0 : 1;
                 }),
              0);
}

// Of too many senders the first ones are cut off, and find it out when they send.
TEST_F(NamedInboxTest, ManyConnectionsCostNoMoreThanSome) {
    auto inbox = open();
    const auto before = open_files();
    std::vector<int> senders;
    for (int i = 0; i < 100; i++) {
        senders.push_back(connect_to_inbox(name(), Trust::own_user));
        ASSERT_GE(senders.back(), 0);
        EXPECT_EQ(next(*inbox), "");  // which lets it in
    }
    EXPECT_EQ(send(senders.front(), "x", 1, MSG_NOSIGNAL), -1);
    say(senders.back(), "last");
    EXPECT_EQ(next(*inbox), "last");
    for (const int sender : senders) close(sender);
    while (readable(*inbox)) EXPECT_EQ(next(*inbox), "");
    EXPECT_EQ(open_files(), before);
}

// Who comes while there are no descriptors left is sent away, and wakes nobody for ever.
TEST_F(NamedInboxTest, WithoutDescriptorsAConnectionIsRefused) {
    auto inbox = open();
    const int connection = connect_to_inbox(name(), Trust::own_user);
    say(connection, "x");
    const rlimit before = [] {
        rlimit limit{};
        getrlimit(RLIMIT_NOFILE, &limit);
        return limit;
    }();
    const rlimit few{600, before.rlim_max};
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
    std::vector<int> all;
    for (int fd; (fd = dup(STDERR_FILENO)) >= 0;) all.push_back(fd);
    EXPECT_EQ(next(*inbox), "");
    for (const int fd : all) close(fd);
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
    EXPECT_EQ(send(connection, "x", 1, MSG_NOSIGNAL), -1);
    close(connection);
    EXPECT_FALSE(readable(*inbox));
    const int next_one = connect_to_inbox(name(), Trust::own_user);
    say(next_one, "y");
    EXPECT_EQ(next(*inbox), "y");
    close(next_one);
}

TEST_F(NamedInboxTest, AFabricsNamesSayNothingOfEachOther) {
    const auto taken = [](const InboxName& wanted) {
        const auto inbox = NamedInbox::open(wanted, Trust::own_user);
        const int connection = connect_to_inbox(wanted, Trust::own_user);
        sockaddr_un address{};
        socklen_t size = sizeof address;
        EXPECT_EQ(getpeername(connection, reinterpret_cast<sockaddr*>(&address), &size), 0);
        close(connection);
        return std::string(address.sun_path + 1);
    };
    const std::string one = taken(name(1));
    EXPECT_EQ(taken(name(1)), one);
    EXPECT_NE(taken(name(2)), one);
    EXPECT_NE(taken({"test", "another", 1}), one);
    EXPECT_NE(taken({"tset", name().fabric, 1}), one);
    EXPECT_EQ(one.find(name().fabric), std::string::npos);
}

}  // namespace
}  // namespace verbena::link
