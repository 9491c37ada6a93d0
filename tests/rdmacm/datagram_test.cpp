// Datagram ids: the look-up of a remote queue pair (SIDR), multicast joins.
#include <gtest/gtest.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>

#include <cerrno>
#include <cstring>

#include "fabric.h"

namespace verbena::rdmacm_test {
namespace {

constexpr int kSidrUnsupported = 1;
constexpr int kSidrRejected = 2;

TEST(Datagram, LookUpGivesTheQueuePairAndItsKey) {
    Side server, client;
    std::uint16_t port = 0;
    rdma_cm_id* listener = server.listener("127.0.0.1", port, RDMA_PS_UDP);
    rdma_cm_id* active = client.resolved("127.0.0.1", port, RDMA_PS_UDP);
    rdma_conn_param parameters{};
    parameters.private_data = "who";
    parameters.private_data_len = 3;
    ASSERT_EQ(outcome(rdma_connect(active, &parameters)), 0);
    Event request = server.expect(RDMA_CM_EVENT_CONNECT_REQUEST);
    ASSERT_TRUE(request.id);
    EXPECT_EQ(request.listen_id, listener);
    EXPECT_EQ(request.id->qp_type, IBV_QPT_UD);
    EXPECT_EQ(request.data.size(), 180u);
    EXPECT_EQ(std::memcmp(request.data.data(), "who", 4), 0);

    rdma_conn_param answer{};
    answer.qp_num = 0x778899;
    answer.private_data = "me";
    answer.private_data_len = 2;
    ASSERT_EQ(outcome(rdma_accept(request.id, &answer)), 0);
    Event established = client.expect(RDMA_CM_EVENT_ESTABLISHED);
    EXPECT_EQ(established.ud.qp_num, 0x778899u);
    EXPECT_EQ(established.ud.qkey, std::uint32_t{RDMA_UDP_QKEY});
    EXPECT_EQ(established.ud.ah_attr.is_global, 1);
    EXPECT_EQ(established.ud.ah_attr.port_num, 1);
    EXPECT_EQ(established.data.size(), 136u);
    EXPECT_TRUE(server.quiet(50));  // the passive side hears no more
}

TEST(Datagram, QueuePairIsReadyToSendAtOnce) {
    Side side;
    rdma_cm_id* id = side.resolved("127.0.0.1", 7, RDMA_PS_UDP);
    ibv_qp_init_attr attributes{};
    attributes.cap = {1, 1, 1, 1, 0};
    attributes.qp_type = IBV_QPT_UD;
    int error = outcome(rdma_create_qp(id, nullptr, &attributes));
    if (error == EOPNOTSUPP) GTEST_SKIP() << "datagram queue pairs are not supported yet";
    ASSERT_EQ(error, 0);
    ibv_qp_attr now{};
    ibv_qp_init_attr init{};
    ASSERT_EQ(ibv_query_qp(id->qp, &now, IBV_QP_STATE, &init), 0);
    EXPECT_EQ(now.qp_state, IBV_QPS_RTS);
}

TEST(Datagram, NobodyListensIsUnreachable) {
    Side side;
    rdma_cm_id* id = side.resolved("127.0.0.1", 9, RDMA_PS_UDP);
    rdma_conn_param parameters{};
    ASSERT_EQ(outcome(rdma_connect(id, &parameters)), 0);
    side.expect(RDMA_CM_EVENT_UNREACHABLE, kSidrUnsupported);
}

TEST(Datagram, RejectionIsUnreachable) {
    Side server, client;
    std::uint16_t port = 0;
    server.listener("127.0.0.1", port, RDMA_PS_UDP);
    rdma_cm_id* active = client.resolved("127.0.0.1", port, RDMA_PS_UDP);
    rdma_conn_param parameters{};
    ASSERT_EQ(outcome(rdma_connect(active, &parameters)), 0);
    Event request = server.expect(RDMA_CM_EVENT_CONNECT_REQUEST);
    ASSERT_TRUE(request.id);
    ASSERT_EQ(outcome(rdma_reject(request.id, "no", 2)), 0);
    Event event = client.expect(RDMA_CM_EVENT_UNREACHABLE, kSidrRejected);
    EXPECT_EQ(event.data.size(), 136u);
}

TEST(Datagram, TooMuchPrivateData) {
    Side side;
    char data[181] = {};
    rdma_conn_param parameters{};
    parameters.private_data = data;
    parameters.private_data_len = sizeof data;
    EXPECT_EQ(outcome(rdma_connect(side.resolved("127.0.0.1", 9, RDMA_PS_UDP), &parameters)), EINVAL);
}

TEST(Multicast, JoinTellsTheGroupAndLeaveForgetsIt) {
    Side side;
    rdma_cm_id* id = side.id(RDMA_PS_UDP);
    ASSERT_EQ(outcome(rdma_bind_addr(id, Address("127.0.0.1", 0).get())), 0);
    Address group("239.1.2.3", 0);
    int context = 0;
    ASSERT_EQ(outcome(rdma_join_multicast(id, group.get(), &context)), 0);
    ASSERT_TRUE(wait_readable(side.channel->fd, kPatienceMs));
    rdma_cm_event* event = nullptr;
    ASSERT_EQ(rdma_get_cm_event(side.channel, &event), 0);
    EXPECT_STREQ(rdma_event_str(event->event), "RDMA_CM_EVENT_MULTICAST_JOIN");
    EXPECT_EQ(event->status, 0);
    EXPECT_EQ(event->id, id);
    EXPECT_EQ(event->param.ud.private_data, &context);
    EXPECT_EQ(event->param.ud.qp_num, 0xffffffu);
    EXPECT_EQ(event->param.ud.qkey, std::uint32_t{RDMA_UDP_QKEY});
    const std::uint8_t mgid[16] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 239, 1, 2, 3};
    EXPECT_EQ(std::memcmp(&event->param.ud.ah_attr.grh.dgid, mgid, sizeof mgid), 0);
    EXPECT_EQ(rdma_ack_cm_event(event), 0);
    EXPECT_EQ(outcome(rdma_leave_multicast(id, group.get())), 0);
    EXPECT_EQ(outcome(rdma_leave_multicast(id, group.get())), EADDRNOTAVAIL);
}

// A member of a group with a queue pair and room for some messages.
struct Member {
    static constexpr std::size_t kGrh = 40, kRoom = kGrh + 16;
    explicit Member(Side& side, sockaddr* group) : id(side.id(RDMA_PS_UDP)) {
        EXPECT_EQ(outcome(rdma_resolve_addr(id, Address("127.0.0.1", 0).get(), group, kResolveMs)), 0);
        side.expect(RDMA_CM_EVENT_ADDR_RESOLVED);
        create_qp(id);
        region = rdma_reg_msgs(id, memory, sizeof memory);
        EXPECT_TRUE(region);
        for (char* room : {memory, memory + kRoom, memory + 2 * kRoom})
            EXPECT_EQ(outcome(rdma_post_recv(id, room, room, kRoom, region)), 0);
        EXPECT_EQ(outcome(rdma_join_multicast(id, group, nullptr)), 0);
        joined = side.expect(RDMA_CM_EVENT_MULTICAST_JOIN);
    }
    ~Member() { EXPECT_EQ(outcome(rdma_dereg_mr(region)), 0); }
    Member(const Member&) = delete;
    Member& operator=(const Member&) = delete;

    void send(const char* text, ibv_ah_attr to, std::uint32_t qp_number) {
        char* out = memory + 3 * kRoom;
        std::strcpy(out, text);
        ibv_ah* handle = ibv_create_ah(id->pd, &to);
        ASSERT_TRUE(handle);
        ASSERT_EQ(
            outcome(rdma_post_ud_send(id, nullptr, out, 16, region, IBV_SEND_SIGNALED, handle, qp_number)),
            0);
        ibv_wc sent{};
        EXPECT_EQ(rdma_get_send_comp(id, &sent), 1);
        EXPECT_EQ(sent.status, IBV_WC_SUCCESS);
        EXPECT_EQ(ibv_destroy_ah(handle), 0);
    }
    void expect(const char* text) {
        ibv_wc received{};
        ASSERT_EQ(rdma_get_recv_comp(id, &received), 1);
        EXPECT_EQ(received.status, IBV_WC_SUCCESS);
        EXPECT_STREQ(reinterpret_cast<const char*>(received.wr_id) + kGrh, text);
    }

    rdma_cm_id* id;
    Event joined;
    ibv_mr* region = nullptr;
    char memory[4 * kRoom] = {};
};

TEST(Multicast, NothingArrivesAfterLeave) {
    Address group("239.1.2.5", 0);
    Side here, there;
    Member sender(here, group.get()), receiver(there, group.get());
    sender.send("before", sender.joined.ud.ah_attr, sender.joined.ud.qp_num);
    receiver.expect("before");
    sender.expect("before");
    EXPECT_EQ(outcome(rdma_leave_multicast(receiver.id, group.get())), 0);
    sender.send("after", sender.joined.ud.ah_attr, sender.joined.ud.qp_num);
    sender.expect("after");
    ibv_ah_attr own = sender.joined.ud.ah_attr;
    own.grh.dgid = receiver.id->route.addr.addr.ibaddr.sgid;
    sender.send("to one", own, receiver.id->qp->qp_num);
    receiver.expect("to one");
    ibv_wc more{};
    EXPECT_EQ(ibv_poll_cq(receiver.id->recv_cq, 1, &more), 0);
}

TEST(Multicast, LeavingDropsTheUnreadJoin) {
    Side side;
    rdma_cm_id* id = side.id(RDMA_PS_UDP);
    ASSERT_EQ(outcome(rdma_bind_addr(id, Address("127.0.0.1", 0).get())), 0);
    Address group("239.1.2.4", 0);
    ASSERT_EQ(outcome(rdma_join_multicast(id, group.get(), nullptr)), 0);
    ASSERT_TRUE(wait_readable(side.channel->fd, kPatienceMs));
    EXPECT_EQ(outcome(rdma_leave_multicast(id, group.get())), 0);
    EXPECT_TRUE(side.quiet());
}

TEST(Multicast, ZeroAddressIsRefused) {
    Side side;
    rdma_cm_id* id = side.id(RDMA_PS_UDP);
    ASSERT_EQ(outcome(rdma_bind_addr(id, Address("127.0.0.1", 0).get())), 0);
    EXPECT_EQ(outcome(rdma_join_multicast(id, Address("0.0.0.0", 0).get(), nullptr)), EINVAL);
}

}  // namespace
}  // namespace verbena::rdmacm_test
