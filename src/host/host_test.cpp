// Names, and unix sockets with descriptors. What needs a daemon is tested beside the daemon.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>

#include "base/own_user.h"
#include "host/address_name.h"
#include "host/launch.h"
#include "host/unix_socket.h"

namespace verbena::host {
namespace {

TEST(AddressName, Fabrics) {
    for (const char* good : {"a", "ci-7", "Job_12.3", "0123456789012345678901234567890"})
        EXPECT_TRUE(is_fabric_name(good));
    for (const char* bad : {"", "a/b", "a b", "\n", "ü", "01234567890123456789012345678901"})
        EXPECT_FALSE(is_fabric_name(bad)) << bad;
    std::string name;
    unsetenv("VERBENA_FABRIC");
    EXPECT_EQ(fabric_of_environment(name), 0);
    EXPECT_EQ(name, "default");
    setenv("VERBENA_FABRIC", "", 1);
    EXPECT_EQ(fabric_of_environment(name), 0);
    EXPECT_EQ(name, "default");
    setenv("VERBENA_FABRIC", "../x", 1);
    EXPECT_EQ(fabric_of_environment(name), EINVAL);
    unsetenv("VERBENA_FABRIC");
}

TEST(AddressName, Addresses) {
    EXPECT_EQ(daemon_address(1000, "default"), "verbena/1000/default");
    EXPECT_EQ(start_lock_address(1000, "x"), "verbena/1000/x/start");
    EXPECT_EQ(port_address(4791), "verbena/port-4791");
}

TEST(Launch, TheDaemonIsNamedByTheEnvironment) {
    std::string path;
    setenv("VERBENA_DAEMON", "/bin/true", 1);
    EXPECT_EQ(find_daemon(path), 0);
    EXPECT_EQ(path, "/bin/true");
    setenv("VERBENA_DAEMON", "/nonexistent", 1);
    EXPECT_EQ(find_daemon(path), ENOENT);
    unsetenv("VERBENA_DAEMON");
}

class Pair {
   public:
    Pair() { EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends_), 0); }
    ~Pair() {
        for (int fd : ends_)
            if (fd >= 0) close(fd);
    }
    int a() const { return ends_[0]; }
    int b() const { return ends_[1]; }
    void close_a() { close(std::exchange(ends_[0], -1)); }

   private:
    int ends_[2];
};

// What a process hears that may open no more: an answer without its files, which is not a malformed one.
TEST(UnixSocket, FilesThatCannotBeOpenedAreMissing) {
    Pair pair;
    char text[] = "one";
    const iovec part{text, 3};
    const int sent = pair.a();
    ASSERT_EQ(send_datagram(pair.a(), std::span(&part, 1), std::span(&sent, 1)), 0);
    rlimit before{};
    ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
    rlimit none = before;
    none.rlim_cur = 0;
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
    Received received;
    const int error = receive_datagram(pair.b(), std::span(&part, 1), received);
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
    EXPECT_EQ(error, 0);
    EXPECT_EQ(received.size, 3u);
    EXPECT_TRUE(received.files_missing);
    EXPECT_EQ(received.descriptor_count, 0u);
}

TEST(UnixSocket, DatagramsKeepTheirBounds) {
    Pair pair;
    char text[] = "one", more[] = "two";
    const iovec parts[] = {{text, 3}, {more, 3}};
    ASSERT_EQ(send_datagram(pair.a(), parts), 0);
    ASSERT_EQ(send_datagram(pair.a(), std::span(parts).first(1)), 0);
    std::array<char, 16> buffer{};
    const iovec in{buffer.data(), buffer.size()};
    Received received;
    ASSERT_EQ(receive_datagram(pair.b(), std::span(&in, 1), received), 0);
    EXPECT_EQ(std::string(buffer.data(), received.size), "onetwo");
    EXPECT_FALSE(received.truncated);
    const iovec small{buffer.data(), 2};
    ASSERT_EQ(receive_datagram(pair.b(), std::span(&small, 1), received), 0);
    EXPECT_EQ(received.size, 2u);
    EXPECT_TRUE(received.truncated);
    EXPECT_EQ(receive_datagram(pair.b(), std::span(&in, 1), received, MSG_DONTWAIT), EAGAIN);
    EXPECT_EQ(wait_readable(pair.b(), 1), ETIMEDOUT);
    pair.close_a();
    EXPECT_EQ(wait_readable(pair.b(), 1000), 0);
    ASSERT_EQ(receive_datagram(pair.b(), std::span(&in, 1), received), 0);
    EXPECT_EQ(received.size, 0u);
    EXPECT_EQ(send_datagram(pair.b(), parts), EPIPE);
}

// As many as there are, and each with what belongs to it.
TEST(UnixSocket, ManyDatagramsByOneCall) {
    Pair pair, cargo;
    char text[] = "abcdef";
    std::array<iovec, 3> out{{{text, 1}, {text + 1, 2}, {text + 3, 3}}};
    const int file = cargo.a();
    const auto send_all = [&] {
        std::size_t sent = 0;
        EXPECT_EQ(send_datagrams(pair.a(), out, sent), 0);
        EXPECT_EQ(sent, 3u);
        EXPECT_EQ(send_datagram(pair.a(), std::span(out).first(1), std::span(&file, 1)), 0);
    };
    send_all();

    Datagrams in(2);
    for (const bool again : {false, true}) {
        ASSERT_EQ(in.receive(pair.b()), 0);
        ASSERT_EQ(in.count(), 4u);
        const auto text_of = [&](std::size_t i) {
            return std::string(in.bytes(i).begin(), in.bytes(i).end());
        };
        EXPECT_EQ(text_of(0), "a");
        EXPECT_EQ(text_of(1), "bc");
        EXPECT_EQ(text_of(2), "de");
        for (std::size_t i = 0; i < in.count(); i++) {
            EXPECT_EQ(in.received(i).truncated, i == 2) << i;
            EXPECT_EQ(in.received(i).descriptor_count, i == 3 ? 1u : 0u) << i;
            in.received(i).close_all();
        }
        EXPECT_EQ(in.receive(pair.b()), EAGAIN);
        EXPECT_EQ(in.count(), 0u);
        if (!again) send_all();
    }
}

TEST(UnixSocket, AFullSocketTakesTheFirstOfMany) {
    Pair pair;
    std::array<char, 1000> bytes{};
    std::array<iovec, 2 * kMostDatagrams> parts;
    parts.fill({bytes.data(), bytes.size()});
    std::size_t sent = 0, all = 0;
    do {
        ASSERT_EQ(send_datagrams(pair.a(), parts, sent), 0);
        all += sent;
    } while (sent == kMostDatagrams);
    while (sent > 0 && send_datagrams(pair.a(), parts, sent) == 0) all += sent;
    EXPECT_EQ(send_datagrams(pair.a(), parts, sent), EAGAIN);
    EXPECT_EQ(sent, 0u);
    const iovec in{bytes.data(), bytes.size()};
    Received received;
    for (std::size_t i = 0; i < all; i++)
        ASSERT_EQ(receive_datagram(pair.b(), std::span(&in, 1), received, MSG_DONTWAIT), 0);
    EXPECT_EQ(receive_datagram(pair.b(), std::span(&in, 1), received, MSG_DONTWAIT), EAGAIN);
    pair.close_a();
    EXPECT_EQ(send_datagrams(pair.b(), parts, sent), EPIPE);
    EXPECT_EQ(sent, 0u);
}

TEST(UnixSocket, DescriptorsTravel) {
    Pair pair, cargo;
    char byte = 1;
    const iovec part{&byte, 1};
    const int descriptors[] = {cargo.a(), cargo.b()};
    ASSERT_EQ(send_datagram(pair.a(), std::span(&part, 1), descriptors), 0);
    Received received;
    ASSERT_EQ(receive_datagram(pair.b(), std::span(&part, 1), received), 0);
    ASSERT_EQ(received.descriptor_count, 2u);
    const int first = received.take(0);
    EXPECT_GE(first, 0);
    EXPECT_EQ(received.take(0), -1);
    EXPECT_EQ(received.take(2), -1);
    const int second = received.descriptors[1];
    received.close_all();
    EXPECT_EQ(close(second), -1);  // it was closed
    EXPECT_EQ(write(first, "x", 1), 1);
    close(first);
    const int too_many[] = {0, 0, 0, 0, 0};
    EXPECT_EQ(send_datagram(pair.a(), std::span(&part, 1), too_many), EINVAL);
}

TEST(UnixSocket, NamesLiveWithTheirSocket) {
    const std::string name = "verbena/test/" + std::to_string(getpid());
    EXPECT_EQ(connect_to(name), -ECONNREFUSED);
    const int listener = listen_on(name, 4);
    ASSERT_GE(listener, 0);
    EXPECT_EQ(bind_name(name, SOCK_SEQPACKET), -EADDRINUSE);
    const int client = connect_to(name);
    ASSERT_GE(client, 0);
    PeerProcess peer;
    EXPECT_EQ(peer_of(client, peer), 0);
    EXPECT_EQ(peer.pid, getpid());
    EXPECT_TRUE(is_own_user(peer.user));
    EXPECT_FALSE(is_own_user(peer.user + 1));
    close(client);
    close(listener);
    EXPECT_EQ(connect_to(name), -ECONNREFUSED);
    EXPECT_EQ(connect_to(std::string(200, 'x')), -ENAMETOOLONG);
}

// As another user may arrange it with a name that all programs try.
TEST(UnixSocket, WhoTakesNobodyMakesNobodyWait) {
    const std::string name = "verbena/test/" + std::to_string(getpid()) + "/full";
    const int listener = listen_on(name, 0);
    ASSERT_GE(listener, 0);
    const int first = connect_to(name);
    EXPECT_GE(first, 0);
    EXPECT_EQ(connect_to(name), -EAGAIN);
    EXPECT_EQ(fcntl(first, F_GETFL) & O_NONBLOCK, 0);
    close(first);
    close(listener);
}

}  // namespace
}  // namespace verbena::host
