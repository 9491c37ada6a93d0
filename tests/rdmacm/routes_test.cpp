// ROUTE_RESOLVED, which the library writes into the channel itself from a channel's second route on, and the
// daemon before: programs see no difference.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <rdma/rdma_cma.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstring>
#include <thread>
#include <vector>

#include "fabric.h"

namespace verbena::rdmacm_test {
namespace {

constexpr unsigned kRoutes = 5;  // on one channel: of both kinds
constexpr std::uint16_t kPort = 7471;
constexpr auto kUserEvent = static_cast<rdma_cm_event_type>(18);  // of releases after v44

rdma_cm_id* with_address(Side& side) {
    rdma_cm_id* id = side.id();
    EXPECT_EQ(outcome(rdma_resolve_addr(id, nullptr, Address("127.0.0.1", kPort).get(), kResolveMs)), 0);
    EXPECT_EQ(side.expect(RDMA_CM_EVENT_ADDR_RESOLVED).id, id);
    return id;
}

// What makes the next route one that the library resolves.
void resolve_some(Side& side) {
    for (unsigned n = 0; n < kRoutes; n++) side.resolved("127.0.0.1", kPort);
}

TEST(Route, OneIsLikeTheOther) {
    Side side;
    std::vector<ibv_sa_path_rec> paths;
    for (unsigned n = 0; n < kRoutes; n++) {
        rdma_cm_id* id = with_address(side);
        EXPECT_EQ(id->route.num_paths, 0);
        EXPECT_TRUE(side.quiet()) << "before it was asked for";
        ASSERT_EQ(outcome(rdma_resolve_route(id, kResolveMs)), 0);
        EXPECT_EQ(side.expect(RDMA_CM_EVENT_ROUTE_RESOLVED).id, id);
        EXPECT_TRUE(side.quiet());
        ASSERT_EQ(id->route.num_paths, 1);
        ibv_sa_path_rec path = *id->route.path_rec;
        EXPECT_NE(path.flow_label, 0u);
        path.flow_label = 0;  // of the ports
        paths.push_back(path);
        EXPECT_EQ(std::memcmp(&paths.front(), &paths.back(), sizeof path), 0) << n;
        EXPECT_EQ(outcome(rdma_resolve_route(id, kResolveMs)), EINVAL) << "once is enough";
        EXPECT_TRUE(side.quiet());
    }
}

unsigned descriptors() {
    unsigned open = 0;
    for (int fd = 0; fd < 2048; fd++) open += fcntl(fd, F_GETFD) >= 0;
    return open;
}

// The daemon's end, borrowed for the second route.
TEST(Route, TakesOneDescriptorForAChannel) {
    { const Side first; }
    const unsigned before = descriptors();
    {
        Side side;
        side.resolved("127.0.0.1", kPort);
        const unsigned with_channel = descriptors();
        resolve_some(side);
        EXPECT_EQ(descriptors(), with_channel + 1);
    }
    EXPECT_EQ(descriptors(), before);
}

TEST(Route, NeedsNoDescriptorIfThereIsNone) {
    Side side;
    side.resolved("127.0.0.1", kPort);
    rdma_cm_id* id = with_address(side);
    rlimit limit{};
    ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
    const rlimit few{256, limit.rlim_max};
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
    std::vector<int> all;
    for (int fd; (fd = dup(side.channel->fd)) >= 0;) all.push_back(fd);
    EXPECT_EQ(outcome(rdma_resolve_route(id, kResolveMs)), 0);
    for (const int fd : all) close(fd);
    EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
    EXPECT_EQ(side.expect(RDMA_CM_EVENT_ROUTE_RESOLVED).id, id);
    resolve_some(side);  // and goes on without
}

TEST(Route, AnOptionReachesThePath) {
    Side side;
    resolve_some(side);
    rdma_cm_id* id = with_address(side);
    std::uint8_t tos = 0x40;
    ASSERT_EQ(outcome(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &tos, sizeof tos)), 0);
    ASSERT_EQ(outcome(rdma_resolve_route(id, kResolveMs)), 0);
    side.expect(RDMA_CM_EVENT_ROUTE_RESOLVED);
    EXPECT_EQ(id->route.path_rec->traffic_class, tos);
}

TEST(Route, AnIdThatGoesTakesItAlong) {
    Side side;
    resolve_some(side);
    rdma_cm_id *gone = with_address(side), *stays = with_address(side);
    ASSERT_EQ(outcome(rdma_resolve_route(gone, kResolveMs)), 0);
    ASSERT_EQ(outcome(rdma_resolve_route(stays, kResolveMs)), 0);
    EXPECT_EQ(outcome(side.destroy(gone)), 0);
    EXPECT_EQ(side.expect(RDMA_CM_EVENT_ROUTE_RESOLVED).id, stays);
    EXPECT_TRUE(side.quiet());
}

TEST(Route, AnIdThatMovesTakesItAlong) {
    Side side, other;
    resolve_some(side);
    rdma_cm_id* id = with_address(side);
    ASSERT_EQ(outcome(rdma_resolve_route(id, kResolveMs)), 0);
    ASSERT_EQ(outcome(rdma_migrate_id(id, other.channel)), 0);
    EXPECT_TRUE(side.quiet());
    EXPECT_EQ(other.expect(RDMA_CM_EVENT_ROUTE_RESOLVED).id, id);
}

TEST(Route, AChannelThatIsFullKeepsTheOrder) {
    constexpr std::uint64_t kEvents = 1000;  // more than the socket holds
    Side side;
    resolve_some(side);
    rdma_cm_id *before = with_address(side), *id = with_address(side);
    for (std::uint64_t n = 0; n < kEvents; n++)
        ASSERT_EQ(outcome(rdma_write_cm_event(before, kUserEvent, 0, n)), 0);
    ASSERT_EQ(outcome(rdma_resolve_route(id, kResolveMs)), 0);
    for (std::uint64_t n = 0; n < kEvents; n++) ASSERT_EQ(side.next().id, before);
    EXPECT_EQ(side.expect(RDMA_CM_EVENT_ROUTE_RESOLVED).id, id);
    EXPECT_TRUE(side.quiet());
}

// One thread resolves, another one reads and connects at once.
TEST(Route, WhoReadsItMayConnectAtOnce) {
    Side server, client;
    std::uint16_t port = 0;
    server.listener("127.0.0.1", port);
    resolve_some(client);
    constexpr unsigned kTimes = 50;
    for (unsigned n = 0; n < kTimes; n++) {
        rdma_cm_id* id = client.id();
        ASSERT_EQ(outcome(rdma_resolve_addr(id, nullptr, Address("127.0.0.1", port).get(), kResolveMs)), 0);
        client.expect(RDMA_CM_EVENT_ADDR_RESOLVED);
        std::thread reader([&] {
            client.expect(RDMA_CM_EVENT_ROUTE_RESOLVED);
            auto parameters = parameters_for(unused_qp_number());
            EXPECT_EQ(outcome(rdma_connect(id, &parameters)), 0);
        });
        EXPECT_EQ(outcome(rdma_resolve_route(id, kResolveMs)), 0);
        reader.join();
        server.destroy(server.expect(RDMA_CM_EVENT_CONNECT_REQUEST).id);
        client.expect(RDMA_CM_EVENT_REJECTED, 28);
        client.destroy(id);
    }
}

}  // namespace
}  // namespace verbena::rdmacm_test
