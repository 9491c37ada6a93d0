// Binding, ports, and the order of calls. Resolving: resolve_test.cpp.

#include "cm/testing.h"

namespace verbena::cm::testing {
namespace {

class Address : public Pair {};

TEST_F(Address, PortSpaceSaysTheQpType) {
    IdNumber id = 0;
    ASSERT_EQ(client->create_id(kFile, PortSpace::tcp, QpType::ud, 0, id), 0);
    EXPECT_EQ(query(client, id).qp_type, QpType::rc);
    ASSERT_EQ(client->create_id(kFile, PortSpace::udp, QpType::rc, 0, id), 0);
    EXPECT_EQ(query(client, id).qp_type, QpType::ud);
    ASSERT_EQ(client->create_id(kFile, PortSpace::ipoib, QpType::rc, 0, id), 0);
    EXPECT_EQ(query(client, id).qp_type, QpType::ud);
    ASSERT_EQ(client->create_id(kFile, PortSpace::ib, QpType::uc, 0, id), 0);
    EXPECT_EQ(query(client, id).qp_type, QpType::uc);
    EXPECT_EQ(client->create_id(kFile, PortSpace::ib, static_cast<QpType>(1), 0, id), EINVAL);
    EXPECT_EQ(client->create_id(kFile, static_cast<PortSpace>(7), QpType::rc, 0, id), EINVAL);
}

TEST_F(Address, ReservedNumbersGoToNobodyElse) {
    const IdNumber first = client->reserve_ids(3);
    IdNumber other = 0;
    ASSERT_EQ(client->create_id(kFile, PortSpace::tcp, QpType::rc, 0, other), 0);
    EXPECT_TRUE(other < first || other > first + 2);
    EXPECT_EQ(client->create_id_as(first + 1, kFile, PortSpace::tcp, QpType::rc, 0), 0);
    EXPECT_EQ(query(client, first + 1).id, first + 1);
    EXPECT_EQ(client->create_id_as(first + 1, kFile, PortSpace::tcp, QpType::rc, 0), EEXIST);
}

TEST_F(Address, UnknownIdsAreRefused) {
    IdInfo info;
    std::uint64_t n;
    EXPECT_EQ(client->query(99, info), ENOENT);
    EXPECT_EQ(client->bind(99, any4(), false), ENOENT);
    EXPECT_EQ(client->destroy_id(99, n, net.now), ENOENT);
    EXPECT_EQ(client->migrate(99, 2, n), ENOENT);
    EXPECT_EQ(client->write_event(99, EventType::user, 0, 0), ENOENT);
}

TEST_F(Address, BindFixesTheDeviceOfAConcreteAddress) {
    IdNumber id = create(client);
    ASSERT_EQ(client->bind(id, client.second_address(4000), false), 0);
    IdInfo info = query(client, id);
    EXPECT_EQ(info.state, IdState::address_bound);
    EXPECT_EQ(info.route.device, 1u);
    EXPECT_EQ(info.route.source_gid, client.second_address().address);
    EXPECT_EQ(info.node_guid, client.node_guid(1));
    EXPECT_EQ(info.local.port, 4000);
    for (const Endpoint& open : {any4(4001), any6(4002), loopback4(4003), loopback6(4004)}) {
        id = create(client);
        ASSERT_EQ(client->bind(id, open, false), 0);
        EXPECT_EQ(query(client, id).route.device, kNoDevice);
        EXPECT_EQ(query(client, id).local.port, open.port);
    }
}

// Ids on the device hear of it, whatever their state; those of others and those on none do not.
TEST_F(Address, HardwareAddressChanges) {
    IdNumber bound = create(client), other = create(client), any = create(client), idle = create(client);
    ASSERT_EQ(client->bind(bound, client.address(), false), 0);
    ASSERT_EQ(client->bind(other, client.second_address(), false), 0);
    ASSERT_EQ(client->bind(any, any4(), false), 0);
    client->hardware_address_changed(0);
    Event event = client.take();
    EXPECT_EQ(event.type, EventType::addr_change);
    EXPECT_EQ(event.id, bound);
    EXPECT_TRUE(client.quiet());
    client->hardware_address_changed(1);
    EXPECT_EQ(client.take().id, other);
    EXPECT_TRUE(client.quiet());
    EXPECT_EQ(query(client, bound).state, IdState::address_bound);
    destroy(client, idle);
}

TEST_F(Address, BindErrors) {
    IdNumber id = create(client);
    EXPECT_EQ(client->bind(id, ipv4(0xc0a80003), false), ENODEV);
    EXPECT_EQ(client->bind(id, server.address(), false), EADDRNOTAVAIL);
    Endpoint odd = any4();
    odd.family = AF_UNIX;
    EXPECT_EQ(client->bind(id, odd, false), EAFNOSUPPORT);
    odd = ipv6(1, 0, 0xfe);
    odd.family = 27;  // AF_IB
    EXPECT_EQ(client->bind(id, odd, false), ENODEV);
    EXPECT_EQ(client->bind(id, ipv6(1, 0, 0xfe), false), EADDRNOTAVAIL);
    Endpoint link_local = ipv6(3, 0, 0xfe);
    link_local.address.bytes[1] = 0x80;
    EXPECT_EQ(client->bind(id, link_local, false), EINVAL);  // no scope
    EXPECT_EQ(client->bind(id, any4(80), false), EACCES);
    EXPECT_EQ(query(client, id).state, IdState::idle);
    EXPECT_EQ(query(client, id).local.family, 0);
    EXPECT_EQ(client->bind(id, any4(80), true), 0);
    EXPECT_EQ(client->bind(id, any4(81), true), EINVAL);  // bound already
}

struct Conflict {
    const char* name;
    Endpoint first, second;
    bool reuse;            // both ask for it
    int error;             // of the second bind
    bool listens = false;  // the first one
};
class PortConflict : public Pair, public ::testing::WithParamInterface<Conflict> {};

const std::uint32_t kOne = 0x0a000003, kTwo = 0x0a000103;

TEST_P(PortConflict, Table) {
    const Conflict& c = GetParam();
    const std::int32_t yes = 1;
    std::span<const std::uint8_t> on(reinterpret_cast<const std::uint8_t*>(&yes), sizeof yes);
    IdNumber a = create(client), b = create(client);
    if (c.reuse) {
        ASSERT_EQ(client->set_option(a, 0, 1, on), 0);
        ASSERT_EQ(client->set_option(b, 0, 1, on), 0);
    }
    ASSERT_EQ(client->bind(a, c.first, false), 0);
    if (c.listens) {
        ASSERT_EQ(client->listen(a, 0), 0);
    }
    EXPECT_EQ(client->bind(b, c.second, false), c.error);
    // Another port space knows nothing of it, and the port is free again later.
    IdNumber other = create(client, PortSpace::udp);
    EXPECT_EQ(client->bind(other, c.second, false), 0);
    destroy(client, a);
    if (c.error) {
        EXPECT_EQ(client->bind(b, c.second, false), 0);
    }
}

INSTANTIATE_TEST_SUITE_P(
    Rules, PortConflict,
    ::testing::Values(
        Conflict{"same_address", ipv4(kOne, 5000), ipv4(kOne, 5000), false, EADDRINUSE},
        Conflict{"other_address", ipv4(kOne, 5000), ipv4(kTwo, 5000), false, 0},
        Conflict{"other_port", ipv4(kOne, 5000), ipv4(kOne, 5001), false, 0},
        Conflict{"wildcard_first", any4(5000), ipv4(kOne, 5000), false, EADDRNOTAVAIL},
        Conflict{"wildcard_second", ipv4(kOne, 5000), any4(5000), false, EADDRNOTAVAIL},
        Conflict{"two_wildcards", any4(5000), any4(5000), false, EADDRNOTAVAIL},
        Conflict{"loopback_is_a_wildcard", loopback4(5000), ipv4(kOne, 5000), false, EADDRNOTAVAIL},
        Conflict{"families", any4(5000), any6(5000), false, EADDRNOTAVAIL},
        Conflict{"concrete_families", ipv4(kOne, 5000), ipv6(3, 5000), false, 0},
        Conflict{"reuse", any4(5000), any4(5000), true, 0},
        Conflict{"reuse_concrete", ipv4(kOne, 5000), ipv4(kOne, 5000), true, 0},
        Conflict{"reuse_but_it_listens", ipv4(kOne, 5000), ipv4(kOne, 5000), true, EADDRINUSE, true},
        Conflict{"reuse_but_wildcard_listens", any4(5000), any4(5000), true, EADDRNOTAVAIL, true}),
    [](const auto& each) { return std::string(each.param.name); });

TEST_F(Address, FamilyOnlyIdsShareAPort) {
    const std::int32_t yes = 1;
    std::span<const std::uint8_t> on(reinterpret_cast<const std::uint8_t*>(&yes), sizeof yes);
    IdNumber four = create(client), six = create(client);
    ASSERT_EQ(client->set_option(six, 0, 2, on), 0);
    EXPECT_EQ(client->bind(four, any4(5000), false), 0);
    EXPECT_EQ(client->bind(six, any6(5000), false), 0);
}

TEST_F(Address, ASharedPortHasNoListener) {
    const std::int32_t yes = 1;
    std::span<const std::uint8_t> on(reinterpret_cast<const std::uint8_t*>(&yes), sizeof yes);
    IdNumber a = create(client), b = create(client);
    client->set_option(a, 0, 1, on);
    client->set_option(b, 0, 1, on);
    ASSERT_EQ(client->bind(a, client.address(5000), false), 0);
    ASSERT_EQ(client->bind(b, client.address(5000), false), 0);
    EXPECT_EQ(client->listen(a, 0), EADDRINUSE);
    EXPECT_EQ(query(client, a).state, IdState::address_bound);
    destroy(client, b);
    EXPECT_EQ(client->listen(a, 0), 0);
}

TEST_F(Address, EphemeralPorts) {
    client.ports = {40000, 40003};
    std::set<std::uint16_t> seen;
    std::vector<IdNumber> ids;
    for (int i = 0; i < 4; i++) {
        ids.push_back(create(client));
        ASSERT_EQ(client->bind(ids.back(), client.address(), false), 0);
        std::uint16_t port = query(client, ids.back()).local.port;
        EXPECT_GE(port, 40000);
        EXPECT_LE(port, 40003);
        EXPECT_TRUE(seen.insert(port).second);
    }
    IdNumber fifth = create(client);
    EXPECT_EQ(client->bind(fifth, client.address(), false), EADDRNOTAVAIL);
    EXPECT_EQ(query(client, fifth).state, IdState::idle);
    // Another own address may share.
    EXPECT_EQ(client->bind(fifth, client.second_address(), false), 0);
    // The port used last is not chosen at once again.
    std::uint16_t last = query(client, fifth).local.port;
    for (int i = 0; i < 20; i++) {
        destroy(client, fifth);
        fifth = create(client);
        ASSERT_EQ(client->bind(fifth, client.second_address(), false), 0);
        EXPECT_NE(query(client, fifth).local.port, last);
        last = query(client, fifth).local.port;
    }
}

TEST_F(Address, OutgoingIdsShareAPortTowardsDifferentPeers) {
    client.ports = {40000, 40000};
    IdNumber a = routed(client, server.address(7000));
    IdNumber b = routed(client, server.address(7001));  // another port of the peer
    EXPECT_EQ(query(client, a).local.port, 40000);
    EXPECT_EQ(query(client, b).local.port, 40000);
    IdNumber c = create(client);
    EXPECT_EQ(client->resolve_address(c, nullptr, server.address(7000), kSecond, net.now), EADDRNOTAVAIL);
    EXPECT_EQ(query(client, c).state, IdState::idle);
}

TEST_F(Address, CallsOutOfOrderAreInvalid) {
    IdNumber id = create(client);
    ConnectParameters p = parameters(1);
    EXPECT_EQ(client->resolve_route(id, kSecond, net.now), EINVAL);
    EXPECT_EQ(client->connect(id, p, net.now), EINVAL);
    EXPECT_EQ(client->accept(id, &p, 0, net.now), EINVAL);
    EXPECT_EQ(client->accept(id, nullptr, 0, net.now), EINVAL);
    EXPECT_EQ(client->reject(id, {}, 28, net.now), EINVAL);
    EXPECT_EQ(client->disconnect(id, net.now), EINVAL);
    EXPECT_EQ(client->notify(id, 4), EINVAL);
    ASSERT_EQ(client->bind(id, any4(), false), 0);
    EXPECT_EQ(client->resolve_route(id, kSecond, net.now), EINVAL);
    EXPECT_EQ(client->connect(id, p, net.now), EINVAL);
    ASSERT_EQ(client->resolve_address(id, nullptr, server.address(1), kSecond, net.now), 0);
    EXPECT_EQ(client->resolve_address(id, nullptr, server.address(1), kSecond, net.now), EINVAL);
    EXPECT_EQ(client->connect(id, p, net.now), EINVAL);
    EXPECT_EQ(client->listen(id, 1), EINVAL);
    EXPECT_EQ(client->bind(id, any4(), false), EINVAL);
    ASSERT_EQ(client->resolve_route(id, kSecond, net.now), 0);
    EXPECT_EQ(client->resolve_route(id, kSecond, net.now), EINVAL);
    ASSERT_EQ(client->connect(id, p, net.now), 0);
    EXPECT_EQ(client->connect(id, p, net.now), EINVAL);
    EXPECT_EQ(client->accept(id, nullptr, 0, net.now), EINVAL);  // no REP yet
    IdNumber listening = listener(client, any4(6000));
    EXPECT_EQ(client->listen(listening, 1), EINVAL);
    EXPECT_EQ(client->connect(listening, p, net.now), EINVAL);
    EXPECT_EQ(client->resolve_address(listening, nullptr, server.address(1), kSecond, net.now), EINVAL);
}

TEST_F(Address, ListenBindsAnIdleId) {
    IdNumber id = create(server);
    ASSERT_EQ(server->listen(id, 5), 0);
    IdInfo info = query(server, id);
    EXPECT_EQ(info.local.family, AF_INET);
    EXPECT_TRUE(info.local.is_any());
    EXPECT_NE(info.local.port, 0);
    EXPECT_EQ(server->counts().listeners, 1u);
}

}  // namespace
}  // namespace verbena::cm::testing
