// Greetings between processes of one host: what arrives, and who is a stranger. (Whom they come from at all:
// named_inbox_test.cpp.)
#include "link/local_meeting.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <string>

namespace verbena::link {
namespace {

constexpr std::uint32_t kBlock = 7;

class LocalMeetingTest : public ::testing::Test {
   protected:
    void SetUp() override { ASSERT_NE(inbox, nullptr); }

    Greeting::Text text(Greeting::Kind kind = Greeting::Kind::question) const {
        Greeting::Text text;
        text.kind = kind;
        text.from = 3;
        text.to = kBlock;
        text.cookie = 0x1234;
        return text;
    }
    // What a greeting begins with, which only local_meeting.cpp knows.
    std::uint32_t mark() const {
        Greeting::Text any;
        any.to = kBlock;
        EXPECT_EQ(send_greeting(fabric, any, Greeting::kNone), 0);
        return take_as_is().mark;
    }
    Greeting::Text take_as_is() const {
        Greeting::Text text;
        NamedInbox::Message message;
        message.into = &text;
        message.room = sizeof text;
        EXPECT_TRUE(inbox->next(message));
        EXPECT_EQ(message.size, sizeof text);
        return text;
    }
    void send_as_is(const Greeting::Text& what, std::size_t length) const {
        const int connection = connect_to_inbox({"local", fabric, kBlock}, Trust::own_user);
        ASSERT_GE(connection, 0);
        EXPECT_EQ(send(connection, &what, length, 0), static_cast<ssize_t>(length));
        close(connection);
    }

    const std::string fabric = "meeting-test-" + std::to_string(getpid());
    const std::unique_ptr<NamedInbox> inbox = open_inbox(fabric, kBlock);
};

TEST_F(LocalMeetingTest, AProcessOfTheSameUserIsNoStranger) {
    Greeting greeting;
    EXPECT_EQ(receive_greeting(*inbox, greeting), Received::nothing);
    const pid_t sender = fork();
    if (sender == 0) _exit(send_greeting(fabric, text(), Greeting::kNone) == 0 ? 0 : 2);
    int status = -1;
    ASSERT_EQ(waitpid(sender, &status, 0), sender);
    ASSERT_EQ(status, 0);
    ASSERT_EQ(receive_greeting(*inbox, greeting), Received::greeting);
    EXPECT_EQ(greeting.pid, sender);
    EXPECT_FALSE(greeting.stranger);
    EXPECT_FALSE(greeting.has_descriptors());
    EXPECT_EQ(greeting.text.from, 3u);
    EXPECT_EQ(greeting.text.cookie, 0x1234u);
}

// It may see us or not, whom we see: neither meets the other.
TEST_F(LocalMeetingTest, AnotherPidNamespaceIsAStranger) {
    for (const bool same : {true, false}) {
        Greeting::Text sent;
        const Greeting::Text any = text();
        ASSERT_EQ(send_greeting(fabric, any, Greeting::kNone), 0);
        sent = take_as_is();
        EXPECT_NE(sent.pid_namespace, 0u);
        if (!same) sent.pid_namespace ^= 1;
        send_as_is(sent, sizeof sent);
        Greeting greeting;
        ASSERT_EQ(receive_greeting(*inbox, greeting), Received::greeting);
        EXPECT_EQ(greeting.pid, getpid());
        EXPECT_EQ(greeting.stranger, !same);
    }
}

TEST_F(LocalMeetingTest, AChildInAnotherPidNamespaceIsAStranger) {
    const pid_t parent = fork();
    if (parent == 0) {
        if (unshare(CLONE_NEWPID) != 0) _exit(77);
        const pid_t child = fork();
        if (child == 0) _exit(send_greeting(fabric, text(), Greeting::kNone) == 0 ? 0 : 2);
        int status = -1;
        _exit(waitpid(child, &status, 0) == child && status == 0 ? 0 : 1);
    }
    int status = -1;
    ASSERT_EQ(waitpid(parent, &status, 0), parent);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77) GTEST_SKIP() << "no namespaces for us";
    ASSERT_EQ(status, 0);
    Greeting greeting;
    ASSERT_EQ(receive_greeting(*inbox, greeting), Received::greeting);
    EXPECT_NE(greeting.pid, 0) << "we see it";
    EXPECT_TRUE(greeting.stranger);
}

// Three, and a sign of life where there is one.
TEST_F(LocalMeetingTest, DescriptorsComeAllOrNotAtAll) {
    const int null = dup(STDERR_FILENO);
    for (const int sign : {-1, null}) {
        ASSERT_EQ(send_greeting(fabric, text(), {null, null, null, sign}), 0);
        Greeting greeting;
        ASSERT_EQ(receive_greeting(*inbox, greeting), Received::greeting);
        EXPECT_TRUE(greeting.has_descriptors());
        EXPECT_EQ(greeting.fds[3] >= 0, sign >= 0);
        const int taken = greeting.take(1);
        EXPECT_GE(taken, 0);
        EXPECT_EQ(greeting.fds[1], -1) << "the caller's now";
        close(taken);
    }
    close(null);
}

TEST_F(LocalMeetingTest, WhatIsNoGreetingIsNonsense) {
    Greeting::Text wrong = text();
    wrong.mark = mark() ^ 1;
    const auto send = [&](std::size_t length) {
        send_as_is(wrong, length);
        Greeting greeting;
        EXPECT_EQ(receive_greeting(*inbox, greeting), Received::nonsense);
    };
    send(sizeof wrong);
    wrong.mark ^= 1;
    send(sizeof wrong - 1);
    send(1);
}

TEST_F(LocalMeetingTest, AnInboxExistsAsLongAsItsSocket) {
    EXPECT_TRUE(inbox_exists(fabric, kBlock));
    EXPECT_FALSE(inbox_exists(fabric, kBlock + 1));
    Greeting::Text to_nobody = text();
    to_nobody.to++;
    EXPECT_EQ(send_greeting(fabric, to_nobody, Greeting::kNone), ECONNREFUSED);
}

}  // namespace
}  // namespace verbena::link
