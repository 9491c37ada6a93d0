// DREQ, DREP, timewait, stale connections, and what the peer hears when an id is destroyed in any state.

#include "cm/testing.h"

namespace verbena::cm::testing {
namespace {

using wire::CmAttribute;

constexpr Duration kActiveInterval = 2 * iba_timeout(18) + iba_timeout(20);
constexpr Duration kTimewait = iba_timeout(19);

class Disconnect : public Pair {};

TEST_F(Disconnect, RepeatedUntilItTimesOut) {
    Connected c = establish();
    net.fate = drop_all(CmAttribute::dreq);
    Time start = net.now;
    ASSERT_EQ(client->disconnect(c.active, start), 0);
    ASSERT_EQ(client->disconnect(c.active, start), 0);  // again: nothing more to say, no error
    net.run_to(start + 16 * kActiveInterval - 1);
    EXPECT_TRUE(client.quiet());
    std::vector<Sent> sent = net.sent(CmAttribute::dreq);
    ASSERT_EQ(sent.size(), 16u);
    for (std::size_t i = 0; i < sent.size(); i++)
        EXPECT_EQ(sent[i].time, start + static_cast<Time>(i) * kActiveInterval);
    net.run(1);
    Event event = client.take();
    EXPECT_EQ(event.type, EventType::disconnected);
    EXPECT_EQ(event.status, -ETIMEDOUT);
    net.run(kTimewait);
    EXPECT_EQ(client.take().type, EventType::timewait_exit);
}

TEST_F(Disconnect, FieldsOfEitherSide) {
    Connected c = establish(7471, 0x11, 0x21);
    std::uint64_t transaction = net.log[0].header().transaction_id;
    ASSERT_EQ(client->disconnect(c.active, net.now), 0);
    EXPECT_EQ(net.log.back().header().transaction_id, transaction);  // the REQ's
    EXPECT_EQ(net.log.back().as<wire::Dreq>().remote_qpn, 0x21u);
    destroy(client, c.active);
    net.run(kMinute);
    server.take();
    destroy(server, c.passive);
    destroy(server, c.listen);
    net.run(kMinute);

    c = establish(7472, 0x12, 0x22);
    ASSERT_EQ(server->disconnect(c.passive, net.now), 0);
    const Sent& dreq = net.log.back();
    std::uint32_t own = dreq.as<wire::Dreq>().local_comm_id;
    EXPECT_EQ(dreq.header().transaction_id, std::uint64_t{2} << 32 | __builtin_bswap32(own));
    EXPECT_EQ(dreq.as<wire::Dreq>().remote_qpn, 0x12u);
    net.run();
    ASSERT_EQ(client->disconnect(c.active, net.now), 0);
    EXPECT_EQ(net.log.back().type(), CmAttribute::drep);
    EXPECT_EQ(net.log.back().header().transaction_id, net.log[net.log.size() - 2].header().transaction_id);
}

TEST_F(Disconnect, BothAtOnce) {
    Connected c = establish();
    ASSERT_EQ(client->disconnect(c.active, net.now), 0);
    ASSERT_EQ(server->disconnect(c.passive, net.now), 0);
    net.run();
    EXPECT_EQ(client.take().type, EventType::disconnected);
    EXPECT_EQ(server.take().type, EventType::disconnected);
    net.run(kTimewait);
    EXPECT_EQ(client.take().type, EventType::timewait_exit);
    EXPECT_EQ(server.take().type, EventType::timewait_exit);
    EXPECT_TRUE(client.quiet());
    EXPECT_TRUE(server.quiet());
    EXPECT_EQ(client->next_deadline(), kNever);
}

TEST_F(Disconnect, UnknownDreqIsAnswered) {
    wire::Dreq dreq;
    dreq.local_comm_id = 5;
    dreq.remote_comm_id = 6;
    dreq.remote_qpn = 7;
    wire::Path path{client.address().address, server.address().address, 10, 55410, 0, 64};
    net.inject(server, path, make_mad(42, dreq));
    ASSERT_EQ(net.conversation(), "DREP");
    auto drep = net.log[0].as<wire::Drep>();
    EXPECT_EQ(drep.local_comm_id, 6u);
    EXPECT_EQ(drep.remote_comm_id, 5u);
    EXPECT_EQ(net.log[0].header().transaction_id, 42u);
}

TEST_F(Disconnect, DreqForAnotherQpIsIgnored) {
    Connected c = establish();
    wire::Dreq dreq;
    dreq.local_comm_id = net.log[0].as<wire::Req>().local_comm_id;
    dreq.remote_comm_id = net.log[1].as<wire::Rep>().local_comm_id;
    dreq.remote_qpn = 0x22;
    wire::Path path{client.address().address, server.address().address, 10, 55410, 0, 64};
    net.inject(server, path, make_mad(42, dreq));
    net.run();
    EXPECT_TRUE(server.quiet());
    EXPECT_EQ(query(server, c.passive).state, IdState::established);
    dreq.remote_qpn = 0x21;
    net.inject(server, path, make_mad(42, dreq));
    EXPECT_EQ(server.take().type, EventType::disconnected);
}

TEST_F(Disconnect, DreqBeforeTheRtuArrived) {
    listener(server, any4(7471));
    IdNumber id = connecting(client, server.address(7471), 0x11);
    net.run();
    IdNumber child = server.take().id;
    ASSERT_EQ(accept(server, child, 0x21), 0);
    net.run();
    net.fate = drop_all(CmAttribute::rtu);
    ASSERT_EQ(client->accept(id, nullptr, 0, net.now), 0);
    ASSERT_EQ(client->disconnect(id, net.now), 0);
    net.run();
    EXPECT_EQ(server.take().type, EventType::disconnected);
    ASSERT_EQ(server->disconnect(child, net.now), 0);
    net.run(kTimewait);
    EXPECT_EQ(server.take().type, EventType::timewait_exit);
    EXPECT_EQ(net.sent(CmAttribute::rep).size(), 1u);
}

TEST_F(Disconnect, TimewaitQuarantinesTheQp) {
    Connected c = establish();
    ASSERT_EQ(client->disconnect(c.active, net.now), 0);
    net.run(kSecond);
    Time entered = net.now;
    ASSERT_EQ(server->disconnect(c.passive, net.now), 0);
    EXPECT_EQ(server.quarantine.at(0x21), entered + kTimewait);
    net.run(kMillisecond);
    EXPECT_EQ(client.quarantine.at(0x11), entered + kLatency + kTimewait);
    server.take();
    net.run_to(entered + kTimewait - 1);
    EXPECT_TRUE(server.quiet());
    net.run(1);
    EXPECT_EQ(server.take().type, EventType::timewait_exit);
}

TEST_F(Disconnect, NeedsAConnection) {
    IdNumber id = routed(client, server.address(7471));
    EXPECT_EQ(client->disconnect(id, net.now), EINVAL);
    ASSERT_EQ(client->connect(id, parameters(0x11), net.now), 0);
    EXPECT_EQ(client->disconnect(id, net.now), 0);  // as in Linux, though nothing is sent
    EXPECT_EQ(net.conversation(), "REQ");
}

// --- destruction, state by state

TEST_F(Disconnect, DestroyWhileConnectingRejectsWithTimeout) {
    listener(server, any4(7471));
    IdNumber id = connecting(client, server.address(7471), 0x11);
    net.run();
    IdNumber child = server.take().id;
    destroy(client, id);
    auto rej = net.log.back().as<wire::Rej>();
    EXPECT_EQ(rej.reason, wire::RejReason::timeout);
    EXPECT_EQ(rej.message_rejected, wire::kRejectedNoMessage);
    EXPECT_EQ(rej.reject_info_length, 8);
    EXPECT_EQ(rej.local_comm_id, net.log[0].as<wire::Req>().local_comm_id);
    EXPECT_EQ(rej.remote_comm_id, 0u);
    std::uint64_t guid = client.node_guid(0);
    for (int i = 0; i < 8; i++)
        EXPECT_EQ(rej.ari[static_cast<std::size_t>(i)], static_cast<std::uint8_t>(guid >> (56 - 8 * i)));
    net.run();
    EXPECT_TRUE(server.quiet());  // not accepted yet: its program hears nothing
    EXPECT_EQ(accept(server, child, 0x21), EINVAL);
    destroy(server, child);
    EXPECT_EQ(net.conversation(), "REQ REJ");
}

TEST_F(Disconnect, AcceptAfterALostRejOfADestroyedClient) {
    listener(server, any4(7471));
    IdNumber id = connecting(client, server.address(7471), 0x11);
    net.run();
    IdNumber child = server.take().id;
    net.fate = on_nth(CmAttribute::rej, 0, 0);
    destroy(client, id);
    net.run();
    ASSERT_EQ(accept(server, child, 0x21), 0);
    net.run();
    Event event = server.take();
    EXPECT_EQ(event.type, EventType::rejected);
    EXPECT_EQ(event.status, 4);
}

TEST_F(Disconnect, DestroyAnUnacceptedChildRejects) {
    listener(server, any4(7471));
    connecting(client, server.address(7471), 0x11);
    net.run();
    destroy(server, server.take().id);
    EXPECT_EQ(net.log.back().as<wire::Rej>().message_rejected, wire::CmAnswered::req);
    net.run();
    Event event = client.take();
    EXPECT_EQ(event.type, EventType::rejected);
    EXPECT_EQ(event.status, 28);
}

TEST_F(Disconnect, DestroyAnAcceptedChildRejects) {
    listener(server, any4(7471));
    IdNumber id = connecting(client, server.address(7471), 0x11);
    net.run();
    IdNumber child = server.take().id;
    ASSERT_EQ(accept(server, child, 0x21), 0);
    net.run();
    EXPECT_EQ(client.take().type, EventType::connect_response);
    net.fate = on_nth(CmAttribute::rej, 0, 0);
    destroy(server, child);
    net.run();
    EXPECT_TRUE(client.quiet());
    // The REJ was lost; the RTU brings it again.
    ASSERT_EQ(client->accept(id, nullptr, 0, net.now), 0);
    net.run();
    Event event = client.take();
    EXPECT_EQ(event.type, EventType::rejected);
    EXPECT_EQ(event.status, 28);
}

TEST_F(Disconnect, DestroyWithAReplyInHandRejects) {
    listener(server, any4(7471));
    IdNumber id = connecting(client, server.address(7471), 0x11);
    net.run();
    IdNumber child = server.take().id;
    ASSERT_EQ(accept(server, child, 0x21), 0);
    net.run();
    net.fate = on_nth(CmAttribute::rej, 0, 0);
    destroy(client, id);
    EXPECT_EQ(net.log.back().as<wire::Rej>().message_rejected, wire::CmAnswered::rep);
    EXPECT_EQ(net.log.back().as<wire::Rej>().reason, wire::RejReason::consumer_reject);
    net.run(iba_timeout(20) + kMillisecond);  // lost; the REP comes again, and the REJ too
    Event event = server.take();
    EXPECT_EQ(event.type, EventType::rejected);
    EXPECT_EQ(event.status, 28);
}

TEST_F(Disconnect, DestroyEstablishedSendsDreqAndDoesNotWait) {
    Connected c = establish();
    destroy(client, c.active);
    EXPECT_EQ(client->counts().ids, 0u);
    EXPECT_EQ(client->counts().timewait, 1u);
    EXPECT_EQ(client.quarantine.at(0x11), net.now + kTimewait);
    net.run();
    EXPECT_EQ(server.take().type, EventType::disconnected);
    destroy(server, c.passive);  // DREP
    net.run();
    EXPECT_EQ(net.conversation(), "REQ REP RTU DREQ DREP");
    net.run(kTimewait);
    EXPECT_EQ(client->counts().connections, 0u);
    EXPECT_EQ(server->counts().connections, 0u);
    EXPECT_EQ(client->next_deadline(), kNever);
    EXPECT_TRUE(client.quiet());
}

TEST_F(Disconnect, LostDreqOfADestroyedIdIsRepeatedAFewTimes) {
    Connected c = establish();
    net.fate = on_nth(CmAttribute::dreq, 0, 0);
    destroy(client, c.active);
    net.run(kActiveInterval + kMillisecond);
    EXPECT_EQ(server.take().type, EventType::disconnected);
    net.fate = drop_all(CmAttribute::dreq);
    net.run(10 * kMinute);
    EXPECT_EQ(net.sent(CmAttribute::dreq).size(), 4u);
    EXPECT_EQ(client->counts().timewait, 0u);
    EXPECT_EQ(client->next_deadline(), kNever);
}

TEST_F(Disconnect, DestroyWhileADreqIsUnderWay) {
    Connected c = establish();
    ASSERT_EQ(client->disconnect(c.active, net.now), 0);
    destroy(client, c.active);
    net.run();
    EXPECT_EQ(server.take().type, EventType::disconnected);
    ASSERT_EQ(server->disconnect(c.passive, net.now), 0);
    net.run(kTimewait + kMillisecond);
    EXPECT_TRUE(client.quiet());
    EXPECT_EQ(client->counts().connections, 0u);
    EXPECT_EQ(net.sent(CmAttribute::dreq).size(), 1u);
}

TEST_F(Disconnect, LostDrepOfADestroyedIdIsRepeated) {
    Connected c = establish();
    net.fate = drop_all(CmAttribute::drep);
    ASSERT_EQ(client->disconnect(c.active, net.now), 0);
    net.run();
    server.take();
    destroy(server, c.passive);
    net.run(kMinute);  // long after timewait there is nobody who knows the connection
    EXPECT_TRUE(client.quiet());
    net.fate = nullptr;
    net.run(kActiveInterval + kMillisecond);
    EXPECT_EQ(client.take().status, 0);
}

TEST_F(Disconnect, ProcessDeathEndsEverything) {
    Connected c = establish();
    IdNumber second = connecting(client, server.address(7471), 0x12);
    net.run();
    server.take();
    IdNumber other_file = routed(client, server.address(7471), PortSpace::tcp, 9);
    client->close_file(kFile, net.now);
    net.run();
    EXPECT_EQ(server.take().type, EventType::disconnected);
    EXPECT_EQ(client->counts().ids, 1u);
    IdInfo info;
    EXPECT_EQ(client->query(second, info), ENOENT);
    EXPECT_EQ(client->query(other_file, info), 0);
    std::vector<Sent> rejects = net.sent(CmAttribute::rej);
    ASSERT_EQ(rejects.size(), 1u);
    EXPECT_EQ(rejects[0].as<wire::Rej>().reason, wire::RejReason::timeout);

    server->close_file(kFile, net.now);
    net.run(kMinute);
    EXPECT_EQ(server->counts().ids, 0u);
    EXPECT_EQ(server->counts().listeners, 0u);
    EXPECT_EQ(server->counts().connections, 0u);
    EXPECT_EQ(server->next_deadline(), kNever);
    listener(server, any4(7471));  // the port is free
    static_cast<void>(c);
}

// A server may keep the ids of ended connections as long as it likes, and hear a DREQ without answering it.
TEST_F(Disconnect, ThePeersQueuePairIsFreeOnceItHasSaidThatItIsDone) {
    Connected c = establish();
    ASSERT_EQ(client->disconnect(c.active, net.now), 0);
    net.run();
    EXPECT_EQ(server.take().type, EventType::disconnected);
    connecting(client, server.address(7471), 0x11);
    net.run();
    EXPECT_EQ(server.take().type, EventType::connect_request);
    EXPECT_TRUE(client.quiet());
}

TEST_F(Disconnect, RequestIsNewAgainAfterTimewait) {
    Connected c = establish();
    Sent request = net.log[0];
    ASSERT_EQ(client->disconnect(c.active, net.now), 0);
    net.run();
    Sent dreq = net.log.back();
    ASSERT_EQ(server->disconnect(c.passive, net.now), 0);
    std::size_t before = net.log.size();
    net.inject(server, dreq.path, dreq.mad);  // in timewait: the DREP once more
    EXPECT_EQ(net.conversation(before), "DREP");
    net.inject(server, request.path, request.mad);
    EXPECT_EQ(net.conversation(before), "DREP REJ");
    EXPECT_EQ(net.log.back().as<wire::Rej>().reason, wire::RejReason::stale_connection);
    net.run(kTimewait);
    server.events.clear();
    net.inject(server, request.path, request.mad);
    EXPECT_EQ(server.take().type, EventType::connect_request);
}

}  // namespace
}  // namespace verbena::cm::testing
