// Streams: what TCP does.
#include <fcntl.h>
#include <infiniband/sa.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <rdma/rsocket.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <thread>

#include "api.h"
#include "base/ipv6_testing.h"

namespace verbena::rsocket_test {
namespace {

class Stream : public StreamSockets {};

INSTANTIATE_TEST_SUITE_P(, Stream, testing::Values(&kKernel, &kRsockets), name_of);

TEST_P(Stream, bytes_arrive_in_order_both_ways) {
    for (int family : {AF_INET, AF_INET6}) {
        if (family == AF_INET6 && !has_ipv6()) GTEST_SKIP() << kNoIpv6;
        Pair pair = connected(family);
        for (std::size_t size : {1u, 2u, 63u, 64u, 65u, 1000u, 4096u, 70'000u, 3'000'000u}) {
            const std::string data = pattern(size);
            for (auto [from, to] : {std::pair{pair.client, pair.server}, {pair.server, pair.client}}) {
                std::thread sender([&, from = from] {
                    EXPECT_EQ(outcome(api().send(from, data.data(), size, 0)),
                              outcome(static_cast<long>(size)));
                });
                EXPECT_EQ(receive(to, size) == data, true) << size;
                sender.join();
            }
        }
    }
}

TEST_P(Stream, both_directions_at_once_from_two_threads_each) {
    Pair pair = connected();
    const std::string data = pattern(20'000'000);
    auto send = [&](int fd) { EXPECT_EQ(api().send(fd, data.data(), data.size(), 0), ssize_t(data.size())); };
    std::thread one(send, pair.client), two(send, pair.server);
    std::string there, back;
    std::thread three([&] { there = receive(pair.server, data.size()); });
    back = receive(pair.client, data.size());
    three.join();
    one.join();
    two.join();
    EXPECT_TRUE(there == data);
    EXPECT_TRUE(back == data);
}

TEST_P(Stream, a_connection_needs_no_accept) {
    Name name;
    const int listening = listener(name);
    const int client = open();
    ASSERT_EQ(outcome(api().connect(client, name.get(), name.length)), outcome(0));
    ASSERT_EQ(api().send(client, "early", 5, 0), 5);
    ASSERT_EQ(close(client), 0);
    const int server = api().accept(listening, nullptr, nullptr);
    ASSERT_GE(server, 0);
    EXPECT_EQ(receive(server, 5), "early");
    char byte;
    EXPECT_EQ(outcome(api().recv(server, &byte, 1, 0)), outcome(0));
    EXPECT_EQ(api().close(server), 0);
}

TEST_P(Stream, names) {
    Name name;
    const int listening = listener(name);
    const int client = open();
    ASSERT_EQ(api().connect(client, name.get(), name.length), 0);
    Name from, own, peer;
    const int server = api().accept(listening, from.get(), &from.length);
    ASSERT_GE(server, 0);
    EXPECT_EQ(api().getsockname(client, own.get(), &own.length), 0);
    EXPECT_EQ(api().getpeername(client, peer.get(), &peer.length), 0);
    EXPECT_EQ(from.length, sizeof(sockaddr_in));
    EXPECT_EQ(from.port(), own.port());
    EXPECT_EQ(peer.port(), name.port());
    EXPECT_EQ(api().getpeername(server, peer.get(), &peer.length), 0);
    EXPECT_EQ(peer.port(), own.port());
    EXPECT_EQ(outcome(api().getpeername(listening, peer.get(), &peer.length)), failed(ENOTCONN));
    api().close(server);
}

TEST_P(Stream, ipv6_listener_serves_ipv4) {
    if (!knows_ipv6()) GTEST_SKIP() << kUnknownIpv6;
    Name any(AF_INET6);
    any.storage = {};
    any.storage.ss_family = AF_INET6;
    const int listening = open(AF_INET6);
    ASSERT_EQ(outcome(api().bind(listening, any.get(), any.length)), outcome(0));
    ASSERT_EQ(outcome(api().listen(listening, 1)), outcome(0));
    ASSERT_EQ(api().getsockname(listening, any.get(), &any.length), 0);
    Name v4(AF_INET, any.port());
    const int client = open();
    ASSERT_EQ(outcome(api().connect(client, v4.get(), v4.length)), outcome(0));
    Name from(AF_INET6);
    const int server = api().accept(listening, from.get(), &from.length);
    ASSERT_GE(server, 0);
    sockaddr_in6 in6;
    memcpy(&in6, &from.storage, sizeof in6);
    EXPECT_EQ(in6.sin6_family, AF_INET6);
    EXPECT_TRUE(IN6_IS_ADDR_V4MAPPED(&in6.sin6_addr));
    api().close(server);
}

TEST_P(Stream, nobody_listens) {
    Name name;
    close(listener(name));
    const int fd = open();
    EXPECT_EQ(outcome(api().connect(fd, name.get(), name.length)), failed(ECONNREFUSED));
    EXPECT_EQ(outcome(api().connect(fd, name.get(), name.length)), failed(ECONNREFUSED)) << "again";
    const int other = open();
    nonblocking(other);
    EXPECT_EQ(outcome(api().connect(other, name.get(), name.length)).result, -1);
    EXPECT_TRUE(poll_one(other, POLLOUT) & POLLERR);
    const int error = option(other, SOL_SOCKET, SO_ERROR);
    EXPECT_TRUE(error == ECONNREFUSED || kernel()) << error;
    EXPECT_EQ(option(other, SOL_SOCKET, SO_ERROR), 0) << "told once";
}

TEST_P(Stream, connecting_without_waiting) {
    Name name;
    const int listening = listener(name);
    const int fd = open();
    nonblocking(fd);
    EXPECT_EQ(outcome(api().connect(fd, name.get(), name.length)), failed(EINPROGRESS));
    EXPECT_EQ(poll_one(fd, POLLOUT), POLLOUT);
    EXPECT_EQ(option(fd, SOL_SOCKET, SO_ERROR), 0);
    EXPECT_TRUE(readable(listening));
    nonblocking(listening);
    const int server = api().accept(listening, nullptr, nullptr);
    EXPECT_GE(server, 0);
    EXPECT_EQ(outcome(api().accept(listening, nullptr, nullptr)), failed(EAGAIN));
    char byte;
    EXPECT_EQ(outcome(api().recv(fd, &byte, 1, 0)), failed(EAGAIN));
    api().close(server);
}

TEST_P(Stream, wrong_states) {
    char byte = 0;
    Name name;
    const int fd = open();
    EXPECT_EQ(outcome(api().recv(fd, &byte, 1, 0)), failed(ENOTCONN));
    EXPECT_EQ(outcome(api().send(fd, &byte, 1, MSG_NOSIGNAL)), failed(EPIPE));
    EXPECT_EQ(outcome(api().shutdown(fd, SHUT_RDWR)), failed(ENOTCONN));
    EXPECT_EQ(outcome(api().accept(fd, nullptr, nullptr)), failed(EINVAL));
    EXPECT_EQ(outcome(api().getpeername(fd, name.get(), &name.length)), failed(ENOTCONN));
    EXPECT_TRUE(poll_one(fd, POLLIN | POLLOUT, 0) & POLLHUP);
    Pair pair = connected();
    EXPECT_EQ(outcome(api().listen(pair.client, 1)), failed(EINVAL));
    EXPECT_EQ(outcome(api().connect(pair.client, name.get(), sizeof(sockaddr_in))), failed(EISCONN));
    EXPECT_EQ(outcome(api().shutdown(pair.client, 17)), failed(EINVAL));
    EXPECT_EQ(outcome(api().connect(open(), name.get(), 3)), failed(EINVAL));
}

TEST_P(Stream, no_such_descriptor) {
    char byte = 0;
    Name name;
    pollfd bad{9999, POLLIN, 0};
    EXPECT_EQ(outcome(api().recv(9999, &byte, 1, 0)), failed(EBADF));
    EXPECT_EQ(outcome(api().send(9999, &byte, 1, 0)), failed(EBADF));
    EXPECT_EQ(outcome(api().close(9999)), failed(EBADF));
    EXPECT_EQ(outcome(api().bind(9999, name.get(), name.length)), failed(EBADF));
    EXPECT_EQ(outcome(api().poll(&bad, 1, 0)), outcome(1));
    EXPECT_EQ(bad.revents, POLLNVAL);
}

TEST_P(Stream, ports) {
    Name name;
    const int first = listener(name);
    const int second = open();
    EXPECT_EQ(outcome(api().bind(second, name.get(), name.length)), failed(EADDRINUSE));
    Name elsewhere;
    sockaddr_in in{};
    in.sin_family = AF_INET;
    in.sin_addr.s_addr = htonl(0x01020304);
    memcpy(&elsewhere.storage, &in, sizeof in);
    EXPECT_EQ(outcome(api().bind(second, elsewhere.get(), elsewhere.length)), failed(EADDRNOTAVAIL));
    close(first);
    EXPECT_EQ(outcome(api().bind(second, name.get(), name.length)), outcome(0)) << "free again";
    EXPECT_EQ(outcome(api().bind(second, name.get(), name.length)), failed(EINVAL)) << "bound already";
}

TEST_P(Stream, flags) {
    Pair pair = connected();
    char room[16]{};
    EXPECT_EQ(outcome(api().recv(pair.server, room, 4, MSG_DONTWAIT)), failed(EAGAIN));
    ASSERT_EQ(api().send(pair.client, "abcdef", 6, 0), 6);
    ASSERT_TRUE(readable(pair.server));
    EXPECT_EQ(outcome(api().recv(pair.server, room, 3, MSG_PEEK)), outcome(3));
    EXPECT_EQ(outcome(api().recv(pair.server, room, 16, MSG_PEEK)), outcome(6));
    EXPECT_EQ(std::string(room, 6), "abcdef");
    EXPECT_EQ(outcome(api().recv(pair.server, room, 0, 0)), outcome(0));
    EXPECT_EQ(outcome(api().recv(pair.server, room, 16, MSG_ERRQUEUE)), failed(EAGAIN)) << "no data in it";
    EXPECT_EQ(outcome(api().recv(pair.server, room, 2, 0)), outcome(2));
    std::thread later([&] {
        usleep(20'000);
        EXPECT_EQ(api().send(pair.client, "ghij", 4, 0), 4);
    });
    EXPECT_EQ(outcome(api().recv(pair.server, room, 8, MSG_WAITALL)), outcome(8));
    EXPECT_EQ(std::string(room, 8), "cdefghij");
    later.join();
    EXPECT_EQ(outcome(api().send(pair.client, room, 0, 0)), outcome(0));
}

TEST_P(Stream, pieces) {
    Pair pair = connected();
    char a[] = "one", b[] = "", c[] = "twothree";
    iovec out[] = {{a, 3}, {b, 0}, {c, 8}};
    EXPECT_EQ(outcome(api().writev(pair.client, out, 3)), outcome(11));
    ASSERT_TRUE(readable(pair.server));
    char x[2], y[20];
    iovec in[] = {{x, 2}, {y, 20}};
    EXPECT_EQ(outcome(api().readv(pair.server, in, 2)), outcome(11));
    EXPECT_EQ(std::string(x, 2) + std::string(y, 9), "onetwothree");
    msghdr message{};
    message.msg_iov = out;
    message.msg_iovlen = 3;
    EXPECT_EQ(outcome(api().sendmsg(pair.server, &message, 0)), outcome(11));
    ASSERT_TRUE(readable(pair.client));
    message.msg_iov = in;
    message.msg_iovlen = 2;
    EXPECT_EQ(outcome(api().recvmsg(pair.client, &message, 0)), outcome(11));
    EXPECT_EQ(outcome(api().readv(pair.server, in, -1)), failed(EINVAL));
}

TEST_P(Stream, a_full_connection_makes_the_sender_wait) {
    Pair pair = connected();
    nonblocking(pair.client);
    const std::string data = pattern(100'000);
    std::size_t sent = 0;
    for (;;) {
        const ssize_t size = api().send(pair.client, data.data(), data.size(), 0);
        if (size < 0) break;
        sent += static_cast<std::size_t>(size);
        ASSERT_LT(sent, 1u << 30);
    }
    EXPECT_EQ(errno, EAGAIN);
    EXPECT_EQ(poll_one(pair.client, POLLOUT, 50), 0);
    std::thread reader([&] { EXPECT_EQ(receive(pair.server, sent).size(), sent); });
    EXPECT_EQ(poll_one(pair.client, POLLOUT), POLLOUT);
    reader.join();
}

// Each is woken when the other is, and goes back to sleep.
TEST_P(Stream, a_reader_and_a_writer_that_wait_for_one_peer_sleep) {
    Pair pair = connected();
    const auto switches = [] {
        rusage usage{};
        getrusage(RUSAGE_SELF, &usage);
        return usage.ru_nvcsw;
    };
    const std::string data = pattern(10'000'000);
    std::thread reader([&] { EXPECT_EQ(receive(pair.client, 1), "x"); });
    std::thread writer(
        [&] { EXPECT_EQ(api().send(pair.client, data.data(), data.size(), 0), ssize_t(data.size())); });
    while (poll_one(pair.client, POLLOUT, 20) != 0) {  // until no more fits
    }
    const long before = switches();
    usleep(200'000);
    EXPECT_LT(switches() - before, 100);
    EXPECT_EQ(api().send(pair.server, "x", 1, 0), 1);
    reader.join();
    EXPECT_EQ(receive(pair.server, data.size()).size(), data.size());
    writer.join();
}

// What it had left with the socket to be woken by is gone with its stack.
TEST_P(Stream, a_thread_cancelled_in_poll) {
    Pair pair = connected();
    std::atomic<bool> polls{false};
    std::thread poller([&] {
        pollfd one{pair.server, POLLIN, 0};
        polls = true;
        api().poll(&one, 1, -1);
    });
    while (!polls) std::this_thread::yield();
    usleep(20'000);
    ASSERT_EQ(pthread_cancel(poller.native_handle()), 0);
    poller.join();
    EXPECT_EQ(poll_one(pair.server, POLLIN, 20), 0);
    EXPECT_EQ(api().send(pair.client, "y", 1, 0), 1);
    EXPECT_EQ(receive(pair.server, 1), "y");
}

TEST_P(Stream, poll_mixes_descriptors) {
    Pair pair = connected();
    int pipe_ends[2];
    ASSERT_EQ(pipe(pipe_ends), 0);
    pollfd both[] = {{pair.server, POLLIN, 0}, {pipe_ends[0], POLLIN, 0}, {-1, POLLIN, 0}};
    EXPECT_EQ(outcome(api().poll(both, 3, 20)), outcome(0));
    std::thread writer([&] {
        usleep(20'000);
        EXPECT_EQ(write(pipe_ends[1], "x", 1), 1);
    });
    EXPECT_EQ(outcome(api().poll(both, 3, 10'000)), outcome(1));
    EXPECT_EQ(both[0].revents, 0);
    EXPECT_EQ(both[1].revents, POLLIN);
    writer.join();
    std::thread sender([&] {
        usleep(20'000);
        EXPECT_EQ(api().send(pair.client, "y", 1, 0), 1);
    });
    while (api().poll(both, 1, 10'000) == 1 && !(both[0].revents & POLLIN)) {
    }
    sender.join();
    EXPECT_EQ(outcome(api().poll(both, 3, 0)), outcome(2));

    fd_set readable_set, writable_set;
    FD_ZERO(&readable_set);
    FD_ZERO(&writable_set);
    FD_SET(pair.server, &readable_set);
    FD_SET(pair.client, &readable_set);
    FD_SET(pair.client, &writable_set);
    timeval time{1, 0};
    EXPECT_EQ(outcome(api().select(1000, &readable_set, &writable_set, nullptr, &time)), outcome(2));
    EXPECT_TRUE(FD_ISSET(pair.server, &readable_set));
    EXPECT_FALSE(FD_ISSET(pair.client, &readable_set));
    EXPECT_TRUE(FD_ISSET(pair.client, &writable_set));
    ::close(pipe_ends[0]);
    ::close(pipe_ends[1]);
}

TEST_P(Stream, time_limits) {
    Pair pair = connected();
    timeval limit{0, 50'000};
    ASSERT_EQ(outcome(api().setsockopt(pair.client, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit)),
              outcome(0));
    char byte;
    EXPECT_EQ(outcome(api().recv(pair.client, &byte, 1, 0)), failed(EAGAIN));
}

TEST_P(Stream, a_backlog_of_connections) {
    Name name;
    const int listening = listener(name, 20);
    std::vector<int> clients;
    for (int i = 0; i < 15; i++) {
        clients.push_back(open());
        ASSERT_EQ(outcome(api().connect(clients.back(), name.get(), name.length)), outcome(0));
        const char number = static_cast<char>(i);
        ASSERT_EQ(api().send(clients.back(), &number, 1, 0), 1);
    }
    for (int i = 0; i < 15; i++) {
        const int server = api().accept(listening, nullptr, nullptr);
        ASSERT_GE(server, 0);
        EXPECT_EQ(receive(server, 1), std::string(1, static_cast<char>(i)));
        api().close(server);
    }
}

TEST_P(Stream, unknown_kinds) {
    EXPECT_EQ(outcome(api().socket(12345, SOCK_STREAM, 0)), failed(EAFNOSUPPORT));
    const int fd = open();
    char byte;
    EXPECT_EQ(api().fcntl(fd, F_GETFL, 0L) & O_NONBLOCK, 0);
    nonblocking(fd);
    EXPECT_NE(api().fcntl(fd, F_GETFL, 0L) & O_NONBLOCK, 0);
    EXPECT_EQ(outcome(api().recv(fd, &byte, 1, MSG_OOB)).result, -1);
}

}  // namespace
}  // namespace verbena::rsocket_test
