// REJ: who sends which, and messages that belong to nothing.

#include "cm/testing.h"

namespace verbena::cm::testing {
namespace {

using wire::CmAttribute;

class Refusal : public Pair {};

TEST_F(Refusal, NoListenerIsRejectedAtOnce) {
    IdNumber id = connecting(client, server.address(7471), 0x11);
    net.run();
    Event event = client.take();
    EXPECT_EQ(event.type, EventType::rejected);
    EXPECT_EQ(event.status, 8);
    EXPECT_EQ(event.connection.private_data_length, 148);
    auto rej = net.log.back().as<wire::Rej>();
    EXPECT_EQ(rej.local_comm_id, 0u);
    EXPECT_EQ(rej.remote_comm_id, net.log.front().as<wire::Req>().local_comm_id);
    EXPECT_EQ(rej.message_rejected, wire::CmAnswered::req);
    EXPECT_EQ(rej.reject_info_length, 0);
    EXPECT_EQ(net.log.back().header().transaction_id, net.log.front().header().transaction_id);
    EXPECT_EQ(net.conversation(), "REQ REJ");
    EXPECT_EQ(client->next_deadline(), kNever);
    destroy(client, id);
    EXPECT_EQ(net.conversation(), "REQ REJ");
    EXPECT_EQ(client->counts().ids, 0u);
    EXPECT_EQ(client->counts().connections, 0u);
}

TEST_F(Refusal, ProgramRejects) {
    for (std::uint8_t reason : {std::uint8_t{28}, std::uint8_t{35}}) {
        IdNumber listen = listener(server, any4(7471));
        IdNumber id = connecting(client, server.address(7471), 0x11);
        net.run();
        IdNumber child = server.take().id;
        const std::string words = "no thank you";
        std::span<const std::uint8_t> data(reinterpret_cast<const std::uint8_t*>(words.data()), words.size());
        ASSERT_EQ(server->reject(child, data, reason, net.now), 0);
        net.run();
        Event event = client.take();
        EXPECT_EQ(event.type, EventType::rejected);
        EXPECT_EQ(event.status, reason);
        EXPECT_EQ(event.connection.private_data_length, 148);
        EXPECT_EQ(text_of(event.connection), words);
        EXPECT_NE(net.log.back().as<wire::Rej>().local_comm_id, 0u);
        EXPECT_EQ(accept(server, child, 0x21), EINVAL);
        EXPECT_EQ(server->reject(child, {}, 28, net.now), EINVAL);
        destroy(client, id);
        destroy(server, child);
        destroy(server, listen);
        EXPECT_TRUE(server.quiet());
    }
}

TEST_F(Refusal, OnlyTwoReasonsAreThePrograms) {
    listener(server, any4(7471));
    connecting(client, server.address(7471), 0x11);
    net.run();
    IdNumber child = server.take().id;
    EXPECT_EQ(server->reject(child, {}, 8, net.now), EINVAL);
    EXPECT_EQ(server->reject(child, {}, 10, net.now), EINVAL);
}

TEST_F(Refusal, LostRejIsRepeatedNotAskedAgain) {
    listener(server, any4(7471));
    connecting(client, server.address(7471), 0x11);
    net.run();
    IdNumber child = server.take().id;
    net.fate = on_nth(CmAttribute::rej, 0, 0);
    ASSERT_EQ(server->reject(child, {}, 28, net.now), 0);
    destroy(server, child);
    net.run(kRequestInterval + kMillisecond);
    EXPECT_EQ(net.conversation(), "REQ REJ REQ REJ");
    EXPECT_EQ(client.take().status, 28);
    EXPECT_TRUE(server.quiet());
    net.run(kMinute);
    EXPECT_EQ(server->next_deadline(), kNever);  // and forgotten
}

TEST_F(Refusal, StrayAnswersAreIgnored) {
    Connected c = establish();
    std::size_t before = net.log.size();
    wire::Rtu rtu;
    rtu.local_comm_id = 1;
    rtu.remote_comm_id = 2;
    wire::Path path{client.address().address, server.address().address, 10, 55410, 0, 64};
    net.inject(server, path, make_mad(1, rtu));
    wire::Mra mra;
    mra.remote_comm_id = net.log[1].as<wire::Rep>().local_comm_id;
    mra.local_comm_id = net.log[0].as<wire::Req>().local_comm_id;
    mra.message_mraed = wire::CmAnswered::rep;
    net.inject(server, path, make_mad(1, mra));
    wire::Rej rej;  // of the REQ: long answered
    rej.remote_comm_id = net.log[0].as<wire::Req>().local_comm_id;
    rej.reason = wire::RejReason::stale_connection;
    wire::Path back{server.address().address, client.address().address, 10, 55410, 0, 64};
    net.inject(client, back, make_mad(1, rej));
    Mad other{};  // class 1, not ours
    other[1] = 1;
    net.inject(server, path, other);
    net.run(kMinute);
    EXPECT_EQ(net.log.size(), before);
    EXPECT_TRUE(client.quiet());
    EXPECT_TRUE(server.quiet());
    EXPECT_EQ(query(server, c.passive).state, IdState::established);
}

TEST_F(Refusal, UnknownReplyIsRejected) {
    wire::Rep rep;
    rep.local_comm_id = 77;
    rep.remote_comm_id = 88;
    wire::Path path{server.address().address, client.address().address, 10, 55410, 0, 64};
    net.inject(client, path, make_mad(5, rep));
    ASSERT_EQ(net.conversation(), "REJ");
    auto rej = net.log[0].as<wire::Rej>();
    EXPECT_EQ(rej.reason, wire::RejReason::invalid_comm_id);
    EXPECT_EQ(rej.message_rejected, wire::CmAnswered::rep);
    EXPECT_EQ(rej.remote_comm_id, 77u);
    EXPECT_EQ(net.log[0].header().transaction_id, 5u);
}

TEST_F(Refusal, AlternatePathsAreRefused) {
    Connected c = establish();
    wire::Lap lap;
    lap.local_comm_id = net.log[0].as<wire::Req>().local_comm_id;
    lap.remote_comm_id = net.log[1].as<wire::Rep>().local_comm_id;
    wire::Path path{client.address().address, server.address().address, 10, 55410, 0, 64};
    net.inject(server, path, make_mad(9, lap));
    EXPECT_EQ(net.log.back().as<wire::Apr>().ap_status, wire::ApStatus::unsupported);
    lap.local_comm_id++;
    net.inject(server, path, make_mad(9, lap));
    EXPECT_EQ(net.log.back().as<wire::Apr>().ap_status, wire::ApStatus::invalid_comm_id);
    EXPECT_EQ(net.log.back().header().transaction_id, 9u);
    EXPECT_EQ(query(server, c.passive).state, IdState::established);
}

TEST_F(Refusal, AnswersAreForgottenInTheEnd) {
    listener(server, any4(7471));
    connecting(client, server.address(7471), 0x11);
    Sent request = net.log.back();
    net.run();
    destroy(server, server.take().id);
    net.inject(server, request.path, request.mad);
    EXPECT_TRUE(server.quiet());
    EXPECT_EQ(net.conversation(), "REQ REJ REJ");
    net.run(21 * kSecond);
    net.inject(server, request.path, request.mad);
    EXPECT_EQ(server.take().type, EventType::connect_request);
}

TEST_F(Refusal, RecycledCommIdIsANewRequest) {
    listener(server, any4(7471));
    connecting(client, server.address(7471), 0x11);
    Sent request = net.log.back();
    net.run();
    destroy(server, server.take().id);
    net.inject(server, request.path, make_mad(12345, request.as<wire::Req>()));
    EXPECT_EQ(server.take().type, EventType::connect_request);
}

}  // namespace
}  // namespace verbena::cm::testing
