// Stale connections (IBA 12.4.1): a peer uses a QP that, as far as we know, is connected to us.

#include "cm/testing.h"

namespace verbena::cm::testing {
namespace {

using wire::CmAttribute;

constexpr Duration kTimewait = iba_timeout(19);

class Stale : public Pair {};

TEST_F(Stale, QpInTimewaitIsStale) {
    Connected c = establish();
    destroy(client, c.active);
    net.run();
    server.take();
    destroy(server, c.passive);
    net.run();
    std::size_t before = net.log.size();
    IdNumber again = connecting(client, server.address(7471), 0x11);
    net.run();
    Event event = client.take();
    EXPECT_EQ(event.type, EventType::rejected);
    EXPECT_EQ(event.status, 10);
    EXPECT_EQ(net.conversation(before), "REQ REJ");
    net.run(kTimewait);
    destroy(client, again);
    connecting(client, server.address(7471), 0x11);
    net.run();
    EXPECT_EQ(server.take().type, EventType::connect_request);
}

TEST_F(Stale, PeerThatForgotTheConnectionIsToldAndItsOldOneEnded) {
    Connected c = establish();
    client.forget_manager();
    client.events.clear();
    std::size_t before = net.log.size();
    IdNumber again = connecting(client, server.address(7471), 0x11);
    net.run();
    EXPECT_EQ(client.take().status, 10);
    EXPECT_EQ(net.conversation(before), "REQ REJ DREQ DREP");
    EXPECT_EQ(server.take().type, EventType::disconnected);
    destroy(server, c.passive);
    destroy(client, again);
    net.run(kMinute);
    connecting(client, server.address(7471), 0x11);
    net.run();
    EXPECT_EQ(server.take().type, EventType::connect_request);
}

TEST_F(Stale, StaleQpInAReply) {
    Connected c = establish(7471, 0x11, 0x21);
    server.forget_manager();
    server.events.clear();
    listener(server, any4(7471));
    IdNumber id = connecting(client, server.address(7471), 0x12);
    net.run();
    IdNumber child = server.take().id;
    std::size_t before = net.log.size();
    ASSERT_EQ(accept(server, child, 0x21), 0);  // the QP of the connection that the client still has
    net.run();
    EXPECT_EQ(net.conversation(before), "REP REJ DREQ DREP");
    Event event = server.take();
    EXPECT_EQ(event.type, EventType::rejected);
    EXPECT_EQ(event.status, 10);
    event = client.take();
    EXPECT_EQ(event.type, EventType::disconnected);
    EXPECT_EQ(event.id, c.active);
    EXPECT_EQ(query(client, id).state, IdState::connect);
}

TEST_F(Stale, RestartedDaemonConnectsAtOnce) {
    establish();
    client.forget_manager();
    client.events.clear();
    connecting(client, server.address(7471), 0x13);
    net.run();
    EXPECT_EQ(server.take().type, EventType::connect_request);
}

TEST_F(Stale, StaleRequestEndsAnOrphansWaiting) {
    Connected c = establish();
    net.fate = drop_all(CmAttribute::dreq);
    destroy(server, c.passive);
    net.run();
    net.fate = nullptr;
    client.forget_manager();
    client.events.clear();
    connecting(client, server.address(7471), 0x11);
    net.run();
    EXPECT_EQ(client.take().status, 10);
    net.run(kTimewait);
    connecting(client, server.address(7471), 0x11);
    net.run();
    EXPECT_EQ(server.take().type, EventType::connect_request);
    EXPECT_EQ(net.sent(CmAttribute::dreq).size(), 1u);
}

}  // namespace
}  // namespace verbena::cm::testing
