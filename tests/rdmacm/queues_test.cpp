// Queue pairs and shared receive queues of ids: which limits a connection gives them, and what the id lends.
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>

#include "fabric.h"

namespace verbena::rdmacm_test {
namespace {

ibv_qp_attr limits_of(rdma_cm_id* id) {
    ibv_qp_attr attributes{};
    ibv_qp_init_attr init{};
    EXPECT_EQ(ibv_query_qp(id->qp, &attributes, IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_MAX_DEST_RD_ATOMIC, &init),
              0);
    return attributes;
}

// As with the kernel: the active side's queue pair has what the reply grants, the passive one's what its
// program said.
TEST(Queues, LimitsAreWhatTheReplyGrants) {
    Side server, client;
    std::uint16_t port = 0;
    server.listener("127.0.0.1", port);
    rdma_cm_id* active = client.resolved("127.0.0.1", port);
    create_qp(active);
    rdma_conn_param asked{};
    asked.responder_resources = 5;
    asked.initiator_depth = 6;
    ASSERT_EQ(outcome(rdma_connect(active, &asked)), 0);
    rdma_cm_id* passive = server.expect(RDMA_CM_EVENT_CONNECT_REQUEST).id;
    ASSERT_TRUE(passive);
    create_qp(passive);
    rdma_conn_param granted{};
    granted.responder_resources = 2;
    granted.initiator_depth = 3;
    ASSERT_EQ(outcome(rdma_accept(passive, &granted)), 0);
    client.expect(RDMA_CM_EVENT_ESTABLISHED);
    server.expect(RDMA_CM_EVENT_ESTABLISHED);
    EXPECT_EQ(limits_of(active).max_rd_atomic, 2);
    EXPECT_EQ(limits_of(active).max_dest_rd_atomic, 3);
    EXPECT_EQ(limits_of(passive).max_rd_atomic, 3);
    EXPECT_EQ(limits_of(passive).max_dest_rd_atomic, 2);
}

// A bit in comp_mask with nothing behind it is as good as none.
TEST(Queues, TheIdLendsWhatIsNamedAndNull) {
    Side side;
    std::uint16_t port = 0;
    side.listener("127.0.0.1", port);
    rdma_cm_id* id = side.resolved("127.0.0.1", port);
    ibv_qp_init_attr_ex attributes{};
    attributes.qp_type = IBV_QPT_RC;
    attributes.cap = {4, 4, 1, 1, 0};
    attributes.comp_mask = IBV_QP_INIT_ATTR_PD;
    ASSERT_EQ(outcome(rdma_create_qp_ex(id, &attributes)), 0);
    EXPECT_EQ(id->qp->pd, id->pd);
    rdma_destroy_qp(id);

    attributes = {};
    attributes.qp_type = IBV_QPT_XRC_RECV;
    attributes.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_XRCD;
    ASSERT_EQ(outcome(rdma_create_qp_ex(id, &attributes)), 0);
    EXPECT_TRUE(attributes.xrcd);
    rdma_destroy_qp(id);

    ibv_srq_init_attr_ex queue{};
    queue.attr = {4, 1, 0};
    queue.comp_mask = IBV_SRQ_INIT_ATTR_PD;
    ASSERT_EQ(outcome(rdma_create_srq_ex(id, &queue)), 0);
    EXPECT_EQ(id->srq->pd, id->pd);
    rdma_destroy_srq(id);

    queue = {};
    queue.attr = {4, 1, 0};
    queue.srq_type = IBV_SRQT_XRC;
    queue.comp_mask =
        IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
    ASSERT_EQ(outcome(rdma_create_srq_ex(id, &queue)), 0);
    EXPECT_TRUE(queue.xrcd);
    EXPECT_EQ(queue.cq, id->recv_cq);
    rdma_destroy_srq(id);
}

// What rdma_create_srq made, or the program itself, is not the failed call's to destroy.
TEST(Queues, AQueuePairThatCannotBeMadeLeavesTheCompletionQueuesBeforeIt) {
    Side side;
    rdma_cm_id* id = side.resolved("127.0.0.1", 7);
    ibv_qp_init_attr_ex refused{};
    refused.qp_type = IBV_QPT_RC;
    refused.cap = {4, 4, 100'000, 1, 0};

    ibv_srq_init_attr_ex queue{};
    queue.attr = {4, 1, 0};
    queue.srq_type = IBV_SRQT_XRC;
    queue.comp_mask = IBV_SRQ_INIT_ATTR_TYPE;
    ASSERT_EQ(outcome(rdma_create_srq_ex(id, &queue)), 0);
    ASSERT_TRUE(id->recv_cq);
    auto attributes = refused;
    EXPECT_EQ(outcome(rdma_create_qp_ex(id, &attributes)), EINVAL);
    EXPECT_EQ(id->recv_cq, queue.cq);
    EXPECT_TRUE(id->recv_cq_channel);
    EXPECT_FALSE(id->send_cq);
    EXPECT_FALSE(id->send_cq_channel);
    rdma_destroy_srq(id);
    EXPECT_FALSE(id->recv_cq);

    id->recv_cq = ibv_create_cq(id->verbs, 4, nullptr, nullptr, 0);
    ibv_cq* const before = id->recv_cq;
    ibv_srq_init_attr too_many{nullptr, {1u << 30, 1, 0}};
    EXPECT_NE(outcome(rdma_create_srq(id, nullptr, &too_many)), 0);
    EXPECT_EQ(id->recv_cq, before);
    ibv_destroy_cq(before);
    id->recv_cq = nullptr;

    for (ibv_cq* rdma_cm_id::*own : {&rdma_cm_id::recv_cq, &rdma_cm_id::send_cq}) {
        ibv_cq* const cq = id->*own = ibv_create_cq(id->verbs, 4, nullptr, nullptr, 0);
        ASSERT_TRUE(cq);
        attributes = refused;
        EXPECT_EQ(outcome(rdma_create_qp_ex(id, &attributes)), EINVAL);
        EXPECT_EQ(id->*own, cq);
        attributes = refused;  // no completion queue of that size either
        (own == &rdma_cm_id::recv_cq ? attributes.cap.max_send_wr : attributes.cap.max_recv_wr) = 1u << 30;
        EXPECT_NE(outcome(rdma_create_qp_ex(id, &attributes)), 0);
        EXPECT_EQ(id->*own, cq);
        EXPECT_EQ(ibv_destroy_cq(cq), 0);
        id->*own = nullptr;
        EXPECT_FALSE(id->send_cq || id->recv_cq);
    }
}

}  // namespace
}  // namespace verbena::rdmacm_test
