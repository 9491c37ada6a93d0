// Synchronous ids (rdma_create_ep, channel NULL), migration, address look-up, devices.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include "fabric.h"

namespace verbena::rdmacm_test {
namespace {

rdma_addrinfo* look_up(const char* node, const char* service, int flags) {
    rdma_addrinfo hints{}, *found = nullptr;
    hints.ai_flags = flags;
    hints.ai_port_space = RDMA_PS_TCP;
    EXPECT_EQ(rdma_getaddrinfo(node, service, &hints, &found), 0);
    return found;
}

TEST(Endpoint, ServerAndClientTalkThroughTheHelpers) {
    rdma_addrinfo* passive = look_up("127.0.0.1", "0", RAI_PASSIVE);
    ASSERT_TRUE(passive);
    ibv_qp_init_attr attributes = small_qp();
    rdma_cm_id* listener = nullptr;
    ASSERT_EQ(outcome(rdma_create_ep(&listener, passive, nullptr, &attributes)), 0);
    rdma_freeaddrinfo(passive);
    ASSERT_EQ(outcome(rdma_listen(listener, 0)), 0);
    std::string port = std::to_string(source_port(listener));

    char received[16] = {};
    std::thread server([&] {
        rdma_cm_id* id = nullptr;
        ASSERT_EQ(outcome(rdma_get_request(listener, &id)), 0);
        ASSERT_TRUE(id->qp);
        EXPECT_NE(id->channel, listener->channel);
        ibv_mr* region = rdma_reg_msgs(id, received, sizeof received);
        ASSERT_TRUE(region);
        ASSERT_EQ(outcome(rdma_post_recv(id, nullptr, received, sizeof received, region)), 0);
        ASSERT_EQ(outcome(rdma_accept(id, nullptr)), 0);
        ibv_wc completion{};
        EXPECT_EQ(rdma_get_recv_comp(id, &completion), 1);
        EXPECT_EQ(completion.status, IBV_WC_SUCCESS);
        EXPECT_EQ(outcome(rdma_disconnect(id)), 0);
        rdma_dereg_mr(region);
        rdma_destroy_ep(id);
    });
    rdma_addrinfo* active = look_up("127.0.0.1", port.c_str(), 0);
    ASSERT_TRUE(active);
    attributes = small_qp();
    rdma_cm_id* id = nullptr;
    ASSERT_EQ(outcome(rdma_create_ep(&id, active, nullptr, &attributes)), 0);
    rdma_freeaddrinfo(active);
    char message[16] = "synchronous";
    ibv_mr* region = rdma_reg_msgs(id, message, sizeof message);
    ASSERT_TRUE(region);
    ASSERT_EQ(outcome(rdma_connect(id, nullptr)), 0);
    ASSERT_TRUE(id->event);
    EXPECT_STREQ(rdma_event_str(id->event->event), "RDMA_CM_EVENT_ESTABLISHED");
    ASSERT_EQ(outcome(rdma_post_send(id, nullptr, message, sizeof message, region, 0)), 0);
    ibv_wc completion{};
    EXPECT_EQ(rdma_get_send_comp(id, &completion), 1);
    EXPECT_EQ(completion.status, IBV_WC_SUCCESS);
    EXPECT_EQ(outcome(rdma_disconnect(id)), 0);
    server.join();
    EXPECT_STREQ(received, "synchronous");
    rdma_dereg_mr(region);
    rdma_destroy_ep(id);
    rdma_destroy_ep(listener);
}

TEST(Endpoint, RefusalBecomesErrno) {
    rdma_addrinfo* active = look_up("127.0.0.1", "9", 0);
    ASSERT_TRUE(active);
    ibv_qp_init_attr attributes = small_qp();
    rdma_cm_id* id = nullptr;
    ASSERT_EQ(outcome(rdma_create_ep(&id, active, nullptr, &attributes)), 0);
    rdma_freeaddrinfo(active);
    errno = 0;
    EXPECT_EQ(outcome(rdma_connect(id, nullptr)), ECONNREFUSED);
    rdma_destroy_ep(id);
}

TEST(Endpoint, SynchronousIdCannotBecomeSynchronous) {
    rdma_cm_id* id = nullptr;
    ASSERT_EQ(outcome(rdma_create_id(nullptr, &id, nullptr, RDMA_PS_TCP)), 0);
    EXPECT_TRUE(id->channel);
    EXPECT_EQ(outcome(rdma_migrate_id(id, nullptr)), EINVAL);
    EXPECT_EQ(outcome(rdma_destroy_id(id)), 0);
}

TEST(Migration, EventsMoveAlong) {
    Side first, second;
    rdma_cm_id* id = first.id();
    ASSERT_EQ(outcome(rdma_resolve_addr(id, nullptr, Address("127.0.0.1", 7).get(), kResolveMs)), 0);
    ASSERT_TRUE(wait_readable(first.channel->fd, kPatienceMs));
    ASSERT_EQ(outcome(rdma_migrate_id(id, second.channel)), 0);
    EXPECT_EQ(id->channel, second.channel);
    EXPECT_TRUE(first.quiet());
    second.expect(RDMA_CM_EVENT_ADDR_RESOLVED);
    ASSERT_EQ(outcome(rdma_resolve_route(id, kResolveMs)), 0);
    second.expect(RDMA_CM_EVENT_ROUTE_RESOLVED);
    EXPECT_TRUE(first.quiet(20));
}

// A request that nobody has read goes with its listener, and its child is on the new channel.
TEST(Migration, UnreadRequestsMoveAlong) {
    Side first, second, client;
    std::uint16_t port = 0;
    rdma_cm_id* listener = first.listener("127.0.0.1", port);
    auto parameters = parameters_for(unused_qp_number());
    ASSERT_EQ(outcome(rdma_connect(client.resolved("127.0.0.1", port), &parameters)), 0);
    ASSERT_TRUE(wait_readable(first.channel->fd, kPatienceMs));
    ASSERT_EQ(outcome(rdma_migrate_id(listener, second.channel)), 0);
    EXPECT_TRUE(first.quiet());
    const Event request = second.expect(RDMA_CM_EVENT_CONNECT_REQUEST);
    ASSERT_TRUE(request.id);
    EXPECT_EQ(request.listen_id, listener);
    EXPECT_EQ(request.id->channel, second.channel);
    ASSERT_EQ(outcome(rdma_reject(request.id, nullptr, 0)), 0);
    client.expect(RDMA_CM_EVENT_REJECTED, 28);
}

// Both wait until every event that was read is acknowledged.
TEST(Migration, AndDestructionWaitForAcknowledgements) {
    for (bool destroys : {false, true}) {
        Side first, second;
        rdma_cm_id* id = nullptr;
        ASSERT_EQ(outcome(rdma_create_id(first.channel, &id, nullptr, RDMA_PS_TCP)), 0);
        ASSERT_EQ(outcome(rdma_resolve_addr(id, nullptr, Address("127.0.0.1", 7).get(), kResolveMs)), 0);
        rdma_cm_event* event = nullptr;
        ASSERT_EQ(outcome(rdma_get_cm_event(first.channel, &event)), 0);
        std::atomic<bool> acknowledged{false};
        std::thread waits([&] {
            EXPECT_EQ(outcome(destroys ? rdma_destroy_id(id) : rdma_migrate_id(id, second.channel)), 0);
            EXPECT_TRUE(acknowledged);
        });
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        acknowledged = true;
        EXPECT_EQ(outcome(rdma_ack_cm_event(event)), 0);
        waits.join();
        if (!destroys) {
            EXPECT_EQ(outcome(rdma_destroy_id(id)), 0);
        }
    }
}

TEST(Migration, ToSynchronousAndBack) {
    Side side;
    rdma_cm_id* id = side.id();
    ASSERT_EQ(outcome(rdma_migrate_id(id, nullptr)), 0);
    EXPECT_NE(id->channel, side.channel);
    EXPECT_EQ(outcome(rdma_resolve_addr(id, nullptr, Address("127.0.0.1", 7).get(), kResolveMs)), 0);
    EXPECT_TRUE(id->verbs);
    ASSERT_EQ(outcome(rdma_migrate_id(id, side.channel)), 0);
    EXPECT_EQ(outcome(rdma_resolve_route(id, kResolveMs)), 0);
    side.expect(RDMA_CM_EVENT_ROUTE_RESOLVED);
}

TEST(Channels, ManyEventsOfManyIdsAndDestroyingEveryOther) {
    constexpr int kIds = 60;
    Side side;
    std::vector<rdma_cm_id*> ids;
    for (int i = 0; i < kIds; i++) {
        ids.push_back(side.id());
        ASSERT_EQ(outcome(rdma_resolve_addr(ids.back(), nullptr, Address("127.0.0.1", 7).get(), kResolveMs)),
                  0);
    }
    for (int i = 0; i < kIds; i += 2) EXPECT_EQ(outcome(side.destroy(ids[static_cast<std::size_t>(i)])), 0);
    for (int i = 1; i < kIds; i += 2)
        EXPECT_EQ(side.expect(RDMA_CM_EVENT_ADDR_RESOLVED).id, ids[static_cast<std::size_t>(i)]);
    EXPECT_TRUE(side.quiet());
}

TEST(Channels, NonBlockingChannelAnswersEagain) {
    Side side;
    fcntl(side.channel->fd, F_SETFL, fcntl(side.channel->fd, F_GETFL) | O_NONBLOCK);
    rdma_cm_event* event = nullptr;
    errno = 0;
    EXPECT_EQ(rdma_get_cm_event(side.channel, &event), -1);
    EXPECT_EQ(errno, EAGAIN);
}

// rdma_resolve_addrinfo: the same with an event.
TEST(AddressInfo, ComesWithAnEvent) {
    Side side;
    rdma_cm_id* id = side.id();
    rdma_addrinfo hints{};
    hints.ai_port_space = RDMA_PS_TCP;
    for (int round = 0; round < 2; round++) {
        ASSERT_EQ(rdma_resolve_addrinfo(id, "127.0.0.1", "7471", &hints), 0);
        EXPECT_EQ(outcome(rdma_resolve_addrinfo(id, "127.0.0.1", "7472", &hints)), EBUSY);
        Event event = side.expect(static_cast<rdma_cm_event_type>(16));  // ADDRINFO_RESOLVED
        EXPECT_EQ(event.id, id);
        rdma_addrinfo* found = nullptr;
        ASSERT_EQ(rdma_query_addrinfo(id, &found), 0);
        ASSERT_EQ(found->ai_dst_len, sizeof(sockaddr_in));
        EXPECT_EQ(ntohs(reinterpret_cast<sockaddr_in*>(found->ai_dst_addr)->sin_port), 7471);
        rdma_freeaddrinfo(found);
        EXPECT_EQ(outcome(rdma_query_addrinfo(id, &found)), ENOENT);
    }
    // One that nobody fetches goes with its id.
    ASSERT_EQ(rdma_resolve_addrinfo(id, "127.0.0.1", "7471", nullptr), 0);
    side.expect(static_cast<rdma_cm_event_type>(16));
    EXPECT_TRUE(side.quiet());
}

TEST(Devices, TheListHoldsTheContextsOfTheIds) {
    int count = 0;
    ibv_context** list = rdma_get_devices(&count);
    ASSERT_TRUE(list);
    EXPECT_GT(count, 0);
    EXPECT_EQ(list[count], nullptr);
    Side side;
    rdma_cm_id *a = side.resolved("127.0.0.1", 7), *b = side.resolved("127.0.0.1", 7);
    EXPECT_EQ(a->verbs, b->verbs);
    EXPECT_EQ(a->pd, b->pd);
    EXPECT_NE(std::find(list, list + count, a->verbs), list + count);
    rdma_free_devices(list);
}

}  // namespace
}  // namespace verbena::rdmacm_test
