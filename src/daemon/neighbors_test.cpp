#include "daemon/neighbors.h"

#include <gtest/gtest.h>

#include <memory>

#include "daemon/fake_kernel.h"

namespace verbena::daemon::testing {
namespace {

class NeighborsTest : public ::testing::Test {
   protected:
    NeighborsTest() {
        kernel.links = {interface(1, "lo", 65536), interface(2, "eth0"), interface(3, "tun0")};
        kernel.links[2].resolves = false;
        kernel.locals = {address(1, "127.0.0.1"), address(2, "10.0.0.2"), address(3, "10.3.0.1")};
        kernel.routes[gid("10.0.0.9")] = {2, gid("10.0.0.2"), gid("10.0.0.9"), false, false};
        kernel.routes[gid("8.8.8.8")] = {2, gid("10.0.0.2"), gid("10.0.0.1"), false, false};
        kernel.routes[gid("10.3.0.2")] = {3, gid("10.3.0.1"), gid("10.3.0.2"), false, false};
        devices.update(kernel.links, kernel.locals, false);
    }
    int resolve(const char* destination) {
        cm::Route route;
        route.source_gid = gid("10.0.0.2");
        route.destination_gid = gid(destination);
        return neighbors.resolve(route, 7, 0);
    }

    FakeKernel kernel;
    std::unique_ptr<host::DeviceTable> table = std::make_unique<host::DeviceTable>();
    Devices devices{*table, 42, 8 << 20};
    std::vector<std::pair<std::uint64_t, int>> answers;
    std::vector<Gid> triggered;
    int trigger_error = 0;
    bool wanted = true;
    Neighbors neighbors{devices, kernel,
                        [this](std::uint64_t token, int error) { answers.emplace_back(token, error); },
                        [this](std::uint64_t) { return wanted; },
                        [this](const Gid& destination, std::uint32_t) {
                            triggered.push_back(destination);
                            return trigger_error;
                        }};
    using Answers = std::vector<std::pair<std::uint64_t, int>>;
};

TEST_F(NeighborsTest, NothingToAskFor) {
    for (const char* destination : {"127.0.0.1", "127.0.0.8", "10.0.0.2", "239.1.1.1", "10.3.0.2"}) {
        answers.clear();
        EXPECT_EQ(resolve(destination), 0);
        EXPECT_EQ(answers, (Answers{{7, 0}})) << destination;
    }
    EXPECT_TRUE(triggered.empty());
    EXPECT_EQ(neighbors.next_deadline(), kNever);
}

TEST_F(NeighborsTest, Known) {
    kernel.neighbors[gid("10.0.0.1")] = NeighborState::reachable;  // the gateway counts
    EXPECT_EQ(resolve("8.8.8.8"), 0);
    EXPECT_EQ(answers, (Answers{{7, 0}}));
}

TEST_F(NeighborsTest, Answers) {
    EXPECT_EQ(resolve("10.0.0.9"), 0);
    EXPECT_EQ(triggered.size(), 1u);
    EXPECT_TRUE(answers.empty());
    EXPECT_LT(neighbors.next_deadline(), kNever);
    kernel.neighbors[gid("10.0.0.9")] = NeighborState::resolving;
    neighbors.check(kSecond);
    EXPECT_TRUE(answers.empty());
    kernel.neighbors[gid("10.0.0.9")] = NeighborState::reachable;
    neighbors.check(kSecond);
    EXPECT_EQ(answers, (Answers{{7, 0}}));
    EXPECT_EQ(neighbors.next_deadline(), kNever);
    neighbors.check(2 * kSecond);
    EXPECT_EQ(answers.size(), 1u);
}

TEST_F(NeighborsTest, IsAskedForAgainIfTheKernelForgets) {
    EXPECT_EQ(resolve("10.0.0.9"), 0);
    kernel.neighbors[gid("10.0.0.9")] = NeighborState::resolving;
    neighbors.check(kSecond);
    EXPECT_EQ(triggered.size(), 1u);
    kernel.neighbors[gid("10.0.0.9")] = NeighborState::unknown;
    neighbors.check(2 * kSecond);
    EXPECT_EQ(triggered, (std::vector<Gid>{gid("10.0.0.9"), gid("10.0.0.9")}));
    neighbors.check(2 * kSecond + kMillisecond);  // not at once
    EXPECT_EQ(triggered.size(), 2u);
    EXPECT_TRUE(answers.empty());
    kernel.neighbors[gid("10.0.0.9")] = NeighborState::reachable;
    neighbors.check(3 * kSecond);
    EXPECT_EQ(answers, (Answers{{7, 0}}));
}

TEST_F(NeighborsTest, CannotBeAskedAgain) {
    EXPECT_EQ(resolve("10.0.0.9"), 0);
    trigger_error = ENETUNREACH;
    neighbors.check(kSecond);
    EXPECT_EQ(answers, (Answers{{7, ENETUNREACH}}));
    EXPECT_EQ(neighbors.next_deadline(), kNever);
}

// The caller's timeout may be longer than the kernel's patience.
TEST_F(NeighborsTest, IsAskedForAgainIfTheKernelGivesUp) {
    EXPECT_EQ(resolve("10.0.0.9"), 0);
    kernel.neighbors[gid("10.0.0.9")] = NeighborState::failed;
    neighbors.check(kSecond);
    EXPECT_EQ(triggered.size(), 2u);
    neighbors.check(kSecond + kMillisecond);  // not at once
    EXPECT_EQ(triggered.size(), 2u);
    neighbors.check(3600 * kSecond);
    EXPECT_TRUE(answers.empty());
    kernel.neighbors[gid("10.0.0.9")] = NeighborState::reachable;
    neighbors.check(3601 * kSecond);
    EXPECT_EQ(answers, (Answers{{7, 0}}));
}

TEST_F(NeighborsTest, IsForgottenWhenNobodyWaits) {
    EXPECT_EQ(resolve("10.0.0.9"), 0);
    wanted = false;
    neighbors.check(kSecond);
    EXPECT_TRUE(answers.empty());
    EXPECT_EQ(neighbors.next_deadline(), kNever);
}

TEST_F(NeighborsTest, CannotBeAsked) {
    EXPECT_EQ(resolve("203.0.113.5"), ENETUNREACH);
    trigger_error = EPERM;
    EXPECT_EQ(resolve("10.0.0.9"), EPERM);
    EXPECT_TRUE(answers.empty());
}

}  // namespace
}  // namespace verbena::daemon::testing
