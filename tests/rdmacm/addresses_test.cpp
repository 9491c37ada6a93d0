// ADDR_RESOLVED of an address of this host, which the daemon writes at first, and the library itself, with a
// port that the daemon has lent, once it knows what that says: programs see no difference.
#include <gtest/gtest.h>
#include <rdma/rdma_cma.h>

#include <cerrno>
#include <cstring>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "base/ipv6_testing.h"
#include "fabric.h"

namespace verbena::rdmacm_test {
namespace {

constexpr unsigned kSome = 20;  // of both kinds, also where all that is lent has been taken
constexpr std::uint16_t kPort = 7471;
constexpr int kTimewaitMs = 2'500;  // and a moment

void resolve(rdma_cm_id* id, const char* host) {
    ASSERT_EQ(outcome(rdma_resolve_addr(id, nullptr, Address(host, kPort).get(), kResolveMs)), 0);
}

rdma_cm_id* resolved(Side& side, const char* host) {
    rdma_cm_id* id = side.id();
    resolve(id, host);
    EXPECT_EQ(side.expect(RDMA_CM_EVENT_ADDR_RESOLVED).id, id);
    return id;
}

// From here on a channel is one that the library can write to, and the process one that borrows ports.
void resolve_some(Side& side) {
    for (unsigned n = 0; n < 3; n++) side.resolved("127.0.0.1", kPort);
    for (unsigned n = 0; n < 3; n++) resolved(side, "127.0.0.1");
}

TEST(Addresses, OneIsLikeTheOther) {
    std::vector<const char*> hosts{"127.0.0.1", "127.0.0.9"};
    if (has_ipv6()) hosts.push_back("::1");
    const std::string own = outside_address();
    if (!own.empty()) hosts.push_back(own.c_str());
    for (const char* host : hosts) {
        Side side;
        resolve_some(side);
        std::set<std::uint16_t> ports;
        rdma_addr first{};
        rdma_cm_id* connecting = nullptr;
        for (unsigned n = 0; n < kSome; n++) {
            if (n % 2 == 1) {
                connecting = side.resolved(host, kPort);
                continue;
            }
            rdma_cm_id* id = resolved(side, host);
            EXPECT_TRUE(ports.insert(source_port(id)).second) << "a port of its own";
            ASSERT_TRUE(id->verbs);
            EXPECT_EQ(id->port_num, 1);
            EXPECT_EQ(id->route.num_paths, 0);
            rdma_addr address = id->route.addr;
            EXPECT_EQ(ntohs(rdma_get_dst_port(id)), kPort);
            std::memset(address.src_addr.sa_data, 0, 2);
            if (n == 0) first = address;
            EXPECT_EQ(std::memcmp(&address, &first, sizeof address), 0) << host << ", " << n;
            EXPECT_EQ(outcome(rdma_resolve_addr(id, nullptr, Address(host, kPort).get(), kResolveMs)), EINVAL)
                << "once is enough";
            EXPECT_TRUE(side.quiet());
        }
        auto parameters = parameters_for(unused_qp_number());
        EXPECT_EQ(outcome(rdma_connect(connecting, &parameters)), 0);
        side.expect(RDMA_CM_EVENT_REJECTED, 8);  // nobody listens
    }
}

TEST(Addresses, ItsPortIsNobodyElses) {
    Side side;
    resolve_some(side);
    for (unsigned n = 0; n < kSome; n++) {
        rdma_cm_id *id = resolved(side, "127.0.0.1"), *other = side.id();
        const std::uint16_t port = source_port(id);
        EXPECT_EQ(outcome(rdma_bind_addr(other, Address("127.0.0.1", port).get())), EADDRNOTAVAIL);
        EXPECT_EQ(outcome(side.destroy(id)), 0);
        EXPECT_EQ(outcome(rdma_bind_addr(other, Address("127.0.0.1", port).get())), 0);
    }
}

TEST(Addresses, AnOptionBeforeItReachesThePath) {
    Side side;
    resolve_some(side);
    rdma_cm_id* id = side.id();
    std::uint8_t tos = 0x40;
    ASSERT_EQ(outcome(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &tos, sizeof tos)), 0);
    resolve(id, "127.0.0.1");
    side.expect(RDMA_CM_EVENT_ADDR_RESOLVED);
    ASSERT_EQ(outcome(rdma_resolve_route(id, kResolveMs)), 0);
    side.expect(RDMA_CM_EVENT_ROUTE_RESOLVED);
    EXPECT_EQ(id->route.path_rec->traffic_class, tos);
}

TEST(Addresses, AnIdThatGoesTakesItAlong) {
    Side side;
    resolve_some(side);
    rdma_cm_id *gone = side.id(), *stays = side.id();
    resolve(gone, "127.0.0.1");
    resolve(stays, "127.0.0.1");
    EXPECT_EQ(outcome(side.destroy(gone)), 0);
    EXPECT_EQ(side.expect(RDMA_CM_EVENT_ADDR_RESOLVED).id, stays);
    EXPECT_TRUE(side.quiet());
}

TEST(Addresses, AnIdThatMovesTakesItAlong) {
    Side side, other;
    resolve_some(side);
    rdma_cm_id* id = side.id();
    resolve(id, "127.0.0.1");
    ASSERT_EQ(outcome(rdma_migrate_id(id, other.channel)), 0);
    EXPECT_TRUE(side.quiet());
    EXPECT_EQ(other.expect(RDMA_CM_EVENT_ADDR_RESOLVED).id, id);
}

// One connection after the other, many times: what they leave behind is in nobody's way.
TEST(Addresses, OneConnectionAfterTheOther) {
    Side server, client;
    std::uint16_t port = 0;
    server.listener("127.0.0.1", port);
    constexpr unsigned kTimes = 700;  // more than a page has room for
    std::vector<std::pair<Side*, rdma_cm_id*>> kept;
    for (unsigned n = 0; n < kTimes; n++) {
        rdma_cm_id* active = client.resolved("127.0.0.1", port);
        auto parameters = parameters_for(unused_qp_number());
        ASSERT_EQ(outcome(rdma_connect(active, &parameters)), 0);
        rdma_cm_id* passive = server.expect(RDMA_CM_EVENT_CONNECT_REQUEST).id;
        parameters = parameters_for(unused_qp_number());
        ASSERT_EQ(outcome(rdma_accept(passive, &parameters)), 0);
        client.expect(RDMA_CM_EVENT_CONNECT_RESPONSE);
        ASSERT_EQ(outcome(rdma_establish(active)), 0);
        server.expect(RDMA_CM_EVENT_ESTABLISHED);
        ASSERT_EQ(outcome(rdma_disconnect(active)), 0);
        server.expect(RDMA_CM_EVENT_DISCONNECTED);
        ASSERT_EQ(outcome(rdma_disconnect(passive)), 0);
        client.expect(RDMA_CM_EVENT_DISCONNECTED);
        const std::uint16_t own_port = source_port(active);
        if (n + 20 >= kTimes) {  // so few that the daemon hears of nothing else
            kept.insert(kept.end(), {{&client, active}, {&server, passive}});
            continue;
        }
        EXPECT_EQ(client.destroy(active), 0);
        EXPECT_EQ(server.destroy(passive), 0);
        if (n % 50 != 0) continue;
        rdma_cm_id* after = client.id();
        EXPECT_EQ(outcome(rdma_bind_addr(after, Address("127.0.0.1", own_port).get())), 0);
        client.destroy(after);
    }
    for (const auto& [side, id] : kept) EXPECT_EQ(side->destroy(id), 0);
    EXPECT_TRUE(server.quiet(kTimewaitMs)) << "nobody who is there is told of a timewait";
    EXPECT_TRUE(client.quiet());
}

// One thread resolves, another one reads and goes on at once.
TEST(Addresses, WhoReadsItMayGoOnAtOnce) {
    Side side;
    resolve_some(side);
    constexpr unsigned kTimes = 50;
    for (unsigned n = 0; n < kTimes; n++) {
        rdma_cm_id* id = side.id();
        std::thread reader([&] {
            EXPECT_EQ(side.expect(RDMA_CM_EVENT_ADDR_RESOLVED).id, id);
            EXPECT_EQ(outcome(rdma_resolve_route(id, kResolveMs)), 0);
            side.expect(RDMA_CM_EVENT_ROUTE_RESOLVED);
            auto parameters = parameters_for(unused_qp_number());
            EXPECT_EQ(outcome(rdma_connect(id, &parameters)), 0);
        });
        resolve(id, "127.0.0.1");
        reader.join();
        side.expect(RDMA_CM_EVENT_REJECTED, 8);
        side.destroy(id);
    }
}

}  // namespace
}  // namespace verbena::rdmacm_test
