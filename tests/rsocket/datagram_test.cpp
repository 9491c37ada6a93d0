// Datagram sockets: what UDP does. Nothing is lost here, on one host with room.
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <thread>
#include <utility>

#include "api.h"
#include "base/ipv6_testing.h"

namespace verbena::rsocket_test {
namespace {

class Datagram : public Sockets {
   protected:
    int bound(Name& name, int family = AF_INET) {
        name = Name(family);
        const int fd = open(family, SOCK_DGRAM);
        EXPECT_EQ(outcome(api().bind(fd, name.get(), name.length)), outcome(0));
        EXPECT_EQ(outcome(api().getsockname(fd, name.get(), &name.length)), outcome(0));
        return fd;
    }
};

INSTANTIATE_TEST_SUITE_P(, Datagram, testing::Values(&kKernel, &kRsockets), name_of);

TEST_P(Datagram, questions_and_answers) {
    for (int family : {AF_INET, AF_INET6}) {
        if (family == AF_INET6 && !has_ipv6()) GTEST_SKIP() << kNoIpv6;
        Name server_name, client_name, from(family);
        const int server = bound(server_name, family), client = bound(client_name, family);
        char room[4096];
        for (int size : {1, 10, 100, 1000, 2000, 3000, 1, 500}) {
            const std::string data = pattern(static_cast<std::size_t>(size), static_cast<unsigned>(size));
            ASSERT_EQ(outcome(api().sendto(client, data.data(), data.size(), 0, server_name.get(),
                                           server_name.length)),
                      outcome(size));
            ASSERT_TRUE(readable(server));
            from.length = sizeof from.storage;
            ASSERT_EQ(outcome(api().recvfrom(server, room, sizeof room, 0, from.get(), &from.length)),
                      outcome(size));
            EXPECT_EQ(std::string(room, data.size()) == data, true);
            EXPECT_EQ(from.port(), client_name.port());
            ASSERT_EQ(outcome(api().sendto(server, room, data.size(), 0, from.get(), from.length)),
                      outcome(size));
            ASSERT_TRUE(readable(client));
            ASSERT_EQ(outcome(api().recv(client, room, sizeof room, 0)), outcome(size));
        }
    }
}

TEST_P(Datagram, each_is_read_whole_or_cut) {
    Name name;
    const int server = bound(name), client = open(AF_INET, SOCK_DGRAM);
    ASSERT_EQ(outcome(api().connect(client, name.get(), name.length)), outcome(0));
    char room[10]{};
    for (int round = 0; round < 3; round++) {  // over UDP first, then not
        ASSERT_EQ(api().send(client, "abcdefgh", 8, 0), 8);
        ASSERT_EQ(api().send(client, "next", 4, 0), 4);
        ASSERT_TRUE(readable(server));
        iovec piece{room, 3};
        msghdr message{};
        message.msg_iov = &piece;
        message.msg_iovlen = 1;
        EXPECT_EQ(outcome(api().recvmsg(server, &message, 0)), outcome(3));
        EXPECT_TRUE(message.msg_flags & MSG_TRUNC);
        ASSERT_TRUE(readable(server));
        EXPECT_EQ(outcome(api().recv(server, room, 10, MSG_ERRQUEUE)), failed(EAGAIN));
        EXPECT_EQ(outcome(api().recv(server, room, 10, MSG_PEEK)), outcome(4));
        EXPECT_EQ(outcome(api().recv(server, room, 10, 0)), outcome(4));
    }
    EXPECT_EQ(outcome(api().recv(server, room, 10, MSG_DONTWAIT)), failed(EAGAIN));
}

TEST_P(Datagram, a_socket_connected_by_a_flow_hears_its_peer) {
    if (!has_ipv6()) GTEST_SKIP() << kNoIpv6;
    Name one_name, two_name;
    const int one = bound(one_name, AF_INET6), two = bound(two_name, AF_INET6);
    static_cast<sockaddr_in6*>(static_cast<void*>(&two_name.storage))->sin6_flowinfo = htonl(9);
    ASSERT_EQ(outcome(api().connect(one, two_name.get(), two_name.length)), outcome(0));
    char room[10];
    for (int round = 0; round < 3; round++) {  // over UDP first, then not
        ASSERT_EQ(outcome(api().sendto(two, "hello", 5, 0, one_name.get(), one_name.length)), outcome(5));
        ASSERT_TRUE(readable(one));
        EXPECT_EQ(outcome(api().recv(one, room, sizeof room, 0)), outcome(5));
    }
}

TEST_P(Datagram, a_connected_socket_hears_its_peer_alone) {
    Name one_name, two_name, three_name;
    const int one = bound(one_name), two = bound(two_name), three = bound(three_name);
    ASSERT_EQ(api().connect(one, two_name.get(), two_name.length), 0);
    char room[10];
    for (int round = 0; round < 3; round++) {
        ASSERT_EQ(api().sendto(three, "foreign", 7, 0, one_name.get(), one_name.length), 7);
        ASSERT_EQ(api().sendto(two, "peer", 4, 0, one_name.get(), one_name.length), 4);
        ASSERT_TRUE(readable(one));
        EXPECT_EQ(outcome(api().recv(one, room, 10, 0)), outcome(4));
    }
    Name peer;
    EXPECT_EQ(api().getpeername(one, peer.get(), &peer.length), 0);
    EXPECT_EQ(peer.port(), two_name.port());
}

// Over UDP first, then over queue pairs: the address that a peer sees stays the one that was bound.
TEST_P(Datagram, the_source_is_what_was_bound) {
    Name server_name, client_name;
    const int server = bound(server_name);
    sockaddr_in second{};
    second.sin_family = AF_INET;
    second.sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1);
    std::memcpy(&client_name.storage, &second, sizeof second);
    const int client = open(AF_INET, SOCK_DGRAM);
    ASSERT_EQ(outcome(api().bind(client, client_name.get(), client_name.length)), outcome(0));
    ASSERT_EQ(outcome(api().getsockname(client, client_name.get(), &client_name.length)), outcome(0));
    ASSERT_EQ(outcome(api().connect(server, client_name.get(), client_name.length)), outcome(0));
    for (int round = 0; round < 3; round++) {
        ASSERT_EQ(outcome(api().sendto(client, "data", 4, 0, server_name.get(), server_name.length)),
                  outcome(4));
        Name from;
        char room[10];
        ASSERT_TRUE(readable(server));
        ASSERT_EQ(outcome(api().recvfrom(server, room, 10, 0, from.get(), &from.length)), outcome(4));
        EXPECT_EQ(std::memcmp(&from.storage, &client_name.storage, sizeof second), 0);
    }
}

// Not one that the kernel still checks for duplicates, or has found one of.
bool can_bind(Name& name) {
    const int fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    const bool can = bind(fd, name.get(), name.length) == 0;
    close(fd);
    return can;
}

// fe80::...%eth0: an address of this host, if there is one.
bool find_link_local(Name& name) {
    ifaddrs* list = nullptr;
    if (getifaddrs(&list) != 0) return false;
    bool found = false;
    for (const ifaddrs* entry = list; entry && !found; entry = entry->ifa_next) {
        if (!entry->ifa_addr || entry->ifa_addr->sa_family != AF_INET6) continue;
        std::memcpy(&name.storage, entry->ifa_addr, sizeof(sockaddr_in6));
        sockaddr_in6 in6;
        std::memcpy(&in6, &name.storage, sizeof in6);
        found = IN6_IS_ADDR_LINKLOCAL(&in6.sin6_addr) && entry->ifa_flags & IFF_RUNNING && can_bind(name);
    }
    freeifaddrs(list);
    return found;
}

TEST_P(Datagram, link_local_addresses_keep_their_interface) {
    Name server_name(AF_INET6), client_name(AF_INET6);
    if (!find_link_local(server_name)) GTEST_SKIP() << "no link-local address";
    client_name.storage = server_name.storage;
    const int server = open(AF_INET6, SOCK_DGRAM), client = open(AF_INET6, SOCK_DGRAM);
    for (auto [fd, name] : {std::pair{server, &server_name}, std::pair{client, &client_name}}) {
        ASSERT_EQ(outcome(api().bind(fd, name->get(), name->length)), outcome(0));
        ASSERT_EQ(outcome(api().getsockname(fd, name->get(), &name->length)), outcome(0));
    }
    for (int round = 0; round < 3; round++) {
        ASSERT_EQ(outcome(api().sendto(client, "data", 4, 0, server_name.get(), server_name.length)),
                  outcome(4));
        Name from(AF_INET6);
        char room[10];
        ASSERT_TRUE(readable(server));
        ASSERT_EQ(outcome(api().recvfrom(server, room, 10, 0, from.get(), &from.length)), outcome(4));
        EXPECT_EQ(std::memcmp(&from.storage, &client_name.storage, sizeof(sockaddr_in6)), 0);
        ASSERT_EQ(outcome(api().sendto(server, "back", 4, 0, from.get(), from.length)), outcome(4));
        ASSERT_TRUE(readable(client));
        EXPECT_EQ(outcome(api().recv(client, room, 10, 0)), outcome(4));
    }
}

TEST_P(Datagram, wrong_uses) {
    const int fd = open(AF_INET, SOCK_DGRAM);
    Name name;
    char byte = 0;
    EXPECT_EQ(outcome(api().send(fd, &byte, 1, 0)), failed(EDESTADDRREQ));
    EXPECT_EQ(outcome(api().listen(fd, 1)), failed(EOPNOTSUPP));
    EXPECT_EQ(outcome(api().accept(fd, nullptr, nullptr)), failed(EOPNOTSUPP));
    EXPECT_EQ(outcome(api().getpeername(fd, name.get(), &name.length)), failed(ENOTCONN));
    EXPECT_EQ(poll_one(fd, POLLIN | POLLOUT, 0), POLLOUT);
    EXPECT_EQ(outcome(api().shutdown(fd, SHUT_RD)), failed(ENOTCONN));
    std::string large(70'000, 'x');
    EXPECT_EQ(
        outcome(api().sendto(fd, large.data(), large.size(), 0, Name(AF_INET, 9).get(), sizeof(sockaddr_in))),
        failed(EMSGSIZE));
    EXPECT_EQ(option(fd, SOL_SOCKET, SO_TYPE), SOCK_DGRAM);
}

TEST_P(Datagram, blocking_reader_wakes) {
    Name name;
    const int server = bound(name), client = open(AF_INET, SOCK_DGRAM);
    for (int round = 0; round < 3; round++) {
        std::thread sender([&] {
            usleep(20'000);
            EXPECT_EQ(api().sendto(client, "wake", 4, 0, name.get(), name.length), 4);
        });
        char room[10];
        EXPECT_EQ(outcome(api().recv(server, room, 10, 0)), outcome(4));
        sender.join();
    }
}

}  // namespace
}  // namespace verbena::rsocket_test
