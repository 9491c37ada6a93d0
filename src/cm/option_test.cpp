// rdma_set_option, the attributes of QP transitions, and written events.

#include "cm/testing.h"

namespace verbena::cm::testing {
namespace {

class Option : public Pair {
   protected:
    template <class T>
    int set(Host& host, IdNumber id, int level, int option, T value) {
        return host->set_option(id, level, option,
                                {reinterpret_cast<const std::uint8_t*>(&value), sizeof value});
    }
    int set_int(IdNumber id, int option, std::int32_t value) { return set(client, id, 0, option, value); }
    int set_byte(IdNumber id, int option, std::uint8_t value) { return set(client, id, 0, option, value); }
};

constexpr int kTos = 0, kReuse = 1, kAfOnly = 2, kAck = 3;

TEST_F(Option, SizesAndNumbers) {
    IdNumber id = create(client);
    EXPECT_EQ(set_int(id, kTos, 1), EINVAL);
    EXPECT_EQ(set_byte(id, kTos, 1), 0);
    EXPECT_EQ(set_byte(id, kReuse, 1), EINVAL);
    EXPECT_EQ(set_int(id, kReuse, 1), 0);
    EXPECT_EQ(set_byte(id, kAfOnly, 1), EINVAL);
    EXPECT_EQ(set_int(id, kAfOnly, 1), 0);
    EXPECT_EQ(set_int(id, kAck, 1), EINVAL);
    EXPECT_EQ(set_byte(id, kAck, 32), EINVAL);
    EXPECT_EQ(set_byte(id, kAck, 14), 0);
    EXPECT_EQ(set_byte(id, 4, 1), ENOSYS);
    EXPECT_EQ(set(client, id, 1, 2, 1), ENOSYS);
    EXPECT_EQ(set(client, id, 2, 0, 1), ENOSYS);
}

TEST_F(Option, States) {
    IdNumber id = create(client);
    ASSERT_EQ(client->bind(id, client.address(5000), false), 0);
    EXPECT_EQ(set_int(id, kReuse, 1), 0);
    EXPECT_EQ(set_int(id, kReuse, 0), EINVAL);  // only while idle
    EXPECT_EQ(set_int(id, kAfOnly, 1), 0);
    // Set after the bind it counts all the same.
    IdNumber second = create(client);
    ASSERT_EQ(set_int(second, kReuse, 1), 0);
    EXPECT_EQ(client->bind(second, client.address(5000), false), 0);
    destroy(client, second);
    ASSERT_EQ(client->listen(id, 0), 0);
    EXPECT_EQ(set_int(id, kReuse, 1), EINVAL);
    EXPECT_EQ(set_int(id, kAfOnly, 1), EINVAL);
    IdNumber datagram = create(client, PortSpace::udp);
    EXPECT_EQ(set_byte(datagram, kAck, 14), EINVAL);
}

TEST_F(Option, TypeOfServiceAndAckTimeoutReachTheWire) {
    IdNumber listen = listener(server, any4(7471));
    IdNumber id = create(client);
    ASSERT_EQ(set_byte(id, kTos, 0x68), 0);
    ASSERT_EQ(set_byte(id, kAck, 21), 0);
    ASSERT_EQ(client->resolve_address(id, nullptr, server.address(7471), kSecond, net.now), 0);
    ASSERT_EQ(client->resolve_route(id, kSecond, net.now), 0);
    client.events.clear();
    ASSERT_EQ(client->connect(id, parameters(0x11), net.now), 0);
    auto req = net.log.back().as<wire::Req>();
    EXPECT_EQ(req.primary.traffic_class, 0x68);
    EXPECT_EQ(req.primary.local_ack_timeout, 21);
    EXPECT_EQ(net.log.back().path.traffic_class, 0x68);
    EXPECT_EQ(query(client, id).route.traffic_class, 0x68);
    net.run();
    IdNumber child = server.take().id;
    EXPECT_EQ(query(server, child).route.traffic_class, 0x68);
    ASSERT_EQ(accept(server, child, 0x21), 0);
    net.run();
    client.take();
    QpTransition rts;
    ASSERT_EQ(client->init_qp_attributes(id, 3, rts), 0);
    EXPECT_EQ(rts.timeout, 21);
    ASSERT_EQ(server->init_qp_attributes(child, 3, rts), 0);
    EXPECT_EQ(rts.timeout, 21);
    static_cast<void>(listen);
}

TEST_F(Option, PathRecord) {
    struct {
        std::uint32_t flags, reserved;
        std::uint8_t record[64];
    } path{};
    static_assert(sizeof path == 72);
    IdNumber id = create(client);
    path.flags = 1 | 2 | 8 | 32;
    EXPECT_EQ(set(client, id, 1, 1, path), EINVAL);  // no address yet
    ASSERT_EQ(client->resolve_address(id, nullptr, server.address(7471), kSecond, net.now), 0);
    client.take();
    EXPECT_EQ(set(client, id, 1, 1, std::uint32_t{0}), EINVAL);
    path.flags = 1 | 2;
    EXPECT_EQ(set(client, id, 1, 1, path), EINVAL);
    path.flags = 1 | 2 | 8 | 32;
    EXPECT_EQ(set(client, id, 1, 1, path), 0);
    EXPECT_EQ(client.take().type, EventType::route_resolved);
    EXPECT_EQ(query(client, id).state, IdState::route_resolved);
    EXPECT_EQ(query(client, id).path_count, 1u);
    EXPECT_EQ(query(client, id).route.path_mtu, 3) << "an MTU of 0 is none";
    EXPECT_EQ(query(client, id).route.hop_limit, 64);
}

// What the record says goes into the REQ and the queue pair's attributes.
TEST_F(Option, OfAPathRecordTheRouteTakes) {
    struct Path {
        std::uint32_t flags = 1 | 2 | 8 | 32, reserved = 0;
        std::uint8_t record[64] = {};
    };
    Path path, other;
    other.flags = 1;  // not the one
    const std::uint8_t label_and_limit[] = {0xf1, 0x23, 0x45, 0x07};
    std::copy_n(label_and_limit, 4, path.record + 44);
    path.record[48] = 0x40;         // traffic class
    path.record[54] = 2 << 6 | 2;   // MTU: exactly 512
    path.record[56] = 2 << 6 | 14;  // packet life time
    other.record[54] = 1;
    listener(server, any4(7471));
    IdNumber id = create(client);
    ASSERT_EQ(set_byte(id, kTos, 0x68), 0);
    ASSERT_EQ(client->resolve_address(id, nullptr, server.address(7471), kSecond, net.now), 0);
    client.take();
    ASSERT_EQ(set(client, id, 1, 1, std::array{other, path}), 0);
    const Event resolved = client.take();
    for (const Route& route : {resolved.info.route, query(client, id).route}) {
        EXPECT_EQ(route.flow_label, 0x12345u);
        EXPECT_EQ(route.hop_limit, 7);
        EXPECT_EQ(route.traffic_class, 0x40);
        EXPECT_EQ(route.path_mtu, 2);
        EXPECT_EQ(route.packet_life_time, 14);
        EXPECT_EQ(route.destination_gid, server.address().address);
    }
    ASSERT_EQ(client->connect(id, parameters(0x11), net.now), 0);
    const auto req = net.log.back().as<wire::Req>();
    EXPECT_EQ(req.path_mtu, 2);
    EXPECT_EQ(req.primary.flow_label, 0x12345u);
    EXPECT_EQ(req.primary.hop_limit, 7);
    EXPECT_EQ(req.primary.traffic_class, 0x40);
    EXPECT_EQ(req.primary.local_ack_timeout, 16);  // twice the life time, and the peer's delay
    net.run();
    ASSERT_EQ(accept(server, server.take().id, 0x21), 0);
    net.run();
    client.take();
    QpTransition rtr;
    ASSERT_EQ(client->init_qp_attributes(id, 2, rtr), 0);
    EXPECT_EQ(rtr.path_mtu, 2);
    EXPECT_EQ(rtr.route.hop_limit, 7);
    EXPECT_EQ(rtr.route.traffic_class, 0x40);
}

TEST_F(Option, APathRecordCannotWidenThePort) {
    std::array<std::uint8_t, 72> path{};
    const std::uint32_t flags = 1 | 2 | 8 | 32;
    std::memcpy(path.data(), &flags, sizeof flags);
    path[8 + 54] = 5;
    path[8 + 56] = 63;
    IdNumber id = create(client);
    ASSERT_EQ(client->resolve_address(id, nullptr, server.address(7471), kSecond, net.now), 0);
    client.take();
    ASSERT_EQ(set(client, id, 1, 1, path), 0);
    EXPECT_EQ(query(client, id).route.path_mtu, 3);
    EXPECT_EQ(query(client, id).route.packet_life_time, 31);
}

// --- QP attributes

constexpr std::uint32_t kState = 1 << 0, kAccess = 1 << 3, kPkeyIndex = 1 << 4, kPort = 1 << 5,
                        kQkey = 1 << 6, kAv = 1 << 7, kMtu = 1 << 8, kTimeout = 1 << 9, kRetry = 1 << 10,
                        kRnr = 1 << 11, kRqPsn = 1 << 12, kMaxRd = 1 << 13, kMinRnr = 1 << 15,
                        kSqPsn = 1 << 16, kMaxDest = 1 << 17, kDestQp = 1 << 20;

TEST_F(Option, TransitionsBeforeAConversation) {
    QpTransition t;
    IdNumber id = create(client);
    EXPECT_EQ(client->init_qp_attributes(id, 1, t), EINVAL);  // no device
    ASSERT_EQ(client->bind(id, client.address(), false), 0);
    EXPECT_EQ(client->init_qp_attributes(id, 7, t), EINVAL);
    ASSERT_EQ(client->init_qp_attributes(id, 1, t), 0);
    EXPECT_EQ(t.mask, kState | kPkeyIndex | kPort | kAccess);
    EXPECT_EQ(t.state, 1);
    EXPECT_EQ(t.port, 1);
    EXPECT_EQ(t.access, 0);
    IdNumber datagram = create(client, PortSpace::udp);
    ASSERT_EQ(client->bind(datagram, client.address(), false), 0);
    ASSERT_EQ(client->init_qp_attributes(datagram, 1, t), 0);
    EXPECT_EQ(t.mask, kState | kPkeyIndex | kPort | kQkey);
    EXPECT_EQ(t.qkey, 0x01234567u);
}

TEST_F(Option, TransitionsOfAConnection) {
    listener(server, any4(7471));
    IdNumber id = routed(client, server.address(7471));
    ConnectParameters p = parameters(0x11);
    p.responder_resources = 0;
    p.initiator_depth = 0;
    QpTransition t;
    ASSERT_EQ(client->connect(id, p, net.now), 0);
    ASSERT_EQ(client->init_qp_attributes(id, 1, t), 0);
    EXPECT_EQ(t.access, 2);  // REMOTE_WRITE; READ and ATOMIC only with responder resources
    EXPECT_EQ(client->init_qp_attributes(id, 2, t), EINVAL);
    EXPECT_EQ(client->init_qp_attributes(id, 3, t), EINVAL);
    net.run();
    IdNumber child = server.take().id;
    ASSERT_EQ(server->init_qp_attributes(child, 1, t), 0);
    EXPECT_EQ(t.access, 2);
    ConnectParameters q = parameters(0x21);
    ASSERT_EQ(server->accept(child, &q, 0, net.now), 0);
    ASSERT_EQ(server->init_qp_attributes(child, 1, t), 0);
    EXPECT_EQ(t.access, 2 | 4 | 8);
    ASSERT_EQ(server->init_qp_attributes(child, 2, t), 0);
    EXPECT_EQ(t.mask, kState | kAv | kMtu | kDestQp | kRqPsn | kMaxDest | kMinRnr);
    EXPECT_EQ(t.path_mtu, 3);
    EXPECT_EQ(t.min_rnr_timer, 0);
    EXPECT_EQ(t.destination_qp, 0x11u);
    EXPECT_EQ(t.route.destination_gid, client.address().address);
    ASSERT_EQ(server->init_qp_attributes(child, 3, t), 0);
    EXPECT_EQ(t.mask, kState | kSqPsn | kTimeout | kRetry | kRnr | kMaxRd);
    EXPECT_EQ(t.timeout, 19);
    EXPECT_EQ(server->init_qp_attributes(child, 4, t), EINVAL);
    net.run();
    client.take();
    ASSERT_EQ(client->init_qp_attributes(id, 3, t), 0);
    EXPECT_EQ(t.timeout, 19);
    ASSERT_EQ(client->accept(id, nullptr, 0, net.now), 0);
    EXPECT_EQ(client->init_qp_attributes(id, 2, t), 0);
    ASSERT_EQ(client->disconnect(id, net.now), 0);
    EXPECT_EQ(client->init_qp_attributes(id, 2, t), EINVAL);
}

TEST_F(Option, UnreliableConnectionsHaveNoTimeouts) {
    IdNumber listen = create(server, PortSpace::ib, QpType::uc);
    ASSERT_EQ(server->bind(listen, any4(7471), false), 0);
    ASSERT_EQ(server->listen(listen, 0), 0);
    IdNumber id = create(client, PortSpace::ib, QpType::uc);
    ASSERT_EQ(client->resolve_address(id, nullptr, server.address(7471), kSecond, net.now), 0);
    ASSERT_EQ(client->resolve_route(id, kSecond, net.now), 0);
    client.events.clear();
    ASSERT_EQ(client->connect(id, parameters(0x11), net.now), 0);
    EXPECT_EQ(net.log.back().as<wire::Req>().transport_service_type, wire::TransportServiceType::uc);
    net.run();
    IdNumber child = server.take().id;
    ASSERT_EQ(accept(server, child, 0x21), 0);
    net.run();
    client.take();
    QpTransition t;
    ASSERT_EQ(client->init_qp_attributes(id, 2, t), 0);
    EXPECT_EQ(t.mask, kState | kAv | kMtu | kDestQp | kRqPsn);
    ASSERT_EQ(client->init_qp_attributes(id, 3, t), 0);
    EXPECT_EQ(t.mask, kState | kSqPsn);
}

TEST_F(Option, WrittenEvents) {
    IdNumber id = create(client);
    EXPECT_EQ(client->write_event(id, EventType::established, 0, 0), EINVAL);
    ASSERT_EQ(client->write_event(id, EventType::user, -3, 0x1122334455667788u), 0);
    Event event = client.take();
    EXPECT_EQ(event.type, EventType::user);
    EXPECT_EQ(event.status, -3);
    EXPECT_EQ(event.argument, 0x1122334455667788u);
    EXPECT_EQ(event.id, id);
    EXPECT_EQ(event.user_handle, 0x1000u);
    std::uint64_t delivered = 0;
    ASSERT_EQ(client->migrate(id, 4, delivered), 0);
    EXPECT_EQ(delivered, 1u);
    ASSERT_EQ(client->write_event(id, EventType::internal, 0, 0), 0);
    EXPECT_EQ(client.take(4).type, EventType::internal);
}

}  // namespace
}  // namespace verbena::cm::testing
