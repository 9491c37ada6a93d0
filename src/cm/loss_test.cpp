// Repetition, MRA, and what a lost or doubled message does.

#include "cm/testing.h"

namespace verbena::cm::testing {
namespace {

using wire::CmAttribute;

constexpr Duration kReplyInterval = iba_timeout(20);
constexpr Duration kMraWait = iba_timeout(24) + iba_timeout(19);

class Loss : public Pair {};

// --- silence

TEST_F(Loss, NobodyThereIsUnreachable) {
    net.fate = drop_all(CmAttribute::req);
    IdNumber id = connecting(client, server.address(7471), 0x11);
    Time start = net.now;
    net.run_to(start + 16 * kRequestInterval - 1);
    EXPECT_TRUE(client.quiet());
    std::vector<Sent> requests = net.sent(CmAttribute::req);
    ASSERT_EQ(requests.size(), 16u);  // one and fifteen repetitions
    for (std::size_t i = 0; i < requests.size(); i++) {
        EXPECT_EQ(requests[i].time, start + static_cast<Time>(i) * kRequestInterval);
        EXPECT_EQ(requests[i].mad, requests[0].mad);
    }
    net.run(1);
    Event event = client.take();
    EXPECT_EQ(event.type, EventType::unreachable);
    EXPECT_EQ(event.status, -ETIMEDOUT);
    EXPECT_EQ(client->next_deadline(), kNever);
    EXPECT_EQ(client->connect(id, parameters(0x11), net.now), EINVAL);
    destroy(client, id);
    EXPECT_EQ(net.log.size(), 16u);
}

TEST_F(Loss, AcceptAfterThePeerGaveUpIsAnsweredByRej) {
    listener(server, any4(7471));
    net.fate = drop_all(CmAttribute::mra);
    connecting(client, server.address(7471), 0x11);
    net.run(17 * kRequestInterval);
    EXPECT_EQ(client.take().type, EventType::unreachable);
    IdNumber child = server.take().id;
    ASSERT_EQ(accept(server, child, 0x21), 0);
    net.run();
    Event event = server.take();
    EXPECT_EQ(event.type, EventType::rejected);
    EXPECT_EQ(event.status, 4);
}

TEST_F(Loss, UnansweredReplyIsRepeatedThenUnreachable) {
    listener(server, any4(7471));
    connecting(client, server.address(7471), 0x11);
    net.run();
    IdNumber child = server.take().id;
    net.fate = drop_all(CmAttribute::rep);
    ASSERT_EQ(accept(server, child, 0x21), 0);
    net.fate = [](const Sent& sent) {
        return sent.type() == CmAttribute::rep || sent.type() == CmAttribute::req ? 0 : 1;
    };
    Time start = net.now;
    net.run_to(start + 16 * kReplyInterval - 1);
    EXPECT_TRUE(server.quiet());
    std::vector<Sent> replies = net.sent(CmAttribute::rep);
    ASSERT_EQ(replies.size(), 16u);
    for (std::size_t i = 0; i < replies.size(); i++)
        EXPECT_EQ(replies[i].time, start + static_cast<Time>(i) * kReplyInterval);
    net.run(1);
    Event event = server.take();
    EXPECT_EQ(event.type, EventType::unreachable);
    EXPECT_EQ(event.status, -ETIMEDOUT);
}

// --- MRA

TEST_F(Loss, MraAnswersOnlyARepeatedRequest) {
    listener(server, any4(7471));
    IdNumber id = connecting(client, server.address(7471), 0x11);
    net.run(kRequestInterval - kSecond);
    EXPECT_EQ(net.conversation(), "REQ");
    net.run(2 * kSecond);
    EXPECT_EQ(net.conversation(), "REQ REQ MRA");
    auto mra = net.log.back().as<wire::Mra>();
    EXPECT_EQ(mra.service_timeout, 24);
    EXPECT_EQ(mra.message_mraed, wire::CmAnswered::req);
    EXPECT_EQ(net.log.back().header().transaction_id, net.log.front().header().transaction_id);
    // The active side now waits as long as it was asked to, however late the program is.
    Time heard = net.log.back().time + kLatency;
    net.run_to(heard + kMraWait - 1);
    EXPECT_EQ(net.conversation(), "REQ REQ MRA");
    net.run(kMillisecond);
    EXPECT_EQ(net.conversation(), "REQ REQ MRA REQ MRA");
    net.run(5 * kMraWait);
    EXPECT_TRUE(client.quiet());
    EXPECT_EQ(server.events.size(), 1u);  // one request, whatever was repeated
    IdNumber child = server.take().id;
    ASSERT_EQ(accept(server, child, 0x21), 0);
    net.run();
    EXPECT_EQ(client.take().type, EventType::connect_response);
    ASSERT_EQ(client->accept(id, nullptr, 0, net.now), 0);
    net.run();
    EXPECT_EQ(server.take().type, EventType::established);
}

TEST_F(Loss, MraAnswersARepeatedReply) {
    listener(server, any4(7471));
    IdNumber id = connecting(client, server.address(7471), 0x11);
    net.run();
    IdNumber child = server.take().id;
    ASSERT_EQ(accept(server, child, 0x21), 0);
    net.run(kReplyInterval + kMillisecond);
    EXPECT_EQ(net.conversation(), "REQ REP REP MRA");
    EXPECT_EQ(net.log.back().as<wire::Mra>().message_mraed, wire::CmAnswered::rep);
    EXPECT_EQ(net.log.back().as<wire::Mra>().service_timeout, 24);
    Time heard = net.log.back().time + kLatency;
    net.run_to(heard + kMraWait - 1);
    EXPECT_EQ(net.conversation(), "REQ REP REP MRA");
    net.run(kMillisecond);
    EXPECT_EQ(net.conversation(), "REQ REP REP MRA REP MRA");
    EXPECT_EQ(client.events.size(), 1u);
    ASSERT_EQ(client->accept(id, nullptr, 0, net.now), 0);
    net.run();
    EXPECT_EQ(server.take().type, EventType::established);
    // The wait that the MRA asked for is not the DREQ's.
    net.fate = drop_all(CmAttribute::dreq);
    ASSERT_EQ(server->disconnect(child, net.now), 0);
    net.run(kReplyInterval + kMillisecond);
    EXPECT_EQ(net.sent(CmAttribute::dreq).size(), 2u);
}

// --- data before RTU

TEST_F(Loss, FirstDataStandsForALostRtu) {
    listener(server, any4(7471));
    IdNumber id = connecting(client, server.address(7471), 0x11);
    net.run();
    IdNumber child = server.take().id;
    ASSERT_EQ(accept(server, child, 0x21), 0);
    net.run();
    net.fate = drop_all(CmAttribute::rtu);
    ASSERT_EQ(client->accept(id, nullptr, 0, net.now), 0);
    server->communication_established(0x99, net.now);  // another QP
    EXPECT_TRUE(server.quiet());
    server->communication_established(0x21, net.now);
    EXPECT_EQ(server.take().type, EventType::established);
    server->communication_established(0x21, net.now);
    net.run(kMinute);
    EXPECT_TRUE(server.quiet());
    EXPECT_EQ(net.sent(CmAttribute::rep).size(), 1u);
    EXPECT_EQ(server->notify(child, 4), EISCONN);
}

TEST_F(Loss, NotifyEstablishes) {
    listener(server, any4(7471));
    IdNumber id = connecting(client, server.address(7471), 0x11);
    net.run();
    IdNumber child = server.take().id;
    EXPECT_EQ(server->notify(child, 4), EINVAL);
    ASSERT_EQ(accept(server, child, 0x21), 0);
    EXPECT_EQ(server->notify(child, 5), EINVAL);
    EXPECT_EQ(server->notify(child, 4), 0);
    EXPECT_EQ(server.take().type, EventType::established);
    EXPECT_EQ(server->notify(child, 4), EISCONN);
    EXPECT_EQ(client->notify(id, 4), EINVAL);
}

// --- a single message lost or doubled: the connection comes up and ends with the same events

struct Fault {
    CmAttribute type;
    int copies;
};
class SingleFault : public Pair, public ::testing::WithParamInterface<Fault> {};

TEST_P(SingleFault, ChangesNothingForThePrograms) {
    net.fate = on_nth(GetParam().type, 0, GetParam().copies);
    listener(server, any4(7471));
    IdNumber id = connecting(client, server.address(7471), 0x11);
    net.run(10 * kSecond);
    ASSERT_EQ(server.events.size(), 1u);
    IdNumber child = server.take().id;
    ASSERT_EQ(accept(server, child, 0x21), 0);
    net.run(10 * kSecond);
    ASSERT_EQ(client.events.size(), 1u);
    EXPECT_EQ(client.take().type, EventType::connect_response);
    ASSERT_EQ(client->accept(id, nullptr, 0, net.now), 0);
    net.run(80 * kSecond);  // an MRA may stand between two replies
    ASSERT_EQ(server.events.size(), 1u);
    EXPECT_EQ(server.take().type, EventType::established);
    ASSERT_EQ(client->disconnect(id, net.now), 0);
    net.run(10 * kSecond);
    ASSERT_EQ(server.events.size(), 1u);
    EXPECT_EQ(server.take().type, EventType::disconnected);
    ASSERT_EQ(server->disconnect(child, net.now), 0);
    net.run(10 * kSecond);
    ASSERT_EQ(client.events.size(), 2u);
    Event event = client.take();
    EXPECT_EQ(event.type, EventType::disconnected);
    EXPECT_EQ(event.status, 0);
    EXPECT_EQ(client.take().type, EventType::timewait_exit);
    EXPECT_EQ(server.take().type, EventType::timewait_exit);
    EXPECT_TRUE(server.quiet());
    EXPECT_EQ(client->next_deadline(), kNever);
    EXPECT_EQ(server->next_deadline(), kNever);
    destroy(client, id);
    destroy(server, child);
    EXPECT_EQ(client->counts().connections, 0u);
    EXPECT_EQ(server->counts().connections, 0u);
}

INSTANTIATE_TEST_SUITE_P(
    Each, SingleFault,
    ::testing::Values(Fault{CmAttribute::req, 0}, Fault{CmAttribute::req, 2}, Fault{CmAttribute::rep, 0},
                      Fault{CmAttribute::rep, 2}, Fault{CmAttribute::rtu, 0}, Fault{CmAttribute::rtu, 2},
                      Fault{CmAttribute::mra, 0}, Fault{CmAttribute::mra, 2}, Fault{CmAttribute::dreq, 0},
                      Fault{CmAttribute::dreq, 2}, Fault{CmAttribute::drep, 0}, Fault{CmAttribute::drep, 2}),
    [](const auto& each) {
        return std::string(wire::to_string(each.param.type)) + (each.param.copies ? "_doubled" : "_lost");
    });

TEST_F(Loss, RepeatedRequestBringsTheReplyAtOnce) {
    listener(server, any4(7471));
    connecting(client, server.address(7471), 0x11);
    Sent request = net.log.back();
    net.run();
    ASSERT_EQ(accept(server, server.take().id, 0x21), 0);
    net.inject(server, request.path, request.mad);
    ASSERT_EQ(net.conversation(), "REQ REP REP");
    EXPECT_EQ(net.log[1].mad, net.log[2].mad);
    net.run();
    EXPECT_EQ(net.conversation(), "REQ REP REP MRA");  // the second one is a duplicate
    net.inject(server, request.path, request.mad);     // the peer has the REP: an old request
    net.run();
    EXPECT_EQ(net.conversation(), "REQ REP REP MRA");
}

}  // namespace
}  // namespace verbena::cm::testing
