// rdma_set_option: every option, with right and wrong lengths, in every state that matters, and what it does.
#include <gtest/gtest.h>
#include <rdma/rdma_cma.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "fabric.h"

namespace verbena::rdmacm_test {
namespace {

constexpr int kNoSuchOption = ENOSYS;
constexpr std::uint32_t kPathFlags = IBV_PATH_FLAG_GMP | IBV_PATH_FLAG_PRIMARY | IBV_PATH_FLAG_BIDIRECTIONAL;

int set(rdma_cm_id* id, int level, int option, const void* value, std::size_t length) {
    return outcome(rdma_set_option(id, level, option, const_cast<void*>(value), length));
}

struct Length {
    const char* what;
    int level, option;
    std::size_t length;
    int error;
};

TEST(Option, LengthsAndLevels) {
    const Length table[] = {
        {"TOS, nothing", RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, 0, EINVAL},
        {"TOS, one byte", RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, 1, 0},
        {"TOS, four bytes", RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, 4, EINVAL},
        {"REUSEADDR, one byte", RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, 1, EINVAL},
        {"REUSEADDR, int", RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, 4, 0},
        {"REUSEADDR, eight bytes", RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, 8, EINVAL},
        {"AFONLY, nothing", RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, 0, EINVAL},
        {"AFONLY, one byte", RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, 1, EINVAL},
        {"AFONLY, int", RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, 4, 0},
        {"ACK_TIMEOUT, nothing", RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, 0, EINVAL},
        {"ACK_TIMEOUT, one byte", RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, 1, 0},
        {"ACK_TIMEOUT, int", RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, 4, EINVAL},
        {"no such option", RDMA_OPTION_ID, 99, 4, kNoSuchOption},
        {"negative option", RDMA_OPTION_ID, -1, 4, kNoSuchOption},
        {"no such level", 7, 0, 1, kNoSuchOption},
        {"negative level", -1, 0, 1, kNoSuchOption},
        {"IB, no such option", RDMA_OPTION_IB, 0, 1, kNoSuchOption},
        {"IB PATH, nothing", RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, 0, EINVAL},
        {"IB PATH, half a record", RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, sizeof(ibv_path_data) / 2, EINVAL},
        {"larger than any value", RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, 100'000, EINVAL},
    };
    Side side;
    std::vector<char> value(100'000);
    value[0] = 1;
    for (const Length& row : table)
        EXPECT_EQ(set(side.id(), row.level, row.option, value.data(), row.length), row.error) << row.what;
    EXPECT_EQ(set(side.id(), RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, nullptr, 1), EINVAL);
}

// The states' errors per option: idle, bound, address resolved, route resolved, listening.
TEST(Option, States) {
    const int on = 1, off = 0;
    const std::uint8_t byte = 14;
    struct Row {
        const char* what;
        int option;
        const void* value;
        std::size_t length;
        int errors[5];
    };
    const Row table[] = {
        {"TOS", RDMA_OPTION_ID_TOS, &byte, sizeof byte, {0, 0, 0, 0, 0}},
        {"ACK_TIMEOUT", RDMA_OPTION_ID_ACK_TIMEOUT, &byte, sizeof byte, {0, 0, 0, 0, 0}},
        {"REUSEADDR on", RDMA_OPTION_ID_REUSEADDR, &on, sizeof on, {0, 0, 0, 0, EINVAL}},
        {"REUSEADDR off", RDMA_OPTION_ID_REUSEADDR, &off, sizeof off, {0, EINVAL, EINVAL, EINVAL, EINVAL}},
        {"AFONLY on", RDMA_OPTION_ID_AFONLY, &on, sizeof on, {0, 0, EINVAL, EINVAL, EINVAL}},
        {"AFONLY off", RDMA_OPTION_ID_AFONLY, &off, sizeof off, {0, 0, EINVAL, EINVAL, EINVAL}},
    };
    for (const Row& row : table) {
        Side side;
        rdma_cm_id* ids[5];
        ids[0] = side.id();
        ids[1] = side.id();
        EXPECT_EQ(outcome(rdma_bind_addr(ids[1], Address("127.0.0.1", 0).get())), 0);
        ids[2] = side.id();
        EXPECT_EQ(outcome(rdma_resolve_addr(ids[2], nullptr, Address("127.0.0.1", 9).get(), kResolveMs)), 0);
        side.expect(RDMA_CM_EVENT_ADDR_RESOLVED);
        ids[3] = side.resolved("127.0.0.1", 9);
        std::uint16_t port = 0;
        ids[4] = side.listener("127.0.0.1", port);
        for (int i = 0; i < 5; i++)
            EXPECT_EQ(set(ids[i], RDMA_OPTION_ID, row.option, row.value, row.length), row.errors[i])
                << row.what << ", id " << i;
    }
}

TEST(Option, AckTimeoutIsForConnectedIds) {
    Side side;
    const std::uint8_t exponent = 14;
    EXPECT_EQ(set(side.id(RDMA_PS_UDP), RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &exponent, 1), EINVAL);
    EXPECT_EQ(set(side.id(RDMA_PS_IB), RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &exponent, 1), 0);
}

// What the options do to the queue pair of a connection: the active side's, and a listener's to its children.
TEST(Option, TypeOfServiceAndAckTimeoutReachTheQueuePair) {
    constexpr std::uint8_t kService = 0x68, kActive = 12, kPassive = 9;
    Side server, client;
    std::uint16_t port = 0;
    rdma_cm_id* listener = server.id();
    EXPECT_EQ(set(listener, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &kPassive, 1), 0);
    ASSERT_EQ(outcome(rdma_bind_addr(listener, Address("127.0.0.1", 0).get())), 0);
    ASSERT_EQ(outcome(rdma_listen(listener, 0)), 0);
    port = source_port(listener);
    rdma_cm_id* active = client.id();
    EXPECT_EQ(set(active, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &kService, 1), 0);
    EXPECT_EQ(set(active, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &kActive, 1), 0);
    ASSERT_EQ(outcome(rdma_resolve_addr(active, nullptr, Address("127.0.0.1", port).get(), kResolveMs)), 0);
    client.expect(RDMA_CM_EVENT_ADDR_RESOLVED);
    ASSERT_EQ(outcome(rdma_resolve_route(active, kResolveMs)), 0);
    client.expect(RDMA_CM_EVENT_ROUTE_RESOLVED);
    EXPECT_EQ(active->route.path_rec->traffic_class, kService);
    create_qp(active);
    rdma_conn_param parameters{};
    ASSERT_EQ(outcome(rdma_connect(active, &parameters)), 0);
    rdma_cm_id* passive = server.expect(RDMA_CM_EVENT_CONNECT_REQUEST).id;
    ASSERT_TRUE(passive);
    create_qp(passive);
    ASSERT_EQ(outcome(rdma_accept(passive, &parameters)), 0);
    client.expect(RDMA_CM_EVENT_ESTABLISHED);
    server.expect(RDMA_CM_EVENT_ESTABLISHED);
    for (auto [id, timeout] : {std::pair{active, kActive}, {passive, kPassive}}) {
        ibv_qp_attr attributes{};
        ibv_qp_init_attr init{};
        ASSERT_EQ(ibv_query_qp(id->qp, &attributes, IBV_QP_AV | IBV_QP_TIMEOUT, &init), 0);
        EXPECT_EQ(attributes.ah_attr.grh.traffic_class, kService);
        EXPECT_EQ(attributes.timeout, timeout);
    }
}

TEST(Option, TypeOfServiceReachesDatagrams) {
    constexpr std::uint8_t kService = 0x20;
    Side server, client;
    std::uint16_t port = 0;
    server.listener("127.0.0.1", port, RDMA_PS_UDP);
    rdma_cm_id* active = client.id(RDMA_PS_UDP);
    EXPECT_EQ(set(active, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &kService, 1), 0);
    ASSERT_EQ(outcome(rdma_resolve_addr(active, nullptr, Address("127.0.0.1", port).get(), kResolveMs)), 0);
    client.expect(RDMA_CM_EVENT_ADDR_RESOLVED);
    ASSERT_EQ(outcome(rdma_resolve_route(active, kResolveMs)), 0);
    client.expect(RDMA_CM_EVENT_ROUTE_RESOLVED);
    rdma_conn_param parameters{};
    ASSERT_EQ(outcome(rdma_connect(active, &parameters)), 0);
    rdma_cm_id* passive = server.expect(RDMA_CM_EVENT_CONNECT_REQUEST).id;
    ASSERT_EQ(outcome(rdma_accept(passive, &parameters)), 0);
    EXPECT_EQ(client.expect(RDMA_CM_EVENT_ESTABLISHED).ud.ah_attr.grh.traffic_class, kService);
}

// An IPv6 wildcard takes IPv4's clients unless it is told not to.
TEST(Option, FamilyOnlyLeavesTheOtherFamilysPortFree) {
    for (int only : {0, 1}) {
        Side side;
        rdma_cm_id* wide = side.id();
        EXPECT_EQ(set(wide, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &only, sizeof only), 0);
        ASSERT_EQ(outcome(rdma_bind_addr(wide, Address("::", 0).get())), 0);
        rdma_cm_id* v4 = side.id();
        EXPECT_EQ(outcome(rdma_bind_addr(v4, Address("0.0.0.0", source_port(wide)).get())),
                  only ? 0 : EADDRNOTAVAIL);
    }
}

// A path record in the place of rdma_resolve_route.
TEST(Option, Path) {
    ibv_path_data paths[2]{};
    Side side;
    auto resolved = [&side] {
        rdma_cm_id* id = side.id();
        EXPECT_EQ(outcome(rdma_resolve_addr(id, nullptr, Address("127.0.0.1", 9).get(), kResolveMs)), 0);
        side.expect(RDMA_CM_EVENT_ADDR_RESOLVED);
        return id;
    };
    rdma_cm_id* id = resolved();
    ibv_path_record& record = paths[1].path;
    record.flowlabel_hoplimit = htobe32(0x12345 << 8 | 7);
    record.tclass = 0x40;
    record.mtu = IBV_MTU_512;
    record.packetlifetime = 14;
    for (std::uint32_t flags : {std::uint32_t{0}, std::uint32_t{IBV_PATH_FLAG_GMP},
                                kPathFlags & ~std::uint32_t{IBV_PATH_FLAG_PRIMARY}}) {
        paths[0].flags = flags;
        EXPECT_EQ(set(id, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, paths, sizeof paths[0]), EINVAL) << flags;
    }
    paths[1].flags = kPathFlags;  // one of them is enough
    EXPECT_EQ(set(id, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, paths, sizeof paths), 0);
    EXPECT_EQ(side.expect(RDMA_CM_EVENT_ROUTE_RESOLVED).id, id);
    ASSERT_EQ(id->route.num_paths, 1);
    EXPECT_EQ(id->route.path_rec->flow_label, htobe32(0x12345));
    EXPECT_EQ(id->route.path_rec->hop_limit, 7);
    EXPECT_EQ(id->route.path_rec->traffic_class, 0x40);
    EXPECT_EQ(id->route.path_rec->mtu, IBV_MTU_512);
    EXPECT_EQ(id->route.path_rec->packet_life_time, 14);
    EXPECT_EQ(set(id, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, paths, sizeof paths), EINVAL) << "twice";
    for (rdma_cm_id* early : {side.id(), side.resolved("127.0.0.1", 9)})
        EXPECT_EQ(set(early, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, paths, sizeof paths), EINVAL);
    EXPECT_TRUE(side.quiet());
}

// rdma_create_ep sets one for the program.
TEST(Option, PathOfAnEndpoint) {
    ibv_path_data path{};
    path.flags = kPathFlags;
    path.path.mtu = IBV_MTU_512;
    Address to("127.0.0.1", 9);
    rdma_addrinfo info{};
    info.ai_qp_type = IBV_QPT_RC;
    info.ai_port_space = RDMA_PS_TCP;
    info.ai_dst_addr = to.get();
    info.ai_dst_len = sizeof(sockaddr_in);
    info.ai_route = &path;
    info.ai_route_len = sizeof path;
    rdma_cm_id* id = nullptr;
    ASSERT_EQ(outcome(rdma_create_ep(&id, &info, nullptr, nullptr)), 0);
    ASSERT_TRUE(id->route.path_rec);
    EXPECT_EQ(id->route.path_rec->mtu, IBV_MTU_512);
    rdma_destroy_ep(id);
}

}  // namespace
}  // namespace verbena::rdmacm_test
