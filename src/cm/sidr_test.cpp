// UD ids: service id resolution, and multicast.

#include "cm/testing.h"

namespace verbena::cm::testing {
namespace {

using wire::CmAttribute;

constexpr Duration kInterval = iba_timeout(20);

class Datagram : public Pair {
   protected:
    IdNumber asking(const Endpoint& remote, std::string_view data = "") {
        IdNumber id = routed(client, remote, PortSpace::udp);
        EXPECT_EQ(client->connect(id, parameters(0x11, data), net.now), 0);
        return id;
    }
};

TEST_F(Datagram, Resolves) {
    IdNumber listen = listener(server, any4(7174), PortSpace::udp);
    IdNumber id = asking(server.address(7174), "hello");
    auto req = net.log.back().as<wire::SidrReq>();
    EXPECT_EQ(net.log.back().header().transaction_id,
              std::uint64_t{2} << 32 | __builtin_bswap32(req.request_id));
    EXPECT_EQ(req.pkey, 0xffff);
    EXPECT_EQ(req.service_id, 0x0000000001111c06u);
    net.run();
    Event request = server.take();
    EXPECT_EQ(request.type, EventType::connect_request);
    EXPECT_EQ(request.listen_id, listen);
    EXPECT_EQ(request.connection.private_data_length, 180);
    EXPECT_EQ(text_of(request.connection), "hello");
    EXPECT_EQ(request.ud_route.destination_gid, client.address().address);
    EXPECT_EQ(query(server, request.id).qp_type, QpType::ud);
    ASSERT_EQ(accept(server, request.id, 0x21, "welcome"), 0);
    auto rep = net.log.back().as<wire::SidrRep>();
    EXPECT_EQ(rep.status, wire::SidrStatus::success);
    EXPECT_EQ(rep.request_id, req.request_id);
    EXPECT_EQ(rep.qpn, 0x21u);
    EXPECT_EQ(rep.service_id, req.service_id);
    EXPECT_EQ(rep.qkey, 0x01234567u);
    net.run();
    Event event = client.take();
    EXPECT_EQ(event.type, EventType::established);
    EXPECT_EQ(event.status, 0);
    EXPECT_EQ(event.id, id);
    EXPECT_EQ(event.connection.qp_number, 0x21u);
    EXPECT_EQ(event.connection.qkey, 0x01234567u);
    EXPECT_EQ(event.connection.private_data_length, 136);
    EXPECT_EQ(text_of(event.connection), "welcome");
    EXPECT_EQ(event.ud_route.destination_gid, server.address().address);
    EXPECT_TRUE(server.quiet());  // nothing on the passive side
    EXPECT_EQ(accept(server, request.id, 0x21), EINVAL);
    EXPECT_EQ(server->disconnect(request.id, net.now), 0);
    net.run(kMinute);
    EXPECT_EQ(client->next_deadline(), kNever);
    EXPECT_EQ(server->next_deadline(), kNever);
}

TEST_F(Datagram, QkeyOfTheProgram) {
    listener(server, any4(7174), PortSpace::udp);
    IdNumber id = asking(server.address(7174));
    net.run();
    IdNumber child = server.take().id;
    ConnectParameters p = parameters(0x21);
    p.qkey = 0xabc;
    ASSERT_EQ(server->accept(child, &p, 0, net.now), 0);
    net.run();
    EXPECT_EQ(client.take().connection.qkey, 0xabcu);
    EXPECT_EQ(query(client, id).local_qkey, 0xabcu);
    QpTransition init;
    ASSERT_EQ(server->init_qp_attributes(child, 1, init), 0);
    EXPECT_EQ(init.qkey, 0xabcu);
}

TEST_F(Datagram, RefusalsAreUnreachable) {
    asking(server.address(7174));
    net.run();
    Event event = client.take();
    EXPECT_EQ(event.type, EventType::unreachable);
    EXPECT_EQ(event.status, 1);  // no listener
    listener(server, any4(7174), PortSpace::udp);
    asking(server.address(7174));
    net.run();
    const char words[] = "no";
    ASSERT_EQ(
        server->reject(server.take().id, {reinterpret_cast<const std::uint8_t*>(words), 2}, 28, net.now), 0);
    net.run();
    event = client.take();
    EXPECT_EQ(event.type, EventType::unreachable);
    EXPECT_EQ(event.status, 2);
    EXPECT_EQ(text_of(event.connection), "no");
    asking(server.address(7174));
    net.run();
    destroy(server, server.take().id);
    net.run();
    EXPECT_EQ(client.take().status, 2);
}

TEST_F(Datagram, AnAnswerThatCannotBeSentRejects) {
    listener(server, any4(7174), PortSpace::udp);
    asking(server.address(7174));
    net.run();
    IdNumber child = server.take().id;
    EXPECT_EQ(accept(server, child, 0x21, std::string(137, 'x')), EINVAL);
    net.run();
    EXPECT_EQ(client.take().status, 2);
    EXPECT_EQ(accept(server, child, 0x21), EINVAL);
}

TEST_F(Datagram, PrivateDataLimits) {
    listener(server, any4(7174), PortSpace::udp);
    IdNumber id = routed(client, server.address(7174), PortSpace::udp);
    EXPECT_EQ(client->connect(id, parameters(0x11, std::string(181, 'x')), net.now), EINVAL);
    ASSERT_EQ(client->connect(id, parameters(0x11, std::string(180, 'x')), net.now), 0);
    net.run();
    IdNumber child = server.take().id;
    std::vector<std::uint8_t> data(137);
    EXPECT_EQ(server->reject(child, data, 28, net.now), EINVAL);
    EXPECT_EQ(accept(server, child, 0x21, std::string(136, 'x')), 0);
}

TEST_F(Datagram, RepeatsThenGivesUp) {
    net.fate = drop_all(CmAttribute::sidr_req);
    asking(server.address(7174));
    Time start = net.now;
    net.run_to(start + 16 * kInterval - 1);
    EXPECT_TRUE(client.quiet());
    EXPECT_EQ(net.sent(CmAttribute::sidr_req).size(), 16u);
    net.run(1);
    Event event = client.take();
    EXPECT_EQ(event.type, EventType::unreachable);
    EXPECT_EQ(event.status, -ETIMEDOUT);
    EXPECT_EQ(client->next_deadline(), kNever);
}

TEST_F(Datagram, LostAndDoubledMessagesGoUnnoticed) {
    struct Case {
        CmAttribute type;
        int copies;
    };
    std::uint16_t port = 7000;
    std::size_t answers = 0;
    for (Case c : {Case{CmAttribute::sidr_req, 0}, Case{CmAttribute::sidr_req, 2},
                   Case{CmAttribute::sidr_rep, 0}, Case{CmAttribute::sidr_rep, 2}}) {
        listener(server, any4(++port), PortSpace::udp);
        net.fate = on_nth(c.type, 0, c.copies);
        asking(server.address(port));
        net.run(kInterval + kMillisecond);
        ASSERT_EQ(server.events.size(), 1u);
        EXPECT_EQ(net.sent(CmAttribute::sidr_rep).size(), answers);  // none before the program's
        ASSERT_EQ(accept(server, server.take().id, 0x21), 0);
        net.run(kInterval + kMillisecond);
        answers = net.sent(CmAttribute::sidr_rep).size();
        ASSERT_EQ(client.events.size(), 1u);
        EXPECT_EQ(client.take().type, EventType::established);
        EXPECT_TRUE(server.quiet());
    }
}

TEST_F(Datagram, DestroyedClientIsSilent) {
    listener(server, any4(7174), PortSpace::udp);
    IdNumber id = asking(server.address(7174));
    destroy(client, id);
    EXPECT_EQ(client->next_deadline(), kNever);
    net.run();
    EXPECT_EQ(accept(server, server.take().id, 0x21), 0);
    net.run(kMinute);
    EXPECT_TRUE(client.quiet());
    EXPECT_EQ(net.conversation(), "SIDR_REQ SIDR_REP");
}

TEST_F(Datagram, BacklogDropsSilently) {
    listener(server, any4(7174), PortSpace::udp, 1);
    asking(server.address(7174));
    asking(server.address(7174));
    net.run();
    EXPECT_EQ(server.events.size(), 1u);
    EXPECT_EQ(net.conversation(), "SIDR_REQ SIDR_REQ");
    server.take();
    net.run(kInterval);
    EXPECT_EQ(server.events.size(), 1u);
}

// --- multicast

TEST_F(Datagram, JoinMapsTheGroup) {
    IdNumber id = create(client, PortSpace::udp);
    Endpoint group = ipv4(0xef010101);
    EXPECT_EQ(client->join_multicast(id, group, 0, 77, net.now), EINVAL);  // idle
    ASSERT_EQ(client->bind(id, client.address(), false), 0);
    ASSERT_EQ(client->join_multicast(id, group, 0, 77, net.now), 0);
    Event event = client.take();
    EXPECT_EQ(event.type, EventType::multicast_join);
    EXPECT_EQ(event.status, 0);
    EXPECT_EQ(event.argument, 77u);
    EXPECT_EQ(event.connection.qp_number, 0xffffffu);
    EXPECT_EQ(event.connection.qkey, 0x01234567u);
    EXPECT_EQ(event.ud_route.destination_gid, group.address);  // ::ffff:239.1.1.1
    EXPECT_EQ(event.ud_route.hop_limit, 64);
    EXPECT_EQ(event.ud_route.device, 0u);
    std::uint64_t delivered = 0;
    EXPECT_EQ(client->leave_multicast(id, ipv4(0xef010102), delivered), EADDRNOTAVAIL);
    ASSERT_EQ(client->leave_multicast(id, group, delivered), 0);
    EXPECT_EQ(delivered, 1u);
    EXPECT_EQ(client->leave_multicast(id, group, delivered), EADDRNOTAVAIL);
}

TEST_F(Datagram, JoinChecks) {
    IdNumber everywhere = create(client, PortSpace::udp);
    ASSERT_EQ(client->bind(everywhere, any4(), false), 0);
    EXPECT_EQ(client->join_multicast(everywhere, ipv4(0xef010101), 0, 0, net.now), EINVAL);  // no device yet
    IdNumber id = create(client, PortSpace::udp);
    ASSERT_EQ(client->bind(id, client.address(), false), 0);
    EXPECT_EQ(client->join_multicast(id, any4(), 0, 0, net.now), EINVAL);
    EXPECT_EQ(client->join_multicast(id, server.address(), 0, 0, net.now), EINVAL);
    EXPECT_EQ(client->join_multicast(id, ipv4(0xef010101), 2, 0, net.now), EINVAL);
    EXPECT_EQ(client->join_multicast(id, ipv4(0xef010101), 1, 0, net.now), 0);  // send-only
    EXPECT_EQ(client.take().ud_route.destination_gid, ipv4(0xef010101).address);
    Endpoint group6 = ipv6(1, 0, 0xff);
    group6.address.bytes[1] = 0x0e;
    EXPECT_EQ(client->join_multicast(id, group6, 0, 0, net.now), EINVAL);  // its source is an IPv4 GID
    IdNumber id6 = create(client, PortSpace::udp);
    ASSERT_EQ(client->bind(id6, client.address6(), false), 0);
    EXPECT_EQ(client->join_multicast(id6, group6, 0, 0, net.now), 0);
    EXPECT_EQ(client.take().ud_route.destination_gid, group6.address);
    IdNumber rc = create(client);
    ASSERT_EQ(client->bind(rc, any4(), false), 0);
    EXPECT_EQ(client->join_multicast(rc, ipv4(0xef010101), 0, 0, net.now), EINVAL);
}

TEST_F(Datagram, ResolvingAGroupAsksNobody) {
    client.neighbor_error = EHOSTUNREACH;
    IdNumber id = create(client, PortSpace::udp);
    ASSERT_EQ(client->resolve_address(id, nullptr, ipv4(0xef010101, 0), kSecond, net.now), 0);
    EXPECT_EQ(client.take().type, EventType::addr_resolved);
    EXPECT_EQ(client->join_multicast(id, ipv4(0xef010101), 0, 0, net.now), 0);
}

}  // namespace
}  // namespace verbena::cm::testing
