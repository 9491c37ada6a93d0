// Stale connections (IBA 12.4.1): a peer uses a QP that, as far as we know, is connected to us.

#include "cm/testing.h"

namespace verbena::cm::testing {
namespace {

using wire::CmAttribute;

class Stale : public Pair {
   protected:
    // Destroyed by both programs; what is left is in timewait.
    void end(const Connected& c) {
        destroy(client, c.active);
        net.run();
        server.take();
        destroy(server, c.passive);
        net.run();
    }
};

// The peer knows that the old connection is over; our QP of it is in quarantine.
TEST_F(Stale, QpInTimewaitMayConnectAnew) {
    Connected c = establish();
    end(c);
    std::size_t before = net.log.size();
    connecting(client, server.address(7471), 0x11);
    net.run();
    EXPECT_EQ(server.take().type, EventType::connect_request);
    EXPECT_EQ(net.conversation(before), "REQ");
    EXPECT_TRUE(server.quarantine.contains(0x21));
}

TEST_F(Stale, QpInTimewaitMayAnswerAnew) {
    Connected c = establish();
    end(c);
    connecting(client, server.address(7471), 0x12);
    net.run();
    ASSERT_EQ(accept(server, server.take().id, 0x21), 0);
    net.run();
    EXPECT_EQ(client.take().type, EventType::connect_response);
}

TEST_F(Stale, CommIdOfAConnectionInTimewaitIsNewWithAnotherTransaction) {
    Connected c = establish();
    const Sent first = net.sent(CmAttribute::req)[0];
    end(c);
    net.inject(server, first.path, first.mad);  // a copy that was long under way
    net.run();
    EXPECT_TRUE(server.quiet());
    Mad other = first.mad;
    other[15] ^= 1;  // of the transaction id
    net.inject(server, first.path, other);
    net.run();
    EXPECT_EQ(server.take().type, EventType::connect_request);
}

TEST_F(Stale, QpOfALiveConnectionIsStale) {
    establish();
    std::size_t before = net.log.size();
    connecting(client, server.address(7471), 0x11);
    net.run();
    EXPECT_EQ(net.conversation(before), "REQ REJ DREQ");
    Event event = client.take();
    EXPECT_EQ(event.type, EventType::rejected);
    EXPECT_EQ(event.status, 10);
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

TEST_F(Stale, OrphanThatWaitsForItsDrepIsNoLiveConnection) {
    Connected c = establish();
    net.fate = drop_all(CmAttribute::dreq);
    destroy(server, c.passive);
    net.run();
    net.fate = nullptr;
    client.forget_manager();
    client.events.clear();
    connecting(client, server.address(7471), 0x11);
    net.run();
    EXPECT_EQ(server.take().type, EventType::connect_request);
}

}  // namespace
}  // namespace verbena::cm::testing
