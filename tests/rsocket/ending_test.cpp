// How streams end: by what is sent last, a shutdown, a close, a reset, or a death.
#include <netinet/in.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <thread>

#include "api.h"
#include "base/process_testing.h"

namespace verbena::rsocket_test {
namespace {

class Ending : public StreamSockets {};

INSTANTIATE_TEST_SUITE_P(, Ending, testing::Values(&kKernel, &kRsockets), name_of);

TEST_P(Ending, the_end_of_what_the_peer_sends) {
    Pair pair = connected();
    ASSERT_EQ(api().send(pair.client, "last", 4, 0), 4);
    ASSERT_EQ(outcome(api().shutdown(pair.client, SHUT_WR)), outcome(0));
    EXPECT_EQ(outcome(api().send(pair.client, "x", 1, MSG_NOSIGNAL)), failed(EPIPE));
    EXPECT_EQ(receive(pair.server, 4), "last");
    char byte;
    EXPECT_EQ(outcome(api().recv(pair.server, &byte, 1, 0)), outcome(0));
    EXPECT_EQ(outcome(api().recv(pair.server, &byte, 1, 0)), outcome(0)) << "for ever";
    EXPECT_TRUE(poll_one(pair.server, POLLIN | POLLRDHUP) & POLLRDHUP);
    ASSERT_EQ(outcome(api().send(pair.server, "answer", 6, 0)), outcome(6)) << "the other way is open";
    EXPECT_EQ(receive(pair.client, 6), "answer");
    ASSERT_EQ(outcome(api().shutdown(pair.server, SHUT_WR)), outcome(0));
    EXPECT_EQ(outcome(api().recv(pair.client, &byte, 1, 0)), outcome(0));
}

TEST_P(Ending, close_delivers_what_was_sent) {
    Pair pair = connected();
    const std::string data = pattern(200'000);
    ASSERT_EQ(api().send(pair.client, data.data(), data.size(), 0), ssize_t(data.size()));
    ASSERT_EQ(close(pair.client), 0);
    EXPECT_TRUE(receive(pair.server, data.size()) == data);
    char byte;
    EXPECT_EQ(outcome(api().recv(pair.server, &byte, 1, 0)), outcome(0));
}

// The end is told although the peer has no room for more, and is told as the end.
TEST_P(Ending, close_behind_as_much_as_there_is_room_for) {
    Pair pair = connected();
    nonblocking(pair.client);
    const std::string data = pattern(10);
    std::size_t sent = 0;
    // A kernel counts bytes, rsockets messages.
    for (ssize_t size; (size = api().send(pair.client, data.data(), data.size(), 0)) > 0;)
        sent += static_cast<std::size_t>(size);
    EXPECT_EQ(errno, EAGAIN);
    ASSERT_EQ(close(pair.client), 0);
    EXPECT_EQ(receive(pair.server, sent).size(), sent);
    char byte;
    EXPECT_EQ(outcome(api().recv(pair.server, &byte, 1, 0)), outcome(0));
}

TEST_P(Ending, sending_to_a_peer_that_closed) {
    Pair pair = connected();
    close(pair.server);
    ASSERT_TRUE(readable(pair.client));
    // TCP finds out by sending, rsockets know.
    int error = 0;
    for (int i = 0; i < 100 && error != EPIPE; i++) {
        const Outcome sent = outcome(api().send(pair.client, "x", 1, MSG_NOSIGNAL));
        if (sent.result == -1) error = sent.error;
        EXPECT_TRUE(error == 0 || error == ECONNRESET || error == EPIPE) << error;
        usleep(1000);
    }
    EXPECT_EQ(error, EPIPE);
}

// Who closes without lingering throws away what is under way, and the peer hears of that once.
TEST_P(Ending, a_reset) {
    for (bool reads : {true, false}) {
        Pair pair = connected();
        ASSERT_EQ(api().send(pair.server, "last", 4, 0), 4);
        ASSERT_TRUE(readable(pair.client));
        const linger none{1, 0};
        ASSERT_EQ(outcome(api().setsockopt(pair.server, SOL_SOCKET, SO_LINGER, &none, sizeof none)),
                  outcome(0));
        ASSERT_EQ(close(pair.server), 0);
        EXPECT_TRUE(poll_one(pair.client, POLLPRI) & POLLERR);
        char room[8];
        if (reads) {
            EXPECT_EQ(outcome(api().recv(pair.client, room, sizeof room, 0)), outcome(4)) << "came before";
            EXPECT_EQ(outcome(api().recv(pair.client, room, sizeof room, 0)), failed(ECONNRESET));
            EXPECT_EQ(outcome(api().recv(pair.client, room, sizeof room, 0)), outcome(0)) << "told once";
        } else {
            EXPECT_EQ(option(pair.client, SOL_SOCKET, SO_ERROR), ECONNRESET);
            EXPECT_EQ(option(pair.client, SOL_SOCKET, SO_ERROR), 0) << "told once";
        }
        EXPECT_EQ(outcome(api().send(pair.client, "x", 1, MSG_NOSIGNAL)), failed(EPIPE));
        Name name;
        EXPECT_EQ(outcome(api().getpeername(pair.client, name.get(), &name.length)), failed(ENOTCONN));
        EXPECT_EQ(outcome(api().shutdown(pair.client, SHUT_RDWR)), failed(ENOTCONN));
        EXPECT_EQ(close(pair.client), 0);
    }
}

TEST_P(Ending, a_close_that_leaves_something_unread) {
    Pair pair = connected();
    ASSERT_EQ(api().send(pair.server, "last", 4, 0), 4);
    ASSERT_EQ(api().send(pair.client, "unread", 6, 0), 6);
    ASSERT_TRUE(readable(pair.server));
    ASSERT_EQ(close(pair.server), 0);
    EXPECT_TRUE(poll_one(pair.client, POLLPRI) & POLLERR);
    char room[8];
    EXPECT_EQ(outcome(api().recv(pair.client, room, sizeof room, 0)), outcome(4)) << "came before";
    EXPECT_EQ(outcome(api().recv(pair.client, room, sizeof room, 0)), failed(ECONNRESET));
    EXPECT_EQ(outcome(api().recv(pair.client, room, sizeof room, 0)), outcome(0)) << "told once";
    EXPECT_EQ(outcome(api().send(pair.client, "x", 1, MSG_NOSIGNAL)), failed(EPIPE));
}

// A peer that is killed while data is under way to it. A kernel finishes the connection for it.
TEST_P(Ending, a_killed_peer) {
    Name name;
    const int listening = listener(name);
    const pid_t child = fork();
    if (child == 0) {
        const int fd = api().socket(AF_INET, SOCK_STREAM, 0);
        if (api().connect(fd, name.get(), name.length) == 0 && api().send(fd, "dying", 5, 0) == 5) pause();
        _exit(1);
    }
    const int server = api().accept(listening, nullptr, nullptr);
    ASSERT_GE(server, 0);
    EXPECT_EQ(receive(server, 5), "dying");
    const std::string data = pattern(100'000);
    EXPECT_GT(api().send(server, data.data(), data.size(), 0), 0);
    end_process(child);
    int status;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    char byte;
    EXPECT_EQ(outcome(api().recv(server, &byte, 1, 0)), failed(ECONNRESET));
    EXPECT_EQ(outcome(api().recv(server, &byte, 1, 0)), outcome(0));
    EXPECT_EQ(api().close(server), 0);
}

// Nobody waits for the other: a disconnect that arrives while this end closes, too, held both up for half a
// second in most rounds.
TEST_P(Ending, both_ends_close_at_once) {
    const auto begin = std::chrono::steady_clock::now();
    for (int round = 0; round < 60; round++) {
        Pair pair = connected();
        ASSERT_EQ(api().send(pair.client, "x", 1, 0), 1);
        EXPECT_EQ(receive(pair.server, 1), "x");
        EXPECT_EQ(close(pair.client), 0);
        char byte;
        EXPECT_EQ(outcome(api().recv(pair.server, &byte, 1, 0)), outcome(0));
        EXPECT_EQ(close(pair.server), 0);
    }
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
}

// rsockets give none at all, as rdma-core's; librspreload does (ways.py).
TEST_P(Ending, sigpipe_unless_asked_not_to) {
    static volatile sig_atomic_t signals;
    signals = 0;
    signal(SIGPIPE, [](int) { signals = signals + 1; });
    Pair pair = connected();
    api().shutdown(pair.client, SHUT_WR);
    EXPECT_EQ(outcome(api().send(pair.client, "x", 1, MSG_NOSIGNAL)), failed(EPIPE));
    EXPECT_EQ(signals, 0);
    EXPECT_EQ(outcome(api().send(pair.client, "x", 1, 0)), failed(EPIPE));
    EXPECT_EQ(signals, kernel() ? 1 : 0);
}

TEST_P(Ending, shutdown_wakes_a_reader_and_an_acceptor) {
    Pair pair = connected();
    std::thread reader([&] {
        char byte;
        EXPECT_EQ(outcome(api().recv(pair.client, &byte, 1, 0)), outcome(0));
    });
    usleep(20'000);
    EXPECT_EQ(outcome(api().shutdown(pair.client, SHUT_RD)), outcome(0));
    reader.join();
    Name name;
    const int listening = listener(name);
    std::thread acceptor(
        [&] { EXPECT_EQ(outcome(api().accept(listening, nullptr, nullptr)), failed(EINVAL)); });
    usleep(20'000);
    EXPECT_EQ(outcome(api().shutdown(listening, SHUT_RD)), outcome(0));
    acceptor.join();
}

}  // namespace
}  // namespace verbena::rsocket_test
