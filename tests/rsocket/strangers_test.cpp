// Datagrams of people whom nobody knows.
#include "strangers.h"

#include <sys/time.h>

#include <cerrno>

namespace verbena::rsocket_test {
namespace {

INSTANTIATE_TEST_SUITE_P(, Strangers, testing::Values(&kKernel, &kRsockets), name_of);

// What the socket gets over UDP is handled in order: who comes last has the others behind him.
TEST_P(Strangers, are_not_answered_where_a_socket_is_connected) {
    meet("127.0.0.1");
    Name name, peer_name;
    const int fd = bound(name), peer = bound(peer_name);
    ASSERT_EQ(outcome(api().connect(fd, peer_name.get(), peer_name.length)), outcome(0));
    say(kData, "foreign", name);
    ASSERT_EQ(outcome(api().sendto(peer, "peer", 4, 0, name.get(), name.length)), outcome(4));
    expect_data(fd, "peer", peer_name);
    char room[100];
    EXPECT_EQ(outcome(::recv(stranger_, room, sizeof room, MSG_DONTWAIT)), failed(EAGAIN));
}

// An answer that nobody has asked for: the kernel's sockets know none, so nothing differs there.
TEST_P(Strangers, do_not_say_where_the_programs_datagrams_go) {
    meet("127.0.0.1");
    Name name, other_name;
    const int fd = bound(name), other = bound(other_name);
    if (!kernel()) say(kControl, "", name);
    ASSERT_EQ(outcome(api().sendto(other, "other", 5, 0, name.get(), name.length)), outcome(5));
    expect_data(fd, "other", other_name);
    ASSERT_EQ(outcome(api().sendto(fd, "hello", 5, 0, stranger_name_.get(), stranger_name_.length)),
              outcome(5));
    timeval patience{10, 0};
    setsockopt(stranger_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    char room[100];
    const ssize_t size = ::recv(stranger_, room, sizeof room, 0);
    ASSERT_GE(size, 5) << std::strerror(errno);
    EXPECT_EQ(std::string(room + size - 5, 5), "hello");
}

}  // namespace
}  // namespace verbena::rsocket_test
