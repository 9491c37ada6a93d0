// Addresses at which nobody is: neither who sends to one nor who gets a datagram in its name waits for it. In
// a network of its own, which needs root.
#include <fcntl.h>
#include <sched.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <thread>

#include "strangers.h"

namespace verbena::rsocket_test {
namespace {

constexpr const char* kHere = "10.79.1.1";
constexpr const char* kNobody = "10.79.1.9";

bool make_network() {
    unsetenv("VERBENA_FABRIC");  // a named one ends at this host
    // Which addresses somebody may send from: kernels are set up differently.
    for (const char* which : {"all", "default"})
        std::ofstream(std::string("/proc/sys/net/ipv4/conf/") + which + "/rp_filter") << 0;
    if (std::system("ip link set lo up && ip link add vr0 type veth peer name vr1 &&"
                    " ip addr add 10.79.1.1/24 dev vr0 && ip link set vr0 up && ip link set vr1 up") != 0)
        return false;
    // So many seconds it is asked where somebody is. What was sent there keeps its room as long, and the
    // network lives as long behind the test.
    return static_cast<bool>(std::ofstream("/proc/sys/net/ipv4/neigh/vr0/mcast_solicit") << 20 << std::flush);
}

class Unreachable : public Strangers {
   protected:
    void SetUp() override {
        // One for all tests: the process has one daemon.
        static const int refused = unshare(CLONE_NEWNET) == 0 ? 0 : errno;
        if (refused == EPERM) GTEST_SKIP() << "needs root";
        ASSERT_EQ(refused, 0) << std::strerror(refused);
        static const bool made = make_network();
        ASSERT_TRUE(made) << "by iproute2";
        Strangers::SetUp();
        const int on = 1;
        ASSERT_EQ(outcome(setsockopt(stranger_, IPPROTO_IP, IP_TRANSPARENT, &on, sizeof on)), outcome(0));
    }
    // Sends to many who are not there, until that fails. The kernel keeps what it has asked the way for, and
    // has no room for more.
    Outcome fill(int fd) {
        const std::string data(1000, 'x');
        Outcome last = outcome(0);
        for (int i = 0; i < 4000 && last.result != -1; i++) {
            Name nobody = at_address(("10.79.1." + std::to_string(10 + i % 20)).c_str(), 7);
            last = outcome(api().sendto(fd, data.data(), data.size(), 0, nobody.get(), nobody.length));
        }
        return last;
    }
};

INSTANTIATE_TEST_SUITE_P(, Unreachable, testing::Values(&kKernel, &kRsockets), name_of);

TEST_P(Unreachable, a_datagram_in_its_name_is_delivered_and_answered) {
    meet(kNobody);
    Name name = at_address(kHere);
    const int fd = bound(name);
    for (int round = 0; round < 2; round++) {
        say(kData, "hello", name);
        expect_data(fd, "hello", stranger_name_);
        EXPECT_EQ(outcome(api().sendto(fd, "back", 4, 0, stranger_name_.get(), stranger_name_.length)),
                  outcome(4));
    }
}

TEST_P(Unreachable, a_socket_connects_to_it_and_sends) {
    Name nobody = at_address(kNobody, 7);
    for (Name name : {at_address(kHere), at_address("0.0.0.0")}) {
        const int fd = bound(name);
        EXPECT_EQ(outcome(api().connect(fd, nobody.get(), nobody.length)), outcome(0));
        EXPECT_EQ(outcome(api().send(fd, "hello", 5, 0)), outcome(5));
    }
}

TEST_P(Unreachable, a_nonblocking_socket_does_not_wait_for_room) {
    Name name = at_address(kHere);
    const int fd = bound(name);
    nonblocking(fd);
    EXPECT_EQ(fill(fd), failed(EAGAIN));
}

TEST_P(Unreachable, a_socket_waits_for_room_as_long_as_its_timeout) {
    Name name = at_address(kHere);
    const int fd = bound(name);
    const timeval shortly{0, 50'000};
    ASSERT_EQ(outcome(api().setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &shortly, sizeof shortly)), outcome(0));
    EXPECT_EQ(fill(fd), failed(EAGAIN));
}

TEST_P(Unreachable, who_waits_for_room_is_woken_by_a_close) {
    if (kernel()) return;  // which lets him wait
    Name name = at_address(kHere);
    const int fd = bound(name);
    nonblocking(fd);
    ASSERT_EQ(fill(fd), failed(EAGAIN));
    ASSERT_EQ(outcome(api().fcntl(fd, F_SETFL, 0)), outcome(0));
    std::thread sender([&] {
        Name nobody = at_address(kNobody, 7);
        EXPECT_EQ(outcome(api().sendto(fd, "x", 1, 0, nobody.get(), nobody.length)), failed(EBADF));
    });
    usleep(100'000);
    EXPECT_EQ(outcome(close(fd)), outcome(0));
    sender.join();
}

}  // namespace
}  // namespace verbena::rsocket_test
