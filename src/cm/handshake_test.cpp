// REQ, REP and RTU: the fields of the messages, what each program hears, and which values it may ask for.

#include <algorithm>

#include "cm/testing.h"

namespace verbena::cm::testing {
namespace {

using wire::CmAttribute;

class Handshake : public Pair {};

TEST_F(Handshake, ConnectsAndDisconnects) {
    Connected c = establish();
    EXPECT_EQ(net.conversation(), "REQ REP RTU");
    EXPECT_EQ(query(client, c.active).state, IdState::established);
    EXPECT_EQ(query(server, c.passive).state, IdState::established);
    ASSERT_EQ(client->disconnect(c.active, net.now), 0);
    net.run();
    Event at_server = server.take();
    EXPECT_EQ(at_server.type, EventType::disconnected);
    EXPECT_EQ(at_server.status, 0);
    EXPECT_EQ(at_server.user_handle, 0x2000u);  // what accept set
    EXPECT_TRUE(client.quiet());                // until the server's program says that it is done
    ASSERT_EQ(server->disconnect(c.passive, net.now), 0);
    net.run();
    EXPECT_EQ(client.take().type, EventType::disconnected);
    EXPECT_EQ(net.conversation(), "REQ REP RTU DREQ DREP");
    net.run(iba_timeout(19));
    EXPECT_EQ(client.take().type, EventType::timewait_exit);
    EXPECT_EQ(server.take().type, EventType::timewait_exit);
}

TEST_F(Handshake, RequestFieldsAreLinuxs) {
    IdNumber listen = listener(server, any4(7430));
    IdNumber id = create(client);
    ASSERT_EQ(client->resolve_address(id, nullptr, server.address(7430), kSecond, net.now), 0);
    ASSERT_EQ(client->resolve_route(id, kSecond, net.now), 0);
    ASSERT_EQ(client->connect(id, parameters(0x11, "hello"), net.now), 0);
    ASSERT_EQ(net.log.size(), 1u);
    const Sent& sent = net.log[0];
    auto req = sent.as<wire::Req>();
    IdInfo info = query(client, id);

    EXPECT_EQ(sent.path.udp_source_port, 55410);
    EXPECT_EQ(sent.header().transaction_id, std::uint64_t{2} << 32 | __builtin_bswap32(req.local_comm_id));
    EXPECT_EQ(req.service_id, 0x0000000001061d06u);
    EXPECT_EQ(req.local_ca_guid, client.node_guid(0));
    EXPECT_EQ(req.local_qkey, 0u);
    EXPECT_EQ(req.local_qpn, 0x11u);
    EXPECT_EQ(req.responder_resources, 1);
    EXPECT_EQ(req.initiator_depth, 1);
    EXPECT_EQ(req.remote_cm_response_timeout, 20);
    EXPECT_EQ(req.local_cm_response_timeout, 20);
    EXPECT_EQ(req.retry_count, 7);
    EXPECT_EQ(req.rnr_retry_count, 7);
    EXPECT_EQ(req.max_cm_retries, 15);
    EXPECT_EQ(req.pkey, 0xffff);
    EXPECT_EQ(req.path_mtu, 3);
    EXPECT_EQ(req.primary.local_lid, 0xffff);
    EXPECT_EQ(req.primary.remote_lid, 0xffff);
    EXPECT_EQ(req.primary.local_gid, client.address().address);
    EXPECT_EQ(req.primary.remote_gid, server.address().address);
    EXPECT_EQ(req.primary.flow_label, (info.local.port * 31u + 7430u) & 0xfffff);
    EXPECT_EQ(req.primary.packet_rate, 0);
    EXPECT_EQ(req.primary.hop_limit, 64);
    EXPECT_EQ(req.primary.local_ack_timeout, 19);
    EXPECT_EQ(req.alternate, wire::CmPath{});
    EXPECT_EQ(info.route.flow_label, req.primary.flow_label);
    wire::CmaHeader header;
    ASSERT_TRUE(wire::decode(std::span(req.private_data).first<36>(), header));
    EXPECT_EQ(header.ip_version, 4);
    EXPECT_EQ(header.port, info.local.port);
    EXPECT_EQ(header.source_gid(), client.address().address);
    EXPECT_EQ(header.destination_gid(), server.address().address);
    EXPECT_STREQ(reinterpret_cast<const char*>(req.private_data.data() + 36), "hello");

    net.run();
    Event event = server.take();
    EXPECT_EQ(event.type, EventType::connect_request);
    EXPECT_EQ(event.listen_id, listen);
    EXPECT_EQ(event.user_handle, 0x1000u);
    EXPECT_EQ(event.connection.private_data_length, 56);  // always the most, zero-padded
    EXPECT_EQ(text_of(event.connection), "hello");
    EXPECT_EQ(event.connection.qp_number, 0x11u);
    IdInfo child = query(server, event.id);
    EXPECT_EQ(child.local.address, server.address().address);
    EXPECT_EQ(child.local.port, 7430);
    EXPECT_EQ(child.remote.address, client.address().address);
    EXPECT_EQ(child.remote.port, info.local.port);
    EXPECT_EQ(child.route.flow_label, info.route.flow_label);
    EXPECT_EQ(child.route.destination_gid, client.address().address);

    ASSERT_EQ(accept(server, event.id, 0x21, "welcome"), 0);
    const Sent& answer = net.log[1];
    auto rep = answer.as<wire::Rep>();
    EXPECT_EQ(answer.header().transaction_id, sent.header().transaction_id);
    EXPECT_EQ(rep.remote_comm_id, req.local_comm_id);
    EXPECT_EQ(rep.local_qpn, 0x21u);
    EXPECT_EQ(rep.target_ack_delay, 15);
    EXPECT_EQ(rep.failover_accepted, 0);
    EXPECT_EQ(rep.rnr_retry_count, 7);
    EXPECT_EQ(rep.local_ca_guid, server.node_guid(0));
    EXPECT_EQ(answer.mad[24 + 26], 0x78);
    EXPECT_EQ(answer.mad[24 + 27], 0xe0);
    net.run();
    client.take();
    client.take();
    Event response = client.take();
    EXPECT_EQ(response.type, EventType::connect_response);
    EXPECT_EQ(response.connection.private_data_length, 196);
    EXPECT_EQ(text_of(response.connection), "welcome");
    EXPECT_EQ(response.connection.qp_number, 0x21u);
}

TEST_F(Handshake, ResourcesSwapSides) {
    listener(server, any4(7471));
    IdNumber id = routed(client, server.address(7471));
    ConnectParameters p = parameters(0x11);
    p.responder_resources = 3;
    p.initiator_depth = 5;
    ASSERT_EQ(client->connect(id, p, net.now), 0);
    net.run();
    Event request = server.take();
    EXPECT_EQ(request.connection.responder_resources, 5);
    EXPECT_EQ(request.connection.initiator_depth, 3);
    ConnectParameters q = parameters(0x21);
    q.responder_resources = 4;
    q.initiator_depth = 2;
    ASSERT_EQ(server->accept(request.id, &q, 0, net.now), 0);
    net.run();
    Event response = client.take();
    EXPECT_EQ(response.connection.responder_resources, 2);
    EXPECT_EQ(response.connection.initiator_depth, 4);
    QpTransition rtr, rts;
    ASSERT_EQ(client->init_qp_attributes(id, 2, rtr), 0);
    ASSERT_EQ(client->init_qp_attributes(id, 3, rts), 0);
    EXPECT_EQ(rtr.max_dest_rd_atomic, 2);
    EXPECT_EQ(rts.max_rd_atomic, 4);
    ASSERT_EQ(server->init_qp_attributes(request.id, 2, rtr), 0);
    ASSERT_EQ(server->init_qp_attributes(request.id, 3, rts), 0);
    EXPECT_EQ(rtr.max_dest_rd_atomic, 4);
    EXPECT_EQ(rts.max_rd_atomic, 2);
}

// What the program's library would ask for after an event came with it.
TEST_F(Handshake, EventsTellWhatIsNeededNext) {
    const auto told_as_asked = [this](Host& host, const Event& event) {
        const IdInfo asked = query(host, event.id);
        EXPECT_EQ(event.info.id, asked.id);
        EXPECT_EQ(event.info.local.port, asked.local.port);
        EXPECT_EQ(event.info.remote.port, asked.remote.port);
        EXPECT_EQ(event.info.route.destination_gid, asked.route.destination_gid);
        EXPECT_EQ(event.info.path_count, asked.path_count);
        for (const QpTransition& told : event.transitions) {
            if (told.mask == 0) continue;
            QpTransition transition;
            ASSERT_EQ(host->init_qp_attributes(event.id, told.state, transition), 0);
            EXPECT_EQ(told.mask, transition.mask);
            EXPECT_EQ(told.access, transition.access);
            EXPECT_EQ(told.destination_qp, transition.destination_qp);
            EXPECT_EQ(told.receive_psn, transition.receive_psn);
            EXPECT_EQ(told.send_psn, transition.send_psn);
            EXPECT_EQ(told.timeout, transition.timeout);
            EXPECT_EQ(told.max_rd_atomic, transition.max_rd_atomic);
            EXPECT_EQ(told.max_dest_rd_atomic, transition.max_dest_rd_atomic);
            EXPECT_EQ(told.route.destination_gid, transition.route.destination_gid);
        }
    };
    const auto told = [](const Event& event) {
        return std::count_if(event.transitions.begin(), event.transitions.end(),
                             [](const QpTransition& transition) { return transition.mask != 0; });
    };
    listener(server, any4(7471));
    const IdNumber id = create(client);
    ASSERT_EQ(client->resolve_address(id, nullptr, server.address(7471), kSecond, net.now), 0);
    Event event = client.take();
    EXPECT_EQ(event.type, EventType::addr_resolved);
    EXPECT_EQ(told(event), 1);  // INIT; of the peer nothing is known yet
    told_as_asked(client, event);
    ASSERT_EQ(client->resolve_route(id, kSecond, net.now), 0);
    told_as_asked(client, client.take());
    ASSERT_EQ(client->connect(id, parameters(0x11), net.now), 0);
    net.run();
    const Event request = server.take();
    EXPECT_EQ(request.type, EventType::connect_request);
    EXPECT_EQ(told(request), 3);
    told_as_asked(server, request);
    ASSERT_EQ(accept(server, request.id, 0x21), 0);
    net.run();
    event = client.take();
    EXPECT_EQ(event.type, EventType::connect_response);
    EXPECT_EQ(told(event), 3);
    EXPECT_EQ(event.transitions[1].destination_qp, 0x21u);
    told_as_asked(client, event);
}

TEST_F(Handshake, DepthLimits) {
    listener(server, any4(7471));
    IdNumber id = routed(client, server.address(7471));
    ConnectParameters p = parameters(0x11);
    p.responder_resources = kMaxRdAtomic + 1;
    EXPECT_EQ(client->connect(id, p, net.now), EINVAL);
    p.responder_resources = 1;
    p.initiator_depth = kMaxRdAtomic + 1;
    EXPECT_EQ(client->connect(id, p, net.now), EINVAL);
    p.responder_resources = 0xff;  // the device's most
    p.initiator_depth = 4;
    ASSERT_EQ(client->connect(id, p, net.now), 0);
    auto req = net.log.back().as<wire::Req>();
    EXPECT_EQ(req.responder_resources, kMaxRdAtomic);
    EXPECT_EQ(req.initiator_depth, 4);
    net.run();
    Event request = server.take();
    ConnectParameters q = parameters(0x21);
    q.responder_resources = 0xff;  // what the peer asks for, if the device can
    q.initiator_depth = 0xff;
    ASSERT_EQ(server->accept(request.id, &q, 0, net.now), 0);
    auto rep = net.log.back().as<wire::Rep>();
    EXPECT_EQ(rep.responder_resources, 4);
    EXPECT_EQ(rep.initiator_depth, kMaxRdAtomic);
}

TEST_F(Handshake, RetryCountsAreThreeBits) {
    listener(server, any4(7471));
    IdNumber id = routed(client, server.address(7471));
    ConnectParameters p = parameters(0x11);
    p.retry_count = 9;
    p.rnr_retry_count = 200;
    ASSERT_EQ(client->connect(id, p, net.now), 0);
    auto req = net.log.back().as<wire::Req>();
    EXPECT_EQ(req.retry_count, 7);
    EXPECT_EQ(req.rnr_retry_count, 7);
    net.run();
    IdNumber child = server.take().id;
    ConnectParameters q = parameters(0x21);
    q.retry_count = 1;  // not the passive side's to say
    q.rnr_retry_count = 3;
    ASSERT_EQ(server->accept(child, &q, 0, net.now), 0);
    net.run();
    client.take();
    QpTransition rts;
    ASSERT_EQ(client->init_qp_attributes(id, 3, rts), 0);
    EXPECT_EQ(rts.retry_count, 7);
    EXPECT_EQ(rts.rnr_retry, 3);
    ASSERT_EQ(server->init_qp_attributes(child, 3, rts), 0);
    EXPECT_EQ(rts.retry_count, 7);
    EXPECT_EQ(rts.rnr_retry, 7);
}

TEST_F(Handshake, PrivateDataLimits) {
    listener(server, any4(7471));
    IdNumber id = routed(client, server.address(7471));
    EXPECT_EQ(client->connect(id, parameters(0x11, std::string(57, 'x')), net.now), EINVAL);
    EXPECT_TRUE(net.log.empty());
    ASSERT_EQ(client->connect(id, parameters(0x11, std::string(56, 'x')), net.now), 0);
    net.run();
    IdNumber child = server.take().id;
    std::vector<std::uint8_t> too_much(149, 'x');
    EXPECT_EQ(server->reject(child, too_much, 28, net.now), EINVAL);
    EXPECT_EQ(accept(server, child, 0x21, std::string(196, 'x')), 0);
}

// As in Linux: the peer is not left waiting.
TEST_F(Handshake, AReplyThatCannotBeSentRejects) {
    listener(server, any4(7471));
    connecting(client, server.address(7471), 0x11);
    net.run();
    IdNumber child = server.take().id;
    EXPECT_EQ(accept(server, child, 0x21, std::string(197, 'x')), EINVAL);
    net.run();
    Event event = client.take();
    EXPECT_EQ(event.type, EventType::rejected);
    EXPECT_EQ(event.status, 28);
    EXPECT_EQ(accept(server, child, 0x21), EINVAL);
}

TEST_F(Handshake, EceTravels) {
    listener(server, any4(7471));
    IdNumber id = routed(client, server.address(7471));
    ConnectParameters p = parameters(0x11);
    p.ece_vendor_id = 0x123456;
    p.ece_attribute_mod = 0xabcdef01;
    ASSERT_EQ(client->connect(id, p, net.now), 0);
    net.run();
    Event request = server.take();
    EXPECT_EQ(request.connection.ece_vendor_id, 0x123456u);
    EXPECT_EQ(request.connection.ece_attribute_mod, 0xabcdef01u);
    ConnectParameters q = parameters(0x21);
    q.ece_vendor_id = 0x654321;
    q.ece_attribute_mod = 7;
    ASSERT_EQ(server->accept(request.id, &q, 0, net.now), 0);
    net.run();
    Event response = client.take();
    EXPECT_EQ(response.connection.ece_vendor_id, 0x654321u);
    EXPECT_EQ(response.connection.ece_attribute_mod, 7u);
}

TEST_F(Handshake, StartingPsnIsTheCallersOrRandom) {
    listener(server, any4(7471));
    IdNumber id = routed(client, server.address(7471));
    ConnectParameters p = parameters(0x11);
    p.starting_psn = 0x123456;
    ASSERT_EQ(client->connect(id, p, net.now), 0);
    net.run();
    IdNumber child = server.take().id;
    ASSERT_EQ(accept(server, child, 0x21), 0);
    net.run();
    client.take();
    QpTransition active_rtr, active_rts, passive_rtr, passive_rts;
    ASSERT_EQ(client->init_qp_attributes(id, 2, active_rtr), 0);
    ASSERT_EQ(client->init_qp_attributes(id, 3, active_rts), 0);
    ASSERT_EQ(server->init_qp_attributes(child, 2, passive_rtr), 0);
    ASSERT_EQ(server->init_qp_attributes(child, 3, passive_rts), 0);
    EXPECT_EQ(active_rtr.receive_psn, 0x123456u);
    EXPECT_EQ(passive_rts.send_psn, 0x123456u);
    EXPECT_EQ(active_rts.send_psn, passive_rtr.receive_psn);
    EXPECT_NE(passive_rtr.receive_psn, 0u);
    EXPECT_LE(passive_rtr.receive_psn, 0xffffffu);
    EXPECT_EQ(active_rtr.destination_qp, 0x21u);
    EXPECT_EQ(passive_rtr.destination_qp, 0x11u);
}

}  // namespace
}  // namespace verbena::cm::testing
