// Connections between two ids of one host: every event that a single host can produce, its status and what it
// carries; private data; who may do what when.
#include <gtest/gtest.h>
#include <rdma/rdma_cma.h>

#include <cerrno>
#include <cstring>
#include <numeric>

#include "base/ipv6_testing.h"
#include "fabric.h"

namespace verbena::rdmacm_test {
namespace {

constexpr int kRejNoListener = 8;
constexpr int kRejConsumer = 28;
constexpr int kRejVendorOption = 35;
constexpr int kRejTimeout = 4;

// A request that waits for an answer; neither side has a queue pair.
struct Request {
    Request() {
        std::uint16_t port = 0;
        listener = server.listener("127.0.0.1", port);
        active = client.resolved("127.0.0.1", port);
        auto parameters = parameters_for(qp_number);
        EXPECT_EQ(outcome(rdma_connect(active, &parameters)), 0);
        event = server.expect(RDMA_CM_EVENT_CONNECT_REQUEST);
        passive = event.id;
    }
    Side server, client;
    std::uint32_t qp_number = unused_qp_number();
    rdma_cm_id *listener, *active, *passive;
    Event event;
};

class Families : public testing::TestWithParam<const char*> {};

TEST_P(Families, ConnectTalkAndDisconnect) {
    if (GetParam() == std::string("::1") && !has_ipv6()) GTEST_SKIP() << kNoIpv6;
    Pair pair(GetParam());
    ASSERT_TRUE(pair.passive);
    EXPECT_EQ(pair.active->verbs, pair.passive->verbs);
    EXPECT_EQ(pair.active->port_num, 1);
    EXPECT_EQ(outcome(rdma_disconnect(pair.active)), 0);
    pair.server.expect(RDMA_CM_EVENT_DISCONNECTED);
    EXPECT_TRUE(pair.client.quiet(50));  // the peer has not answered yet
    EXPECT_EQ(outcome(rdma_disconnect(pair.passive)), 0);
    pair.client.expect(RDMA_CM_EVENT_DISCONNECTED);
    EXPECT_TRUE(pair.server.quiet(50));
}

INSTANTIATE_TEST_SUITE_P(Loopback, Families, testing::Values("127.0.0.1", "::1"));

TEST(Connection, DisconnectFromThePassiveSide) {
    Pair pair;
    ASSERT_TRUE(pair.passive);
    EXPECT_EQ(outcome(rdma_disconnect(pair.passive)), 0);
    pair.client.expect(RDMA_CM_EVENT_DISCONNECTED);
    EXPECT_EQ(outcome(rdma_disconnect(pair.active)), 0);
    pair.server.expect(RDMA_CM_EVENT_DISCONNECTED);
}

TEST(Connection, BothSidesDisconnectAtOnceAndHearOfItOnce) {
    Pair pair;
    ASSERT_TRUE(pair.passive);
    EXPECT_EQ(outcome(rdma_disconnect(pair.passive)), 0);
    rdma_disconnect(pair.active);  // 0, or EINVAL if the peer's request was faster
    pair.client.expect(RDMA_CM_EVENT_DISCONNECTED);
    pair.server.expect(RDMA_CM_EVENT_DISCONNECTED);
    EXPECT_TRUE(pair.client.quiet(50));
    EXPECT_TRUE(pair.server.quiet(50));
}

TEST(Connection, TimewaitExitFollowsDisconnect) {
    Pair pair;
    ASSERT_TRUE(pair.passive);
    EXPECT_EQ(outcome(rdma_disconnect(pair.active)), 0);
    pair.server.expect(RDMA_CM_EVENT_DISCONNECTED);
    EXPECT_EQ(outcome(rdma_disconnect(pair.passive)), 0);
    pair.client.expect(RDMA_CM_EVENT_DISCONNECTED);
    pair.client.expect(RDMA_CM_EVENT_TIMEWAIT_EXIT);
    pair.server.expect(RDMA_CM_EVENT_TIMEWAIT_EXIT);
}

TEST(Connection, WhatIsVisibleOfAResolvedId) {
    Pair pair;
    ASSERT_TRUE(pair.passive);
    const rdma_cm_id* id = pair.active;
    ASSERT_TRUE(id->verbs);
    ASSERT_TRUE(id->pd);
    EXPECT_EQ(id->pd->context, id->verbs);
    EXPECT_EQ(id->route.num_paths, 1);
    ASSERT_TRUE(id->route.path_rec);
    EXPECT_EQ(id->route.path_rec->pkey, htons(0xffff));
    EXPECT_GE(id->route.path_rec->mtu, IBV_MTU_256);
    EXPECT_LE(id->route.path_rec->mtu, IBV_MTU_4096);
    EXPECT_EQ(std::memcmp(&id->route.path_rec->sgid, &id->route.addr.addr.ibaddr.sgid, 16), 0);
    EXPECT_EQ(id->route.addr.src_addr.sa_family, AF_INET);
    EXPECT_EQ(id->route.addr.dst_addr.sa_family, AF_INET);
    EXPECT_EQ(rdma_get_dst_port(pair.active), rdma_get_src_port(pair.listener));
    EXPECT_EQ(rdma_get_src_port(pair.passive), rdma_get_src_port(pair.listener));
    EXPECT_EQ(rdma_get_dst_port(pair.passive), rdma_get_src_port(pair.active));
    EXPECT_EQ(pair.listener->verbs != nullptr, pair.listener->pd != nullptr);
}

TEST(Connection, QueuePairStatesFollowTheConnection) {
    Pair pair;
    ASSERT_TRUE(pair.passive);
    ibv_qp_attr attributes{};
    ibv_qp_init_attr init{};
    for (rdma_cm_id* id : {pair.active, pair.passive}) {
        ASSERT_EQ(ibv_query_qp(id->qp, &attributes, IBV_QP_STATE, &init), 0);
        EXPECT_EQ(attributes.qp_state, IBV_QPS_RTS);
    }
    EXPECT_EQ(outcome(rdma_disconnect(pair.active)), 0);
    ASSERT_EQ(ibv_query_qp(pair.active->qp, &attributes, IBV_QP_STATE, &init), 0);
    EXPECT_EQ(attributes.qp_state, IBV_QPS_ERR);
    pair.server.expect(RDMA_CM_EVENT_DISCONNECTED);
    ASSERT_EQ(ibv_query_qp(pair.passive->qp, &attributes, IBV_QP_STATE, &init), 0);
    EXPECT_EQ(attributes.qp_state, IBV_QPS_RTS);  // until it disconnects itself
}

TEST(Connection, RequestCarriesTheParametersFromTheListenersPointOfView) {
    Side server, client;
    std::uint16_t port = 0;
    int context = 0;
    rdma_cm_id* listener = server.id(RDMA_PS_TCP, &context);
    ASSERT_EQ(outcome(rdma_bind_addr(listener, Address("127.0.0.1", 0).get())), 0);
    ASSERT_EQ(outcome(rdma_listen(listener, 0)), 0);
    port = source_port(listener);
    rdma_cm_id* active = client.resolved("127.0.0.1", port);
    std::uint8_t data[56];
    std::iota(data, data + sizeof data, std::uint8_t{1});
    rdma_conn_param parameters{};
    parameters.private_data = data;
    parameters.private_data_len = sizeof data;
    parameters.responder_resources = 3;
    parameters.initiator_depth = 2;
    parameters.retry_count = 5;
    parameters.rnr_retry_count = 9;  // three bits: 7
    parameters.qp_num = unused_qp_number();
    ASSERT_EQ(outcome(rdma_connect(active, &parameters)), 0);
    Event event = server.expect(RDMA_CM_EVENT_CONNECT_REQUEST);
    EXPECT_EQ(event.listen_id, listener);
    ASSERT_TRUE(event.id);
    EXPECT_EQ(event.id->context, &context);
    EXPECT_EQ(event.id->channel, server.channel);
    EXPECT_TRUE(event.id->verbs);
    EXPECT_EQ(event.conn.responder_resources, 2);
    EXPECT_EQ(event.conn.initiator_depth, 3);
    EXPECT_EQ(event.conn.retry_count, 5);
    EXPECT_EQ(event.conn.rnr_retry_count, 7);
    EXPECT_EQ(event.conn.qp_num, parameters.qp_num);
    EXPECT_EQ(event.data, std::vector<std::uint8_t>(data, data + sizeof data));
}

TEST(Connection, ShortPrivateDataArrivesPaddedToTheMaximum) {
    Side server, client;
    std::uint16_t port = 0;
    server.listener("127.0.0.1", port);
    rdma_cm_id* active = client.resolved("127.0.0.1", port);
    auto parameters = parameters_for(unused_qp_number());
    parameters.private_data = "abc";
    parameters.private_data_len = 3;
    ASSERT_EQ(outcome(rdma_connect(active, &parameters)), 0);
    Event event = server.expect(RDMA_CM_EVENT_CONNECT_REQUEST);
    std::vector<std::uint8_t> wanted(56);
    std::memcpy(wanted.data(), "abc", 3);
    EXPECT_EQ(event.data, wanted);

    std::uint8_t reply[196];
    std::iota(reply, reply + sizeof reply, std::uint8_t{9});
    auto answer = parameters_for(unused_qp_number());
    answer.private_data = reply;
    answer.private_data_len = sizeof reply;
    ASSERT_EQ(outcome(rdma_accept(event.id, &answer)), 0);
    Event response = client.expect(RDMA_CM_EVENT_CONNECT_RESPONSE);
    EXPECT_EQ(response.data, std::vector<std::uint8_t>(reply, reply + sizeof reply));
    EXPECT_EQ(response.conn.qp_num, answer.qp_num);
}

TEST(Connection, WithoutAQueuePairTheProgramEstablishesItself) {
    Request request;
    ASSERT_TRUE(request.passive);
    auto parameters = parameters_for(unused_qp_number());
    ASSERT_EQ(outcome(rdma_accept(request.passive, &parameters)), 0);
    request.client.expect(RDMA_CM_EVENT_CONNECT_RESPONSE);
    for (ibv_qp_state state : {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS}) {
        ibv_qp_attr attributes{};
        int mask = 0;
        attributes.qp_state = state;
        ASSERT_EQ(outcome(rdma_init_qp_attr(request.active, &attributes, &mask)), 0);
        EXPECT_EQ(attributes.qp_state, state);
        EXPECT_TRUE(mask & IBV_QP_STATE);
        if (state == IBV_QPS_RTR) {
            EXPECT_EQ(attributes.dest_qp_num, parameters.qp_num);
            EXPECT_EQ(attributes.ah_attr.is_global, 1);
            EXPECT_EQ(attributes.min_rnr_timer, 0);
        }
        if (state == IBV_QPS_RTS) {
            EXPECT_EQ(attributes.retry_cnt, 7);
        }
    }
    EXPECT_EQ(outcome(rdma_establish(request.active)), 0);
    request.server.expect(RDMA_CM_EVENT_ESTABLISHED);
    EXPECT_EQ(outcome(rdma_disconnect(request.active)), 0);
    request.server.expect(RDMA_CM_EVENT_DISCONNECTED);
    EXPECT_EQ(outcome(rdma_disconnect(request.passive)), 0);
    request.client.expect(RDMA_CM_EVENT_DISCONNECTED);
}

// Options that two programs' own queue pairs negotiate (ECE) travel with the request and the reply.
TEST(Connection, OptionsToEstablishTravelBothWays) {
    Side server, client;
    std::uint16_t port = 0;
    server.listener("127.0.0.1", port);
    rdma_cm_id* active = client.resolved("127.0.0.1", port);
    ibv_ece wanted{0x123456, 0x89abcdef, 0}, offered{0x15b3, 7, 0}, seen{};
    ASSERT_EQ(outcome(rdma_set_local_ece(active, &wanted)), 0);
    auto parameters = parameters_for(unused_qp_number());
    ASSERT_EQ(outcome(rdma_connect(active, &parameters)), 0);
    rdma_cm_id* passive = server.expect(RDMA_CM_EVENT_CONNECT_REQUEST).id;
    ASSERT_TRUE(passive);
    ASSERT_EQ(outcome(rdma_get_remote_ece(passive, &seen)), 0);
    EXPECT_EQ(seen.vendor_id, wanted.vendor_id);
    EXPECT_EQ(seen.options, wanted.options);
    EXPECT_EQ(seen.comp_mask, 0u);
    ASSERT_EQ(outcome(rdma_set_local_ece(passive, &offered)), 0);
    parameters.qp_num = unused_qp_number();
    ASSERT_EQ(outcome(rdma_accept(passive, &parameters)), 0);
    client.expect(RDMA_CM_EVENT_CONNECT_RESPONSE);
    ASSERT_EQ(outcome(rdma_get_remote_ece(active, &seen)), 0);
    EXPECT_EQ(seen.vendor_id, offered.vendor_id);
    EXPECT_EQ(seen.options, offered.options);
    ASSERT_EQ(outcome(rdma_establish(active)), 0);
    server.expect(RDMA_CM_EVENT_ESTABLISHED);
}

TEST(Connection, NobodyListens) {
    Side side;
    rdma_cm_id* id = side.resolved("127.0.0.1", 9);
    create_qp(id);
    auto parameters = parameters_for(0);
    ASSERT_EQ(outcome(rdma_connect(id, &parameters)), 0);
    Event event = side.expect(RDMA_CM_EVENT_REJECTED, kRejNoListener);
    EXPECT_EQ(event.data.size(), 148u);
    ibv_qp_attr attributes{};
    ibv_qp_init_attr init{};
    ASSERT_EQ(ibv_query_qp(id->qp, &attributes, IBV_QP_STATE, &init), 0);
    EXPECT_EQ(attributes.qp_state, IBV_QPS_ERR);
}

TEST(Connection, RejectionCarriesPrivateData) {
    Request request;
    ASSERT_TRUE(request.passive);
    std::uint8_t data[148];
    std::iota(data, data + sizeof data, std::uint8_t{3});
    EXPECT_EQ(outcome(rdma_reject(request.passive, data, sizeof data)), 0);
    Event event = request.client.expect(RDMA_CM_EVENT_REJECTED, kRejConsumer);
    EXPECT_EQ(event.data, std::vector<std::uint8_t>(data, data + sizeof data));
    EXPECT_EQ(outcome(rdma_accept(request.passive, nullptr)), EINVAL);
}

TEST(Connection, RejectionWithTooMuchPrivateData) {
    Request request;
    ASSERT_TRUE(request.passive);
    std::uint8_t data[149] = {};
    EXPECT_EQ(outcome(rdma_reject(request.passive, data, sizeof data)), EINVAL);
    EXPECT_EQ(outcome(rdma_reject(request.passive, data, 148)), 0);
}

TEST(Connection, RejectionForItsOptions) {
    Request request;
    ASSERT_TRUE(request.passive);
    EXPECT_EQ(outcome(rdma_reject_ece(request.passive, nullptr, 0)), 0);
    request.client.expect(RDMA_CM_EVENT_REJECTED, kRejVendorOption);
}

TEST(Connection, DestroyingAnUnansweredChildRejects) {
    Request request;
    ASSERT_TRUE(request.passive);
    EXPECT_EQ(outcome(request.server.destroy(request.passive)), 0);
    request.client.expect(RDMA_CM_EVENT_REJECTED, kRejConsumer);
}

TEST(Connection, DestroyingAListenerRejectsUnreadRequests) {
    Side server, client;
    std::uint16_t port = 0;
    rdma_cm_id* listener = server.listener("127.0.0.1", port);
    rdma_cm_id* active = client.resolved("127.0.0.1", port);
    auto parameters = parameters_for(unused_qp_number());
    ASSERT_EQ(outcome(rdma_connect(active, &parameters)), 0);
    ASSERT_TRUE(wait_readable(server.channel->fd, kPatienceMs));
    EXPECT_EQ(outcome(server.destroy(listener)), 0);
    EXPECT_TRUE(server.quiet());
    client.expect(RDMA_CM_EVENT_REJECTED, kRejConsumer);
}

// One connection is enough for many a server: the request that was read is the program's.
TEST(Connection, ARequestThatWasReadOutlivesItsListener) {
    Request request;
    ASSERT_TRUE(request.passive);
    EXPECT_EQ(outcome(request.server.destroy(request.listener)), 0);
    auto parameters = parameters_for(unused_qp_number());
    EXPECT_EQ(outcome(rdma_accept(request.passive, &parameters)), 0);
    request.client.expect(RDMA_CM_EVENT_CONNECT_RESPONSE);
}

TEST(Connection, DestroyingTheActiveIdWhileConnecting) {
    Request request;
    ASSERT_TRUE(request.passive);
    EXPECT_EQ(outcome(request.client.destroy(request.active)), 0);
    // The child was not accepted, so it hears nothing; accepting it is too late, as an event tells, since
    // nobody waits for the daemon's word. The reject (reason 4) may still be on its way.
    int error = 0;
    for (int i = 0; i < 200 && error == 0; i++) {
        ibv_qp_attr attributes{};
        int mask = 0;
        attributes.qp_state = IBV_QPS_RTR;
        error = outcome(rdma_init_qp_attr(request.passive, &attributes, &mask));
        if (!error) poll(nullptr, 0, 10);
    }
    auto parameters = parameters_for(unused_qp_number());
    EXPECT_EQ(outcome(rdma_accept(request.passive, &parameters)), 0);
    request.server.expect(RDMA_CM_EVENT_CONNECT_ERROR, -EINVAL);
    EXPECT_EQ(outcome(rdma_accept(request.passive, &parameters)), EINVAL);
    static_assert(kRejTimeout == 4);
}

TEST(Connection, DestroyingAnEstablishedIdDisconnects) {
    Pair pair;
    ASSERT_TRUE(pair.passive);
    EXPECT_EQ(outcome(pair.client.destroy(pair.active)), 0);
    pair.server.expect(RDMA_CM_EVENT_DISCONNECTED);
}

TEST(Connection, DestroyingTheChannelDisconnects) {
    Request request;
    ASSERT_TRUE(request.passive);
    auto parameters = parameters_for(unused_qp_number());
    ASSERT_EQ(outcome(rdma_accept(request.passive, &parameters)), 0);
    request.client.expect(RDMA_CM_EVENT_CONNECT_RESPONSE);
    ASSERT_EQ(outcome(rdma_establish(request.active)), 0);
    request.server.expect(RDMA_CM_EVENT_ESTABLISHED);
    rdma_destroy_event_channel(request.client.channel);
    request.client.channel = nullptr;
    request.server.expect(RDMA_CM_EVENT_DISCONNECTED);
}

TEST(Connection, AZeroedParameterBlockConnects) {
    Side server, client;
    std::uint16_t port = 0;
    server.listener("127.0.0.1", port);
    rdma_cm_id* active = client.resolved("127.0.0.1", port);
    create_qp(active);
    rdma_conn_param zero{};
    ASSERT_EQ(outcome(rdma_connect(active, &zero)), 0);
    Event event = server.expect(RDMA_CM_EVENT_CONNECT_REQUEST);
    ASSERT_TRUE(event.id);
    create_qp(event.id);
    ASSERT_EQ(outcome(rdma_accept(event.id, &zero)), 0);
    client.expect(RDMA_CM_EVENT_ESTABLISHED);
    server.expect(RDMA_CM_EVENT_ESTABLISHED);
}

TEST(Connection, NoParameterBlockMeansTheDevicesLimits) {
    Side server, client;
    std::uint16_t port = 0;
    server.listener("127.0.0.1", port);
    rdma_cm_id* active = client.resolved("127.0.0.1", port);
    create_qp(active);
    ibv_device_attr device{};
    ASSERT_EQ(ibv_query_device(active->verbs, &device), 0);
    ASSERT_EQ(outcome(rdma_connect(active, nullptr)), 0);
    Event event = server.expect(RDMA_CM_EVENT_CONNECT_REQUEST);
    ASSERT_TRUE(event.id);
    EXPECT_EQ(event.conn.initiator_depth, device.max_qp_rd_atom);
    EXPECT_EQ(event.conn.retry_count, 7);
    EXPECT_EQ(event.conn.rnr_retry_count, 7);
    create_qp(event.id);
    ASSERT_EQ(outcome(rdma_accept(event.id, nullptr)), 0);
    client.expect(RDMA_CM_EVENT_ESTABLISHED);
}

TEST(Connection, RemoteAccessIsOpenedWhenTheConversationAllowsIt) {
    Pair pair;  // no READs allowed: responder_resources 0
    ASSERT_TRUE(pair.passive);
    ibv_qp_attr attributes{};
    ibv_qp_init_attr init{};
    ASSERT_EQ(ibv_query_qp(pair.passive->qp, &attributes, IBV_QP_ACCESS_FLAGS, &init), 0);
    EXPECT_TRUE(attributes.qp_access_flags & IBV_ACCESS_REMOTE_WRITE);
    EXPECT_FALSE(attributes.qp_access_flags & IBV_ACCESS_REMOTE_READ);
}

}  // namespace
}  // namespace verbena::rdmacm_test
