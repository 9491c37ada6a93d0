// Which listener takes a request, and the children of listeners.

#include "cm/held_requests.h"
#include "cm/testing.h"

namespace verbena::cm::testing {
namespace {

class Listen : public Pair {
   protected:
    // The listener that a request to `remote` reaches: 0 if it is refused with reason 8.
    IdNumber reached(Host& from, const Endpoint& remote) {
        IdNumber id = connecting(from, remote, next_qpn_++);
        net.run();
        IdNumber found = 0;
        if (!server.quiet() && server.events.front().second.type == EventType::connect_request) {
            Event event = server.take();
            found = event.listen_id;
            destroy(server, event.id);
            net.run();
            EXPECT_EQ(from.take().status, 28);
        } else {
            EXPECT_EQ(from.take().status, 8);
        }
        destroy(from, id);
        return found;
    }
    std::uint32_t next_qpn_ = 0x100;
};

TEST_F(Listen, WildcardTakesEveryAddressOfItsFamily) {
    IdNumber id = listener(server, any4(7471));
    EXPECT_EQ(reached(client, server.address(7471)), id);
    EXPECT_EQ(reached(client, server.second_address(7471)), id);
    EXPECT_EQ(reached(server, loopback4(7471)), id);
    EXPECT_EQ(reached(client, server.address6(7471)), 0u);
    EXPECT_EQ(reached(client, server.address(7472)), 0u);
}

TEST_F(Listen, Ipv6WildcardTakesBothFamiliesUnlessTold) {
    IdNumber id = listener(server, any6(7471));
    EXPECT_EQ(reached(client, server.address6(7471)), id);
    EXPECT_EQ(reached(client, server.address(7471)), id);
    EXPECT_EQ(reached(server, loopback6(7471)), id);
    EXPECT_EQ(reached(server, loopback4(7471)), id);

    const std::int32_t yes = 1;
    IdNumber only = create(server);
    ASSERT_EQ(server->set_option(only, 0, 2, {reinterpret_cast<const std::uint8_t*>(&yes), sizeof yes}), 0);
    ASSERT_EQ(server->bind(only, any6(7472), false), 0);
    ASSERT_EQ(server->listen(only, 0), 0);
    EXPECT_EQ(reached(client, server.address6(7472)), only);
    EXPECT_EQ(reached(client, server.address(7472)), 0u);
}

TEST_F(Listen, ConcreteAddressTakesItsOwnOnly) {
    IdNumber one = listener(server, server.address(7471));
    EXPECT_EQ(reached(client, server.address(7471)), one);
    EXPECT_EQ(reached(client, server.second_address(7471)), 0u);
    IdNumber two = listener(server, server.second_address(7471));
    EXPECT_EQ(reached(client, server.second_address(7471)), two);
    IdNumber six = listener(server, server.address6(7471));
    EXPECT_EQ(reached(client, server.address6(7471)), six);
    EXPECT_EQ(reached(client, server.address(7471)), one);
}

TEST_F(Listen, LoopbackListenerIsNotReachedFromOutside) {
    IdNumber id = listener(server, loopback4(7471));
    EXPECT_EQ(reached(server, loopback4(7471)), id);
    EXPECT_EQ(reached(client, server.address(7471)), 0u);
    // Nor by a header that pretends.
    connecting(client, server.address(7471), 0x50);
    Mad mad = net.log.back().mad;
    mad[24 + 140 + 32] = 127;  // the destination address of the CMA header
    mad[24 + 140 + 33] = mad[24 + 140 + 34] = 0;
    mad[24 + 140 + 35] = 1;
    net.inject(server, net.log.back().path, mad);
    EXPECT_TRUE(server.quiet());
    EXPECT_EQ(net.log.back().as<wire::Rej>().reason, wire::RejReason::invalid_service_id);
}

TEST_F(Listen, PortSpacesAreSeparate) {
    listener(server, any4(7471), PortSpace::udp);
    EXPECT_EQ(reached(client, server.address(7471)), 0u);
    IdNumber tcp = listener(server, any4(7471), PortSpace::tcp);
    EXPECT_EQ(reached(client, server.address(7471)), tcp);
}

TEST_F(Listen, IbPortSpaceOverIpAddresses) {
    IdNumber id = create(server, PortSpace::ib, QpType::rc);
    ASSERT_EQ(server->bind(id, any4(7471), false), 0);
    ASSERT_EQ(server->listen(id, 0), 0);
    IdNumber active = routed(client, server.address(7471), PortSpace::ib);
    ASSERT_EQ(client->connect(active, parameters(0x11), net.now), 0);
    EXPECT_EQ(net.log.back().as<wire::Req>().service_id, 0x00000000013f1d2fu);
    net.run();
    EXPECT_EQ(server.take().listen_id, id);
}

TEST_F(Listen, XrcNeedsAnXrcListener) {
    IdNumber id = create(server, PortSpace::ib, QpType::xrc_recv);
    ASSERT_EQ(server->bind(id, any4(7471), false), 0);
    ASSERT_EQ(server->listen(id, 0), 0);
    IdNumber wrong = routed(client, server.address(7471), PortSpace::ib);
    ASSERT_EQ(client->connect(wrong, parameters(0x11), net.now), 0);
    net.run();
    EXPECT_EQ(client.take().status, 9);

    IdNumber active = create(client, PortSpace::ib, QpType::xrc_send);
    ASSERT_EQ(client->resolve_address(active, nullptr, server.address(7471), kSecond, net.now), 0);
    ASSERT_EQ(client->resolve_route(active, kSecond, net.now), 0);
    ASSERT_EQ(client->connect(active, parameters(0x12), net.now), 0);
    net.run();
    IdNumber child = server.take().id;
    ASSERT_EQ(accept(server, child, 0x22), 0);
    EXPECT_EQ(net.log.back().as<wire::Rep>().local_eecn, 0x22u);
    EXPECT_EQ(net.log.back().as<wire::Rep>().local_qpn, 0u);
    EXPECT_TRUE(net.log.back().as<wire::Rep>().srq);
    net.run();
    client.take();
    client.take();
    EXPECT_EQ(client.take().connection.qp_number, 0x22u);
    ASSERT_EQ(client->accept(active, nullptr, 0, net.now), 0);
    net.run();
    EXPECT_EQ(server.take().type, EventType::established);
    std::size_t before = net.log.size();
    destroy(server, child);  // the target QP outlives the id
    EXPECT_EQ(net.log.size(), before);
    EXPECT_EQ(server->counts().connections, 0u);
}

TEST_F(Listen, GidThatIsNotOursIsRejected) {
    listener(server, any4(7471));
    connecting(client, server.address(7471), 0x11);
    Sent request = net.log.back();
    wire::Req req = request.as<wire::Req>();
    req.primary.remote_gid = ipv4(0x0a0000ee).address;
    net.inject(server, request.path, make_mad(1, req));
    EXPECT_EQ(net.log.back().as<wire::Rej>().reason, wire::RejReason::primary_remote_port_gid_rejected);
    req.primary.remote_gid = server.address().address;
    req.path_mtu = 9;
    net.inject(server, request.path, make_mad(1, req));
    EXPECT_EQ(net.log.back().as<wire::Rej>().reason, wire::RejReason::invalid_path_mtu);
    req.path_mtu = 3;
    req.private_data[0] = 1;  // a version of the CMA header that nobody knows
    net.inject(server, request.path, make_mad(1, req));
    EXPECT_EQ(net.log.back().as<wire::Rej>().reason, wire::RejReason::unsupported_request);
    req.private_data[0] = 0;
    req.transport_service_type = wire::TransportServiceType::rd;
    net.inject(server, request.path, make_mad(1, req));
    EXPECT_EQ(net.log.back().as<wire::Rej>().reason, wire::RejReason::invalid_transport_service_type);
    req.transport_service_type = wire::TransportServiceType::rc;
    req.service_id = 0x1234567800000001u;
    net.inject(server, request.path, make_mad(1, req));
    EXPECT_EQ(net.log.back().as<wire::Rej>().reason, wire::RejReason::invalid_service_id);
    EXPECT_TRUE(server.quiet());
    EXPECT_EQ(server->counts().ids, 1u);
}

// A program that closes its listener and opens it again is reached by a peer that comes in between.
TEST_F(Listen, AReopenedListenerTakesWhatCameTooEarly) {
    destroy(server, listener(server, any4(7471)));
    connecting(client, server.address(7471), 0x11);
    net.run();
    EXPECT_TRUE(client.quiet());
    EXPECT_EQ(net.conversation(), "REQ");
    IdNumber other = listener(server, any4(7472));
    EXPECT_TRUE(server.quiet());
    IdNumber again = listener(server, any4(7471));
    EXPECT_EQ(server.take().listen_id, again);
    // From now on all is as usual.
    destroy(server, other);
    EXPECT_EQ(reached(client, server.address(7471)), again);
    EXPECT_EQ(reached(client, server.address(7473)), 0u);
}

TEST_F(Listen, ARequestWaitsForAReopenedListenerForAMomentOnly) {
    IdNumber listen = listener(server, any4(7471));
    destroy(server, listen);
    connecting(client, server.address(7471), 0x11);
    net.run(HeldRequests::kReopening - kMillisecond);
    EXPECT_TRUE(client.quiet());
    net.run(2 * kMillisecond);
    EXPECT_EQ(client.take().status, 8);
    net.run(HeldRequests::kMemory);
    EXPECT_EQ(reached(client, server.address(7471)), 0u);  // within a millisecond
}

TEST_F(Listen, NobodyWaitsForAProgramThatHasEnded) {
    listener(server, any4(7471));
    server->close_file(kFile, net.now);
    EXPECT_EQ(reached(client, server.address(7471)), 0u);
}

// A program that tells its peer the port before it listens there.
TEST_F(Listen, AListenerThatIsBoundTakesWhatCameTooEarly) {
    IdNumber bound = create(server);
    ASSERT_EQ(server->bind(bound, any4(7471), false), 0);
    connecting(client, server.address(7471), 0x11);
    net.run(HeldRequests::kReopening - kMillisecond);
    EXPECT_TRUE(client.quiet());
    EXPECT_EQ(net.conversation(), "REQ");
    ASSERT_EQ(server->listen(bound, 0), 0);
    EXPECT_EQ(server.take().listen_id, bound);
    net.run(HeldRequests::kReopening);
    EXPECT_TRUE(client.quiet());
}

TEST_F(Listen, ABoundIdThatDoesNotListenRefusesAMomentLater) {
    IdNumber bound = create(server);
    ASSERT_EQ(server->bind(bound, any4(7471), false), 0);
    connecting(client, server.address(7471), 0x11);
    net.run(HeldRequests::kReopening + kMillisecond);
    EXPECT_EQ(client.take().status, 8);
    EXPECT_TRUE(server.quiet());
    EXPECT_EQ(reached(client, server.address(7472)), 0u);  // another port: within a millisecond
}

TEST_F(Listen, AnotherListenerOfThePortAnswersAtOnce) {
    IdNumber one = listener(server, server.address(7471));
    IdNumber two = listener(server, server.second_address(7471));
    destroy(server, one);
    EXPECT_EQ(reached(client, server.address(7471)), 0u);
    EXPECT_EQ(reached(client, server.second_address(7471)), two);
}

TEST_F(Listen, DestroyingAListenerRejectsWhatNobodyRead) {
    IdNumber listen = listener(server, any4(7471));
    IdNumber read = connecting(client, server.address(7471), 0x11);
    net.run();
    IdNumber child = server.take().id;
    IdNumber unread = connecting(client, server.address(7471), 0x12);
    net.run();
    EXPECT_EQ(server->counts().ids, 3u);
    destroy(server, listen);
    EXPECT_EQ(server->counts().ids, 1u);
    EXPECT_EQ(server->counts().listeners, 0u);
    net.run();
    Event event = client.take();
    EXPECT_EQ(event.type, EventType::rejected);
    EXPECT_EQ(event.status, 28);
    EXPECT_EQ(event.id, unread);
    EXPECT_TRUE(client.quiet());
    // The child that the program has lives on, and the port is free.
    ASSERT_EQ(accept(server, child, 0x21), 0);
    net.run();
    EXPECT_EQ(client.take().id, read);
    server.events.clear();
    listener(server, any4(7471));
}

TEST_F(Listen, ChildrenThatNobodyAcceptedHearNothing) {
    listener(server, any4(7471));
    IdNumber id = connecting(client, server.address(7471), 0x11);
    net.run();
    IdNumber child = server.take().id;
    destroy(client, id);
    net.run();
    EXPECT_TRUE(server.quiet());
    server->hardware_address_changed(0);
    server->device_removed(0, net.now);
    EXPECT_TRUE(server.quiet());
    IdInfo info;
    EXPECT_EQ(server->query(child, info), EIO);
}

// Nobody waited for the answer.
TEST_F(Listen, AnAcceptThatIsRefusedIsAnEvent) {
    for (const bool device_gone : {false, true}) {
        listener(server, any4(7471 + device_gone));
        const IdNumber id = connecting(client, server.address(7471 + device_gone), 0x11);
        net.run();
        const IdNumber child = server.take().id;
        destroy(client, id);
        net.run();
        if (device_gone) server->device_removed(0, net.now);
        const ConnectParameters parameters;
        const int error = server->accept(child, &parameters, 0x77, net.now);
        EXPECT_EQ(error, device_gone ? EIO : EINVAL);
        EXPECT_TRUE(server.quiet());
        server->refuse_accept(child, error, 0x77);
        const Event event = server.take();
        EXPECT_EQ(event.type, device_gone ? EventType::device_removal : EventType::internal);
        EXPECT_EQ(event.user_handle, 0x77u);
        if (!device_gone) {
            EXPECT_EQ(event.status, -EINVAL);
            EXPECT_EQ(event.argument, static_cast<std::uint64_t>(EventType::connect_error));
            EXPECT_NE(event.note[0], '\0');
        }
        destroy(server, child);
    }
}

TEST_F(Listen, EventsAreCountedForDestroy) {
    Connected c = establish();
    EXPECT_EQ(destroy(server, c.listen), 1u);   // the request
    EXPECT_EQ(destroy(server, c.passive), 1u);  // established
    EXPECT_EQ(destroy(client, c.active), 3u);
}

TEST_F(Listen, MigratedListenerTakesItsRequestsAlong) {
    IdNumber listen = listener(server, any4(7471));
    connecting(client, server.address(7471), 0x11);
    net.run();
    IdNumber unread = server.events.front().second.id;
    std::uint64_t delivered = 0;
    ASSERT_EQ(server->migrate(listen, 5, delivered), 0);
    EXPECT_EQ(delivered, 1u);
    connecting(client, server.address(7471), 0x12);
    net.run();
    Event next = server.take(5);
    EXPECT_EQ(next.type, EventType::connect_request);
    server->close_file(kFile, net.now);  // the old file: nothing of ours is there any more
    IdInfo info;
    EXPECT_EQ(server->query(unread, info), 0);
    server->close_file(5, net.now);
    EXPECT_EQ(server->counts().ids, 0u);
}

TEST_F(Listen, OneHostTalksToItself) {
    IdNumber listen = listener(server, any4(7471));
    IdNumber active = connecting(server, loopback4(7471), 0x11);
    net.run();
    Event request = server.take();
    EXPECT_EQ(request.listen_id, listen);
    EXPECT_EQ(query(server, request.id).route.device, 2u);
    ASSERT_EQ(accept(server, request.id, 0x21), 0);
    net.run();
    Event response = server.take();
    EXPECT_EQ(response.type, EventType::connect_response);
    EXPECT_EQ(response.id, active);
    ASSERT_EQ(server->accept(active, nullptr, 0, net.now), 0);
    net.run();
    EXPECT_EQ(server.take().type, EventType::established);
    destroy(server, active);
    net.run();
    EXPECT_EQ(server.take().type, EventType::disconnected);
    destroy(server, request.id);
    net.run(kMinute);
    EXPECT_EQ(server->counts().connections, 0u);
    EXPECT_EQ(server->next_deadline(), kNever);
}

TEST_F(Listen, Ipv6Connection) {
    listener(server, any6(7471));
    IdNumber active = connecting(client, server.address6(7471), 0x11);
    wire::CmaHeader header;
    wire::Req req = net.log.back().as<wire::Req>();
    ASSERT_TRUE(wire::decode(std::span(req.private_data).first<36>(), header));
    EXPECT_EQ(header.ip_version, 6);
    EXPECT_EQ(req.primary.local_gid, client.address6().address);
    net.run();
    IdNumber child = server.take().id;
    EXPECT_EQ(query(server, child).remote.address, client.address6().address);
    EXPECT_EQ(query(server, child).remote.family, AF_INET6);
    ASSERT_EQ(accept(server, child, 0x21), 0);
    net.run();
    ASSERT_EQ(client->accept(active, nullptr, 0, net.now), 0);
    net.run();
    EXPECT_EQ(server.take().type, EventType::established);
}

TEST_F(Listen, DeviceRemoval) {
    Connected c = establish();
    IdNumber elsewhere = create(client);
    ASSERT_EQ(client->bind(elsewhere, client.second_address(), false), 0);
    client->device_removed(0, net.now);
    Event event = client.take();
    EXPECT_EQ(event.type, EventType::device_removal);
    EXPECT_EQ(event.id, c.active);
    EXPECT_TRUE(client.quiet());
    IdInfo info;
    EXPECT_EQ(client->query(c.active, info), EIO);
    EXPECT_EQ(client->disconnect(c.active, net.now), EIO);
    EXPECT_EQ(client->query(elsewhere, info), 0);
    destroy(client, c.active);
    net.run();
    EXPECT_EQ(server.take().type, EventType::disconnected);
}

}  // namespace
}  // namespace verbena::cm::testing
