// Resolving addresses and routes: what is found, what is not, and how long it takes.

#include <set>

#include "cm/testing.h"

namespace verbena::cm::testing {
namespace {

class Resolve : public Pair {};

TEST_F(Resolve, ResolvingBindsAndFindsTheSource) {
    IdNumber id = routed(client, ipv4(0x0a000102, 7000));  // the server's second network
    IdInfo info = query(client, id);
    EXPECT_EQ(info.state, IdState::route_resolved);
    EXPECT_EQ(info.local.address, client.second_address().address);
    EXPECT_NE(info.local.port, 0);
    EXPECT_EQ(info.route.device, 1u);
    EXPECT_EQ(info.route.destination_gid, ipv4(0x0a000102).address);
    EXPECT_EQ(info.path_count, 1u);
    EXPECT_EQ(info.route.packet_life_time, 18);

    id = create(client);
    Endpoint source = client.address(4321);
    ASSERT_EQ(client->resolve_address(id, &source, server.address(7000), kSecond, net.now), 0);
    EXPECT_EQ(query(client, id).local.port, 4321);
}

// So that a program's library can resolve the route itself.
TEST_F(Resolve, AResolvedAddressTellsTheRoute) {
    for (const bool told : {false, true}) {
        const IdNumber id = create(client);
        ASSERT_EQ(client->resolve_address(id, nullptr, server.address(7000), kSecond, net.now), 0);
        const Event address = client.take();
        EXPECT_EQ(address.info.path_count, 0u);
        ASSERT_EQ(client->resolve_route(id, kSecond, net.now, told), 0);
        EXPECT_EQ(client.quiet(), told);
        if (!told) {
            const Event route = client.take();
            EXPECT_EQ(std::memcmp(&address.info.route, &route.info.route, sizeof route.info.route), 0);
            EXPECT_EQ(std::memcmp(&address.transitions, &route.transitions, sizeof route.transitions), 0);
        }
        const IdInfo info = query(client, id);
        EXPECT_EQ(info.state, IdState::route_resolved);
        EXPECT_EQ(info.path_count, 1u);
        EXPECT_EQ(destroy(client, id), 2u) << "events, the program's own among them";
    }
}

// The program has written its event, and reads it, whatever became of the device meanwhile.
TEST_F(Resolve, ARouteThatWasToldCountsWithoutItsDevice) {
    const IdNumber id = create(client);
    ASSERT_EQ(client->resolve_address(id, nullptr, server.address(7000), kSecond, net.now), 0);
    client->device_removed(0, net.now);
    EXPECT_EQ(client->resolve_route(id, kSecond, net.now, true), EIO);
    EXPECT_EQ(destroy(client, id), 3u);
}

// Its program knows what an address of the host resolves to, and needs a port that is its own by then.
TEST_F(Resolve, AnAddressThatWasToldCountsAndIsNotToldAgain) {
    const IdNumber asked = create(client);
    ASSERT_EQ(client->resolve_address(asked, nullptr, client.address(7000), kSecond, net.now), 0);
    const Event before = client.take();

    const IdNumber holder = client->reserve_ids(1);
    std::uint16_t port = 0;
    ASSERT_EQ(client->lend_port(holder, port), 0);
    client->end_loan(holder, port);
    Endpoint source;
    source.family = AF_INET;
    source.port = port;
    const IdNumber id = create(client);
    ASSERT_EQ(client->resolve_address(id, &source, client.address(7000), kSecond, net.now, true, true), 0);
    ASSERT_EQ(client->resolve_route(id, kSecond, net.now, true), 0);
    EXPECT_TRUE(client.quiet());
    const IdInfo info = query(client, id);
    EXPECT_EQ(info.state, IdState::route_resolved);
    EXPECT_EQ(info.local.port, port);
    EXPECT_EQ(info.local.address, before.info.local.address);
    EXPECT_EQ(info.route.destination_gid, before.info.route.destination_gid);
    EXPECT_EQ(destroy(client, id), 2u) << "events, the program's own";

    const IdNumber late = create(client);
    client.route_error = ENETUNREACH;
    EXPECT_EQ(client->resolve_address(late, &source, client.address(7000), kSecond, net.now, true, true),
              ENETUNREACH);
    EXPECT_EQ(destroy(client, late), 1u) << "the program has told itself all the same";
}

TEST_F(Resolve, ALentPortIsNobodyElses) {
    client.ports = {40000, 40031};
    const IdNumber first_holder = client->reserve_ids(8);
    std::uint16_t port = 0;
    ASSERT_EQ(client->lend_port(first_holder, port), 0);
    std::set<std::uint16_t> lent{port};
    std::uint16_t another;
    for (IdNumber i = 1; client->lend_port(first_holder + i, another) == 0; i++)
        EXPECT_TRUE(lent.insert(another).second);
    EXPECT_EQ(lent.size(), 3u) << "an eighth of them, for the others want some, too";
    for (unsigned i = 0; i < 32 - lent.size(); i++) {
        const IdNumber id = create(client);
        ASSERT_EQ(client->bind(id, ipv4(0, 0), false), 0);
        EXPECT_FALSE(lent.contains(query(client, id).local.port));
    }
    const IdNumber id = create(client);
    EXPECT_EQ(client->bind(id, ipv4(0, 0), false), EADDRNOTAVAIL);
    EXPECT_EQ(client->bind(id, client.address(port), false), EADDRNOTAVAIL);
    client->end_loan(first_holder, port);
    EXPECT_EQ(client->bind(id, client.address(port), false), 0);
}

TEST_F(Resolve, LoopbackAndZeroGoToTheHostItself) {
    struct Case {
        Endpoint remote, seen;
    };
    for (const Case& c : {Case{loopback4(7000), loopback4()}, Case{any4(7000), loopback4()},
                          Case{loopback6(7000), loopback6()}, Case{any6(7000), loopback6()}}) {
        IdNumber id = routed(client, c.remote);
        IdInfo info = query(client, id);
        EXPECT_EQ(info.local.address, c.seen.address);
        EXPECT_EQ(info.remote.address, c.seen.address);
        EXPECT_EQ(info.route.device, 2u);
    }
}

TEST_F(Resolve, FailuresAreEventsAndCanBeRepeated) {
    IdNumber id = create(client);
    client.neighbor_error = EHOSTUNREACH;
    ASSERT_EQ(client->resolve_address(id, nullptr, server.address(1), kSecond, net.now), 0);
    Event event = client.take();
    EXPECT_EQ(event.type, EventType::addr_error);
    EXPECT_EQ(event.status, -EHOSTUNREACH);

    client.neighbor_error = 0;
    ASSERT_EQ(client->resolve_address(id, nullptr, server.address(1), kSecond, net.now), 0);
    EXPECT_EQ(client.take().type, EventType::addr_resolved);
}

// As in Linux: what the routing table says is the call's answer, that no device is there an event.
TEST_F(Resolve, AMissingRouteIsAnErrorAndNoEvent) {
    IdNumber id = create(client);
    EXPECT_EQ(client->resolve_address(id, nullptr, ipv4(0x0a090001, 1), kSecond, net.now), ENETUNREACH);
    EXPECT_TRUE(client.quiet());
    EXPECT_EQ(client->next_deadline(), kNever);
    IdInfo info = query(client, id);
    EXPECT_EQ(info.state, IdState::address_bound);
    EXPECT_TRUE(info.local.is_any());
    EXPECT_EQ(info.route.device, kNoDevice);
    ASSERT_EQ(client->resolve_address(id, nullptr, server.address(1), kSecond, net.now), 0);
    EXPECT_EQ(client.take().type, EventType::addr_resolved);

    client.route_error = ENODEV;
    id = create(client);
    ASSERT_EQ(client->resolve_address(id, nullptr, server.address(1), kSecond, net.now), 0);
    Event event = client.take();
    EXPECT_EQ(event.type, EventType::addr_error);
    EXPECT_EQ(event.status, -ENODEV);
}

// The source of the failed way may not suit the next one.
TEST_F(Resolve, AFailedQueryLeavesTheIdBoundAsItWas) {
    for (const bool in_time : {true, false}) {
        client.neighbor_error = in_time ? EHOSTUNREACH : 0;
        client.neighbor_later = !in_time;
        const IdNumber id = create(client);
        ASSERT_EQ(client->resolve_address(id, nullptr, server.address(1), kSecond, net.now), 0);
        net.run(kSecond);
        EXPECT_EQ(client.take().type, EventType::addr_error);
        const IdInfo info = query(client, id);
        EXPECT_TRUE(info.local.is_any());
        EXPECT_EQ(info.route.device, kNoDevice);
        // In the table of ports, too.
        const IdNumber other = create(client);
        EXPECT_EQ(client->bind(other, client.second_address(info.local.port), false), EADDRNOTAVAIL);
        client.neighbor_error = 0;
        client.neighbor_later = false;
        ASSERT_EQ(client->resolve_address(id, nullptr, ipv4(0x0a000102, 1), kSecond, net.now), 0);
        EXPECT_EQ(client.take().type, EventType::addr_resolved);
        EXPECT_EQ(query(client, id).local.address, client.second_address().address);
    }
}

TEST_F(Resolve, ANegativeTimeoutIsNone) {
    const IdNumber id = create(client);
    client.neighbor_later = true;
    ASSERT_EQ(client->resolve_address(id, nullptr, server.address(1), -kMillisecond, net.now), 0);
    EXPECT_EQ(client->next_deadline(), kNever);
    EXPECT_TRUE(client->awaits_neighbor(client.last_token));
    client->neighbor_resolved(client.last_token, 0, net.now);
    EXPECT_EQ(client.take().type, EventType::addr_resolved);
    EXPECT_FALSE(client->awaits_neighbor(client.last_token));
}

TEST_F(Resolve, ASourceBelow1024NeedsThePrivilege) {
    const IdNumber id = create(client);
    const Endpoint source = client.address(80);
    EXPECT_EQ(client->resolve_address(id, &source, server.address(1), kSecond, net.now), EACCES);
    EXPECT_EQ(client->resolve_address(id, &source, server.address(1), kSecond, net.now, true), 0);
    EXPECT_EQ(query(client, id).local.port, 80);
}

TEST_F(Resolve, AnUnansweredQueryTimesOutExactly) {
    IdNumber id = create(client);
    Time start = net.now;
    ASSERT_EQ(client->resolve_address(id, nullptr, ipv4(0x0a0000c8, 1), 2 * kSecond, start), 0);
    EXPECT_EQ(query(client, id).state, IdState::address_query);
    EXPECT_EQ(client->next_deadline(), start + 2 * kSecond);
    net.run_to(start + 2 * kSecond - 1);
    EXPECT_TRUE(client.quiet());
    net.run(1);
    Event event = client.take();
    EXPECT_EQ(event.type, EventType::addr_error);
    EXPECT_EQ(event.status, -ETIMEDOUT);
    EXPECT_EQ(query(client, id).state, IdState::address_bound);
    EXPECT_EQ(client->next_deadline(), kNever);
}

TEST_F(Resolve, OnlyTheAnswerToTheQueryUnderWayCounts) {
    client.neighbor_later = true;
    IdNumber id = create(client);
    ASSERT_EQ(client->resolve_address(id, nullptr, server.address(1), kSecond, net.now), 0);
    std::uint64_t first = client.last_token;
    net.run(kSecond);
    EXPECT_EQ(client.take().type, EventType::addr_error);
    ASSERT_EQ(client->resolve_address(id, nullptr, server.address(1), kSecond, net.now), 0);
    client->neighbor_resolved(first, 0, net.now);
    EXPECT_TRUE(client.quiet());
    client->neighbor_resolved(client.last_token, 0, net.now);
    EXPECT_EQ(client.take().type, EventType::addr_resolved);
    client->neighbor_resolved(client.last_token, EHOSTUNREACH, net.now);
    EXPECT_TRUE(client.quiet());
    ASSERT_EQ(client->resolve_address(create(client), nullptr, server.address(1), kSecond, net.now), 0);
    client->close_file(kFile, net.now);
    client->neighbor_resolved(client.last_token, 0, net.now);
    EXPECT_TRUE(client.quiet());
    EXPECT_EQ(client->next_deadline(), kNever);
}

TEST_F(Resolve, FamiliesMustAgree) {
    IdNumber id = create(client);
    ASSERT_EQ(client->bind(id, any4(), false), 0);
    EXPECT_EQ(client->resolve_address(id, nullptr, server.address6(1), kSecond, net.now), EINVAL);
    Endpoint source = client.address();
    id = create(client);
    EXPECT_EQ(client->resolve_address(id, &source, server.address6(1), kSecond, net.now), EINVAL);
    EXPECT_EQ(query(client, id).state, IdState::idle);
    Endpoint odd = server.address(1);
    odd.family = 27;
    EXPECT_EQ(client->resolve_address(id, nullptr, odd, kSecond, net.now), ENODEV);
}

}  // namespace
}  // namespace verbena::cm::testing
