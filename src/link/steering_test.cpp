// The kernel really delivers by destination QPN: a group of sockets on an ephemeral port of loopback.
#include "link/steering.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <set>
#include <vector>

#include "base/ipv6_testing.h"
#include "link/socket_options.h"
#include "wire/byte_order.h"

namespace verbena::link {
namespace {

class SteeringTest : public ::testing::Test {
   protected:
    void open_group(unsigned size) {
        sockets_.push_back(open_group_socket(0, true));
        ASSERT_GE(sockets_[0], 0);
        port_ = bound_port(sockets_[0]);
        for (unsigned i = 1; i < size; i++) {
            sockets_.push_back(open_group_socket(port_, true));
            ASSERT_GE(sockets_[i], 0);
        }
        ASSERT_EQ(attach_steering(sockets_[0], size), 0);
        for (int family : {AF_INET, AF_INET6}) {
            int fd = socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
            ASSERT_TRUE(fd >= 0 || (family == AF_INET6 && !knows_ipv6()));
            senders_.push_back(fd);
        }
    }
    void TearDown() override {
        for (int fd : sockets_) close(fd);
        for (int fd : senders_) close(fd);
    }

    void send(bool ipv4, const std::vector<std::uint8_t>& bytes) {
        sockaddr_in6 six{};
        six.sin6_family = AF_INET6;
        six.sin6_port = htons(port_);
        six.sin6_addr = in6addr_loopback;
        sockaddr_in four{};
        four.sin_family = AF_INET;
        four.sin_port = htons(port_);
        four.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        const auto* address =
            ipv4 ? reinterpret_cast<const sockaddr*>(&four) : reinterpret_cast<sockaddr*>(&six);
        ASSERT_EQ(sendto(senders_[ipv4 ? 0 : 1], bytes.data(), bytes.size(), 0, address,
                         ipv4 ? sizeof four : sizeof six),
                  static_cast<ssize_t>(bytes.size()));
    }
    void send_to_qp(bool ipv4, std::uint32_t qpn) {
        std::vector<std::uint8_t> bth(16);
        wire::store_be24(bth.data() + 5, qpn);
        bth[4] = 0xff;  // reserved byte: not part of the number
        send(ipv4, bth);
    }
    // Datagrams in each socket, taken out.
    std::vector<unsigned> counts() {
        std::vector<unsigned> result;
        for (int fd : sockets_) result.push_back(drain(fd));
        return result;
    }

    std::uint16_t port_ = 0;
    std::vector<int> sockets_, senders_;
};

TEST_F(SteeringTest, TheBlockOfTheQueuePairNumberChoosesTheSocket) {
    open_group(4);
    for (bool ipv4 : {true, false}) {
        if (!ipv4 && !has_ipv6()) GTEST_SKIP() << kNoIpv6;
        for (unsigned i = 0; i < 8; i++) {
            send_to_qp(ipv4, 1 << kBlockBits | i * 500);
            send_to_qp(ipv4, (3 << kBlockBits) + kBlockSize - 1);
        }
        EXPECT_EQ(counts(), (std::vector<unsigned>{0, 8, 0, 8}));
    }
}

TEST_F(SteeringTest, NumbersBeyondTheGroupAndRuntsGoToTheFirst) {
    open_group(3);
    send_to_qp(true, 1);                // QP1
    send_to_qp(true, 3 << kBlockBits);  // the first that nobody has
    send_to_qp(!has_ipv6(), 0xffffff);
    send(true, {});
    send(true, {1, 2, 3, 4, 5, 6, 7});
    EXPECT_EQ(counts(), (std::vector<unsigned>{5, 0, 0}));
}

TEST_F(SteeringTest, AGrownGroupNeedsTheProgramAgain) {
    open_group(2);
    sockets_.push_back(open_group_socket(port_, true));
    send_to_qp(true, 2 << kBlockBits);
    EXPECT_EQ(counts(), (std::vector<unsigned>{1, 0, 0}));
    ASSERT_EQ(attach_steering(sockets_[0], 3), 0);
    send_to_qp(true, 2 << kBlockBits);
    EXPECT_EQ(counts(), (std::vector<unsigned>{0, 0, 1}));
}

TEST_F(SteeringTest, ALockedSocketCannotChangeTheProgram) {
    open_group(2);
    ASSERT_EQ(lock_filter(sockets_[1]), 0);
    EXPECT_EQ(attach_steering(sockets_[1], 1), EPERM);
    EXPECT_EQ(attach_steering(sockets_[0], 2), 0);
}

TEST_F(SteeringTest, AParkedSocketDropsAndComesBackEmpty) {
    open_group(2);
    ASSERT_EQ(lock_filter(sockets_[1]), 0);
    const std::size_t room = receive_buffer(sockets_[1]);
    send_to_qp(true, 1 << kBlockBits);
    ASSERT_EQ(park(sockets_[1]), 0);
    for (unsigned i = 0; i < 500; i++) send_to_qp(true, 1 << kBlockBits);
    EXPECT_LE(drain(sockets_[1]), 8u);
    for (unsigned i = 0; i < 500; i++) send_to_qp(true, 1 << kBlockBits);
    ASSERT_EQ(unpark(sockets_[1]), 0);
    EXPECT_EQ(receive_buffer(sockets_[1]), room);  // root: beyond net.core.rmem_max
    for (unsigned i = 0; i < 100; i++) send_to_qp(true, 1 << kBlockBits | i);
    EXPECT_EQ(counts(), (std::vector<unsigned>{0, 100}));
}

// Chosen among the ports that no group of this user has: else one would get the other's packets.
TEST_F(SteeringTest, ANewGroupIsAlone) {
    constexpr unsigned kGroups = 600;  // six pairs would meet by chance
    std::set<std::uint16_t> ports;
    for (unsigned i = 0; i < kGroups; i++) {
        sockets_.push_back(open_group_socket(0, true));
        ASSERT_GE(sockets_.back(), 0);
        EXPECT_TRUE(ports.insert(bound_port(sockets_.back())).second) << "group " << i;
    }
}

// The duplicate keeps the index: what a process closes does not move its neighbours.
TEST_F(SteeringTest, ADuplicateKeepsTheGroupInPlace) {
    open_group(3);
    int duplicate = dup(sockets_[1]);
    close(sockets_[1]);
    sockets_[1] = duplicate;
    send_to_qp(true, 1 << kBlockBits);
    send_to_qp(true, 2 << kBlockBits);
    EXPECT_EQ(counts(), (std::vector<unsigned>{0, 1, 1}));
}

}  // namespace
}  // namespace verbena::link
