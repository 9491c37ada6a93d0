// A listener's backlog: what it takes, what waits for it, and how its program says what it has read.

#include "cm/held_requests.h"
#include "cm/testing.h"

namespace verbena::cm::testing {
namespace {

using Backlog = Pair;

TEST_F(Backlog, AFullBacklogDropsSilently) {
    listener(server, any4(7471), PortSpace::tcp, 2);
    IdNumber ids[3];
    for (std::uint32_t i = 0; i < 3; i++) ids[i] = connecting(client, server.address(7471), 0x11 + i);
    net.run();
    EXPECT_EQ(server.events.size(), 2u);
    EXPECT_EQ(net.conversation(), "REQ REQ REQ");
    EXPECT_TRUE(client.quiet());
    Event first = server.take();  // a place is free
    EXPECT_EQ(server.events.size(), 2u);
    net.run(kRequestInterval);
    EXPECT_EQ(server.events.size(), 2u);
    EXPECT_EQ(server.take().connection.qp_number, 0x12u);
    EXPECT_EQ(server.take().connection.qp_number, 0x13u);
    EXPECT_EQ(first.connection.qp_number, 0x11u);
    EXPECT_TRUE(client.quiet());
    static_cast<void>(ids);
}

TEST_F(Backlog, AFullBacklogIsServedAtTheRepetitionWhenTheProgramIsSlow) {
    listener(server, any4(7471), PortSpace::tcp, 1);
    connecting(client, server.address(7471), 0x11);
    connecting(client, server.address(7471), 0x12);
    net.run(HeldRequests::kBacklog + kSecond);
    EXPECT_EQ(server.events.size(), 1u);
    server.take();
    EXPECT_TRUE(server.quiet());
    net.run(kRequestInterval);
    EXPECT_EQ(server.take().connection.qp_number, 0x12u);
    EXPECT_TRUE(client.quiet());
}

// Its program destroys the id meanwhile, or is killed.
TEST_F(Backlog, WhoGivesUpWhileItWaitsIsNotServed) {
    listener(server, any4(7471), PortSpace::tcp, 1);
    IdNumber ids[4];
    for (std::uint32_t i = 0; i < 4; i++) ids[i] = connecting(client, server.address(7471), 0x11 + i);
    net.run();
    destroy(client, ids[1]);
    net.run();
    EXPECT_EQ(net.conversation(), "REQ REQ REQ REQ REJ");
    for (std::uint32_t qpn : {0x11u, 0x13u, 0x14u}) EXPECT_EQ(server.take().connection.qp_number, qpn);
    EXPECT_TRUE(server.quiet());
    net.run(kMinute);
    EXPECT_TRUE(server.quiet());
}

TEST_F(Backlog, AnotherListenerOfThePortTakesNothingFromAFullOne) {
    listener(server, server.address(7471), PortSpace::tcp, 1);
    for (std::uint32_t qpn : {0x11u, 0x12u}) connecting(client, server.address(7471), qpn);
    net.run();
    listener(server, server.second_address(7471));
    net.run();
    for (std::uint32_t qpn : {0x11u, 0x12u}) EXPECT_EQ(server.take().connection.qp_number, qpn);
}

TEST_F(Backlog, EachListenerOfAPortHasABacklogOfItsOwn) {
    listener(server, server.address(7471), PortSpace::tcp, 1);
    listener(server, server.second_address(7471), PortSpace::tcp, 1);
    for (std::uint32_t qpn : {0x11u, 0x12u}) connecting(client, server.address(7471), qpn);
    for (std::uint32_t qpn : {0x21u, 0x22u, 0x23u}) connecting(client, server.second_address(7471), qpn);
    net.run();
    for (std::uint32_t qpn : {0x11u, 0x21u, 0x12u, 0x22u, 0x23u})
        EXPECT_EQ(server.take().connection.qp_number, qpn);
    EXPECT_TRUE(server.quiet());
}

// A program that counts what it has read, and tells only if it is asked to.
class CountingListener : public Backlog {
   protected:
    struct Counts {
        std::uint32_t read = 0;
        bool tell = false;
    };
    class Taken final : public TakenRequests {
       public:
        explicit Taken(Counts& counts) : counts_(counts) {}
        std::uint32_t news() override { return counts_.read - std::exchange(seen_, counts_.read); }
        void tell_each() override { counts_.tell = true; }

       private:
        Counts& counts_;
        std::uint32_t seen_ = 0;
    };

    IdNumber counting(int backlog) {
        counts = {};
        IdNumber id = create(server);
        EXPECT_EQ(server->bind(id, any4(7471), false), 0);
        EXPECT_EQ(server->listen(id, backlog, std::make_unique<Taken>(counts)), 0);
        return id;
    }
    void connect_as(std::uint32_t qpn) {
        connecting(client, server.address(7471), qpn);
        net.run();
    }
    Event read() {
        EXPECT_FALSE(server.events.empty());
        Event event = server.events.front().second;
        server.events.pop_front();
        counts.read++;
        if (counts.tell) server->request_taken(event.listen_id);
        return event;
    }
    Counts counts;
};

TEST_F(CountingListener, IsNotAskedToTellWhileItKeepsUp) {
    counting(1);
    for (std::uint32_t qpn = 0x11; qpn < 0x15; qpn++) {
        connect_as(qpn);
        EXPECT_EQ(read().connection.qp_number, qpn);
    }
    EXPECT_FALSE(counts.tell);
    EXPECT_TRUE(server.quiet());
}

TEST_F(CountingListener, TellsOnceTheBacklogWasFull) {
    counting(1);
    for (std::uint32_t qpn : {0x11u, 0x12u, 0x13u}) connect_as(qpn);
    EXPECT_TRUE(counts.tell);
    EXPECT_EQ(server.events.size(), 1u);
    // Each that is read makes room for the next, at once.
    for (std::uint32_t qpn : {0x11u, 0x12u, 0x13u}) EXPECT_EQ(read().connection.qp_number, qpn);
    EXPECT_TRUE(server.quiet());
}

// Nobody has told yet that there is room again.
TEST_F(CountingListener, WhatComesDoesNotOvertakeWhatWaits) {
    counting(1);
    for (std::uint32_t qpn : {0x11u, 0x12u}) connect_as(qpn);
    counts.read++;
    connect_as(0x13);
    for (std::uint32_t qpn : {0x11u, 0x12u}) {
        ASSERT_FALSE(server.events.empty());
        EXPECT_EQ(server.events.front().second.connection.qp_number, qpn);
        server.events.pop_front();
    }
    EXPECT_TRUE(server.quiet());
}

TEST_F(CountingListener, WhatWasReadIsNotTakenAlong) {
    for (const bool migrate : {false, true}) {
        const IdNumber listen = counting(2);
        connect_as(0x11);
        const IdNumber known = read().id;
        connect_as(0x12);
        const IdNumber unread = server.events.front().second.id;
        IdInfo info;
        std::uint64_t delivered = 0;
        if (migrate) {
            ASSERT_EQ(server->migrate(listen, 5, delivered), 0);
            server->close_file(5, net.now);
        } else {
            destroy(server, listen);
        }
        EXPECT_EQ(server->query(known, info), 0);
        EXPECT_EQ(server->query(unread, info), ENOENT);
        server->close_file(kFile, net.now);
        client->close_file(kFile, net.now);
        server.events.clear();
        net.run(kMinute);
    }
}

// What was read of a child that its device has left counts for that child.
TEST_F(CountingListener, AChildWithoutADeviceTakesItsPlaceUntilItIsRead) {
    const IdNumber listen = counting(2);
    connecting(client, server.second_address(7471), 0x11);
    net.run();
    connect_as(0x12);
    server->device_removed(1, net.now);
    read();
    destroy(server, listen);
    IdInfo info;
    EXPECT_EQ(server->query(server.events.front().second.id, info), ENOENT) << "nobody has read it";
}

TEST_F(CountingListener, WhatItSaysIsBelievedOfUnreadOnesOnly) {
    counting(2);
    connect_as(0x11);
    counts.read = 1000;
    for (std::uint32_t qpn : {0x12u, 0x13u, 0x14u, 0x15u}) connect_as(qpn);
    EXPECT_EQ(server.events.size(), 4u) << "two that it may have read, and a backlog";
}

TEST_F(Backlog, RequestsBeyondTheBacklogAreRefusedWithTheirListener) {
    for (bool ended : {false, true}) {
        IdNumber listen = listener(server, any4(7471), PortSpace::tcp, 1);
        connecting(client, server.address(7471), 0x11);
        connecting(client, server.address(7471), 0x12);
        net.run();
        if (ended)
            server->close_file(kFile, net.now);
        else
            destroy(server, listen);
        net.run();
        EXPECT_EQ(client.take().status, 28);
        if (!ended) {
            EXPECT_TRUE(client.quiet());
            net.run(HeldRequests::kReopening);
        }
        EXPECT_EQ(client.take().status, 8);
        server.events.clear();
        client->close_file(kFile, net.now);
        net.run(kMinute);
    }
}

// What waits for one of them is not for the other, whose program has ended.
TEST_F(Backlog, AProgramThatEndsTakesNothingFromAnotherListenerOfThePort) {
    const IdNumber full = listener(server, server.address(7471), PortSpace::tcp, 1);
    const IdNumber other = listener(server, server.second_address(7471));
    std::uint64_t delivered = 0;
    ASSERT_EQ(server->migrate(other, 5, delivered), 0);
    for (std::uint32_t qpn : {0x11u, 0x12u, 0x13u}) connecting(client, server.address(7471), qpn);
    net.run();
    server->close_file(5, net.now);
    net.run();
    EXPECT_TRUE(client.quiet());
    for (std::uint32_t qpn : {0x11u, 0x12u, 0x13u}) {
        const Event request = server.take();
        EXPECT_EQ(request.connection.qp_number, qpn);
        EXPECT_EQ(request.listen_id, full);
    }
}

TEST_F(Backlog, BacklogLimits) {
    for (int wish : {0, -1, 5000}) {
        IdNumber id = listener(server, any4(7471), PortSpace::tcp, wish);
        for (std::uint32_t i = 0; i < 1030; i++) {
            IdNumber c = connecting(client, server.address(7471), 0x1000 + i);
            static_cast<void>(c);
        }
        net.run();
        EXPECT_EQ(server.events.size(), 1024u);
        destroy(server, id);
        client->close_file(kFile, net.now);
        client.events.clear();
        server.events.clear();
        net.run(kMinute);
    }
}

}  // namespace
}  // namespace verbena::cm::testing
