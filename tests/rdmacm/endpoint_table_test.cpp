// rdma_create_ep over port spaces, queue pair types, with and without a protection domain and queue pair
// attributes; what synchronous ids keep, and mixed with asynchronous ones.
#include <gtest/gtest.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <tuple>

#include "fabric.h"

namespace verbena::rdmacm_test {
namespace {

using Found = std::unique_ptr<rdma_addrinfo, decltype(&rdma_freeaddrinfo)>;

struct Kind {
    const char* name;
    rdma_port_space space;
    ibv_qp_type type;
    bool datagram() const { return type == IBV_QPT_UD; }
};
constexpr Kind kKinds[] = {{"tcp", RDMA_PS_TCP, IBV_QPT_RC},     {"udp", RDMA_PS_UDP, IBV_QPT_UD},
                           {"ipoib", RDMA_PS_IPOIB, IBV_QPT_UD}, {"ib_rc", RDMA_PS_IB, IBV_QPT_RC},
                           {"ib_uc", RDMA_PS_IB, IBV_QPT_UC},    {"ib_ud", RDMA_PS_IB, IBV_QPT_UD}};

Found look_up(const Kind& kind, const char* node, const std::string& service, int flags) {
    rdma_addrinfo hints{}, *found = nullptr;
    hints.ai_flags = flags;
    hints.ai_port_space = kind.space;
    hints.ai_qp_type = kind.type;
    EXPECT_EQ(rdma_getaddrinfo(node, service.c_str(), &hints, &found), 0);
    return {found, rdma_freeaddrinfo};
}

// An id of rdma_create_ep.
struct Endpoint {
    Endpoint() = default;
    Endpoint(const Found& info, ibv_pd* pd, ibv_qp_init_attr* attributes) {
        EXPECT_EQ(outcome(rdma_create_ep(&id, info.get(), pd, attributes)), 0);
    }
    ~Endpoint() { end(); }
    Endpoint(const Endpoint&) = delete;
    Endpoint& operator=(const Endpoint&) = delete;
    void end() {
        if (id) rdma_destroy_ep(id);
        id = nullptr;
    }
    rdma_cm_id* operator->() const { return id; }
    rdma_cm_id* id = nullptr;
};

// A protection domain of the loopback device.
struct Domain {
    Domain() {
        EXPECT_EQ(outcome(rdma_create_id(nullptr, &id, nullptr, RDMA_PS_TCP)), 0);
        EXPECT_EQ(outcome(rdma_resolve_addr(id, nullptr, Address("127.0.0.1", 7).get(), kResolveMs)), 0);
        pd = ibv_alloc_pd(id->verbs);
        EXPECT_TRUE(pd);
    }
    ~Domain() {
        EXPECT_EQ(ibv_dealloc_pd(pd), 0);
        EXPECT_EQ(outcome(rdma_destroy_id(id)), 0);
    }
    Domain(const Domain&) = delete;
    Domain& operator=(const Domain&) = delete;
    rdma_cm_id* id = nullptr;
    ibv_pd* pd = nullptr;
};

enum class Given { nothing, attributes, domain_and_attributes };
constexpr const char* kGivenNames[] = {"nothing", "attributes", "domain_and_attributes"};

class Endpoints : public testing::TestWithParam<std::tuple<Kind, Given>> {};

TEST_P(Endpoints, ConnectAndTalk) {
    const Kind kind = std::get<0>(GetParam());
    const Given given = std::get<1>(GetParam());
    Domain domain;
    ibv_pd* pd = given == Given::domain_and_attributes ? domain.pd : nullptr;
    ibv_qp_init_attr wanted = small_qp(), own = small_qp();
    ibv_qp_init_attr* attributes = given == Given::nothing ? nullptr : &wanted;

    Endpoint listener(look_up(kind, "127.0.0.1", "0", RAI_PASSIVE), pd, attributes);
    ASSERT_TRUE(listener.id);
    EXPECT_EQ(listener->ps, kind.space);
    EXPECT_EQ(listener->qp_type, kind.type);
    EXPECT_EQ(listener->qp, nullptr);
    EXPECT_TRUE(listener->channel);
    ASSERT_EQ(outcome(rdma_listen(listener.id, 0)), 0);

    rdma_cm_id* child = nullptr;
    std::thread server([&] {
        ASSERT_EQ(outcome(rdma_get_request(listener.id, &child)), 0);
        ASSERT_TRUE(child->event);
        EXPECT_STREQ(rdma_event_str(child->event->event), "RDMA_CM_EVENT_CONNECT_REQUEST");
        EXPECT_EQ(child->event->id, child);
        EXPECT_EQ(child->event->listen_id, listener.id);
        EXPECT_EQ(child->qp_type, kind.type);
        EXPECT_EQ(child->ps, kind.space);
        EXPECT_EQ(child->qp != nullptr, given != Given::nothing);
        if (!child->qp) {
            ibv_qp_init_attr later = small_qp();
            later.qp_type = kind.type;
            ASSERT_EQ(outcome(rdma_create_qp(child, nullptr, &later)), 0);
        }
        EXPECT_EQ(child->qp->qp_type, kind.type);
        EXPECT_EQ(child->qp->pd, child->pd);
        if (pd) {
            EXPECT_EQ(child->qp->pd, pd);
        }
        ASSERT_EQ(outcome(rdma_accept(child, nullptr)), 0);
        if (kind.datagram()) {
            EXPECT_EQ(child->event, nullptr);
        } else {
            ASSERT_TRUE(child->event);
            EXPECT_STREQ(rdma_event_str(child->event->event), "RDMA_CM_EVENT_ESTABLISHED");
        }
    });

    Endpoint active(look_up(kind, "127.0.0.1", std::to_string(source_port(listener.id)), 0), pd,
                    attributes ? &own : nullptr);
    ASSERT_TRUE(active.id);
    ASSERT_TRUE(active->verbs);
    EXPECT_EQ(active->qp != nullptr, given != Given::nothing);
    if (!active->qp) {
        own.qp_type = kind.type;
        ASSERT_EQ(outcome(rdma_create_qp(active.id, nullptr, &own)), 0);
    }
    EXPECT_EQ(own.qp_type, kind.type);
    if (pd) {
        EXPECT_EQ(active->qp->pd, pd);
    }
    ASSERT_EQ(outcome(rdma_connect(active.id, nullptr)), 0);
    ASSERT_TRUE(active->event);
    EXPECT_STREQ(rdma_event_str(active->event->event), "RDMA_CM_EVENT_ESTABLISHED");
    server.join();
    ASSERT_TRUE(child && child->qp);

    constexpr std::size_t kGrh = 40;
    char text[64] = "synchronous", room[64 + kGrh] = {};
    ibv_mr* from = rdma_reg_msgs(active.id, text, sizeof text);
    ibv_mr* to = rdma_reg_msgs(child, room, sizeof room);
    ASSERT_TRUE(from && to);
    ASSERT_EQ(outcome(rdma_post_recv(child, nullptr, room, sizeof room, to)), 0);
    ibv_wc completion{};
    if (kind.datagram()) {
        EXPECT_EQ(active->event->param.ud.qp_num, child->qp->qp_num);
        ibv_ah* handle = ibv_create_ah(active->pd, &active->event->param.ud.ah_attr);
        ASSERT_TRUE(handle);
        ASSERT_EQ(outcome(rdma_post_ud_send(active.id, nullptr, text, sizeof text, from, 0, handle,
                                            active->event->param.ud.qp_num)),
                  0);
        EXPECT_EQ(rdma_get_send_comp(active.id, &completion), 1);
        EXPECT_EQ(ibv_destroy_ah(handle), 0);
    } else {
        ASSERT_EQ(outcome(rdma_post_send(active.id, nullptr, text, sizeof text, from, 0)), 0);
        EXPECT_EQ(rdma_get_send_comp(active.id, &completion), 1);
    }
    EXPECT_EQ(completion.status, IBV_WC_SUCCESS);
    EXPECT_EQ(rdma_get_recv_comp(child, &completion), 1);
    EXPECT_EQ(completion.status, IBV_WC_SUCCESS);
    EXPECT_STREQ(room + (kind.datagram() ? kGrh : 0), "synchronous");
    if (!kind.datagram()) {
        std::thread leaver([&] { EXPECT_EQ(outcome(rdma_disconnect(child)), 0); });
        EXPECT_EQ(outcome(rdma_disconnect(active.id)), 0);
        leaver.join();
        EXPECT_STREQ(rdma_event_str(active->event->event), "RDMA_CM_EVENT_DISCONNECTED");
    }
    EXPECT_EQ(outcome(rdma_dereg_mr(from)), 0);
    EXPECT_EQ(outcome(rdma_dereg_mr(to)), 0);
    rdma_destroy_ep(child);
}

INSTANTIATE_TEST_SUITE_P(Table, Endpoints,
                         testing::Combine(testing::ValuesIn(kKinds),
                                          testing::Values(Given::nothing, Given::attributes,
                                                          Given::domain_and_attributes)),
                         [](const auto& row) {
                             return std::string(std::get<0>(row.param).name) + "_" +
                                    kGivenNames[static_cast<int>(std::get<1>(row.param))];
                         });

TEST(EndpointRefusals, LeaveNothingBehind) {
    rdma_cm_id* id = nullptr;
    const Kind stream{"tcp", RDMA_PS_TCP, IBV_QPT_RC};
    Endpoint listener(look_up(stream, "127.0.0.1", "0", RAI_PASSIVE), nullptr, nullptr);
    const std::string port = std::to_string(source_port(listener.id));
    EXPECT_EQ(
        outcome(rdma_create_ep(&id, look_up(stream, "127.0.0.1", port, RAI_PASSIVE).get(), nullptr, nullptr)),
        EADDRNOTAVAIL);
    EXPECT_EQ(
        outcome(rdma_create_ep(&id, look_up(stream, "192.0.2.1", "7", RAI_PASSIVE).get(), nullptr, nullptr)),
        EADDRNOTAVAIL);
    const Found active = look_up(stream, "127.0.0.1", "7", 0);
    ibv_qp_init_attr much = small_qp();
    much.cap.max_send_wr = 1u << 30;
    EXPECT_EQ(outcome(rdma_create_ep(&id, active.get(), nullptr, &much)), EINVAL);
    rdma_addrinfo strange = *active;
    strange.ai_port_space = 5;
    EXPECT_EQ(outcome(rdma_create_ep(&id, &strange, nullptr, nullptr)), EINVAL);
    EXPECT_EQ(outcome(rdma_create_ep(nullptr, active.get(), nullptr, nullptr)), EINVAL);
    EXPECT_EQ(id, nullptr);
}

// Bytes that come with the address go in front of the program's own.
TEST(EndpointData, OfTheAddressPrecedesTheProgramsOwn) {
    const Kind stream{"tcp", RDMA_PS_TCP, IBV_QPT_RC};
    Side server;
    std::uint16_t port = 0;
    server.listener("127.0.0.1", port);
    const Found info = look_up(stream, "127.0.0.1", std::to_string(port), 0);
    char data[] = "first ";
    rdma_addrinfo with = *info;
    with.ai_connect = data;
    with.ai_connect_len = 6;
    rdma_cm_id* id = nullptr;
    ibv_qp_init_attr attributes = small_qp();
    ASSERT_EQ(outcome(rdma_create_ep(&id, &with, nullptr, &attributes)), 0);
    Side client;
    ASSERT_EQ(outcome(rdma_migrate_id(id, client.channel)), 0);
    rdma_conn_param parameters{};
    parameters.private_data = "second";
    parameters.private_data_len = 7;
    ASSERT_EQ(outcome(rdma_connect(id, &parameters)), 0);
    const Event request = server.expect(RDMA_CM_EVENT_CONNECT_REQUEST);
    EXPECT_STREQ(reinterpret_cast<const char*>(request.data.data()), "first second");
    rdma_destroy_ep(id);
}

// A listener without a channel, a client with one; the child is synchronous with a channel of its own.
TEST(Mixed, SynchronousListenerAsynchronousClient) {
    rdma_cm_id *listener = nullptr, *child = nullptr;
    ASSERT_EQ(outcome(rdma_create_id(nullptr, &listener, &listener, RDMA_PS_TCP)), 0);
    EXPECT_EQ(outcome(rdma_get_request(listener, &child)), EINVAL) << "does not listen";
    ASSERT_EQ(outcome(rdma_bind_addr(listener, Address("127.0.0.1", 0).get())), 0);
    ASSERT_EQ(outcome(rdma_listen(listener, 2)), 0);
    EXPECT_EQ(outcome(rdma_get_request(listener, nullptr)), EINVAL);
    Side client;
    rdma_cm_id* active = client.resolved("127.0.0.1", source_port(listener));
    create_qp(active);
    rdma_conn_param parameters{};
    ASSERT_EQ(outcome(rdma_connect(active, &parameters)), 0);
    ASSERT_EQ(outcome(rdma_get_request(listener, &child)), 0);
    EXPECT_EQ(child->context, &listener);
    EXPECT_NE(child->channel, listener->channel);
    ASSERT_EQ(outcome(rdma_reject(child, "no", 3)), 0);
    const Event refused = client.expect(RDMA_CM_EVENT_REJECTED, 28);
    EXPECT_STREQ(reinterpret_cast<const char*>(refused.data.data()), "no");
    EXPECT_EQ(outcome(rdma_destroy_id(child)), 0);
    EXPECT_EQ(outcome(rdma_destroy_id(listener)), 0);
}

// A request that was taken asynchronously, and whose child becomes synchronous.
TEST(Mixed, ChildOfAnAsynchronousListenerBecomesSynchronous) {
    Side server;
    std::uint16_t port = 0;
    server.listener("127.0.0.1", port);
    std::thread client([&] {
        rdma_cm_id* id = nullptr;
        ASSERT_EQ(outcome(rdma_create_id(nullptr, &id, nullptr, RDMA_PS_TCP)), 0);
        ASSERT_EQ(outcome(rdma_resolve_addr(id, nullptr, Address("127.0.0.1", port).get(), kResolveMs)), 0);
        ASSERT_TRUE(id->event);
        EXPECT_STREQ(rdma_event_str(id->event->event), "RDMA_CM_EVENT_ADDR_RESOLVED");
        ASSERT_EQ(outcome(rdma_resolve_route(id, kResolveMs)), 0);
        EXPECT_STREQ(rdma_event_str(id->event->event), "RDMA_CM_EVENT_ROUTE_RESOLVED");
        create_qp(id);
        ASSERT_EQ(outcome(rdma_connect(id, nullptr)), 0);
        EXPECT_STREQ(rdma_event_str(id->event->event), "RDMA_CM_EVENT_ESTABLISHED");
        EXPECT_EQ(outcome(rdma_disconnect(id)), 0);
        EXPECT_STREQ(rdma_event_str(id->event->event), "RDMA_CM_EVENT_DISCONNECTED");
        rdma_destroy_qp(id);
        EXPECT_EQ(outcome(rdma_destroy_id(id)), 0);
    });
    rdma_cm_id* child = server.expect(RDMA_CM_EVENT_CONNECT_REQUEST).id;
    ASSERT_TRUE(child);
    ASSERT_EQ(outcome(rdma_migrate_id(child, nullptr)), 0);
    EXPECT_NE(child->channel, server.channel);
    create_qp(child);
    ASSERT_EQ(outcome(rdma_accept(child, nullptr)), 0);
    ASSERT_TRUE(child->event);
    EXPECT_STREQ(rdma_event_str(child->event->event), "RDMA_CM_EVENT_ESTABLISHED");
    EXPECT_EQ(outcome(rdma_disconnect(child)), 0);
    client.join();
    EXPECT_TRUE(server.quiet());
}

TEST(Mixed, SynchronousMulticast) {
    Address own("127.0.0.1", 0), group("239.1.2.8", 0);
    rdma_cm_id* id = nullptr;
    ASSERT_EQ(outcome(rdma_create_id(nullptr, &id, nullptr, RDMA_PS_UDP)), 0);
    ASSERT_EQ(outcome(rdma_resolve_addr(id, own.get(), group.get(), kResolveMs)), 0);
    create_qp(id);
    ASSERT_EQ(outcome(rdma_join_multicast(id, group.get(), &id)), 0);
    ASSERT_TRUE(id->event);
    EXPECT_STREQ(rdma_event_str(id->event->event), "RDMA_CM_EVENT_MULTICAST_JOIN");
    EXPECT_EQ(id->event->param.ud.private_data, &id);
    EXPECT_EQ(outcome(rdma_leave_multicast(id, group.get())), 0);
    EXPECT_EQ(outcome(rdma_leave_multicast(id, group.get())), EADDRNOTAVAIL);
    rdma_destroy_qp(id);
    EXPECT_EQ(outcome(rdma_destroy_id(id)), 0);
}

// What fails synchronously: -1 with the status as errno, and the event is kept.
TEST(Mixed, SynchronousFailuresAreErrno) {
    rdma_cm_id* id = nullptr;
    ASSERT_EQ(outcome(rdma_create_id(nullptr, &id, nullptr, RDMA_PS_UDP)), 0);
    ASSERT_EQ(outcome(rdma_resolve_addr(id, nullptr, Address("127.0.0.1", 9).get(), kResolveMs)), 0);
    ASSERT_EQ(outcome(rdma_resolve_route(id, kResolveMs)), 0);
    EXPECT_EQ(outcome(rdma_connect(id, nullptr)), ECONNREFUSED);
    ASSERT_TRUE(id->event);
    EXPECT_STREQ(rdma_event_str(id->event->event), "RDMA_CM_EVENT_UNREACHABLE");
    EXPECT_EQ(outcome(rdma_destroy_id(id)), 0);
}

}  // namespace
}  // namespace verbena::rdmacm_test
