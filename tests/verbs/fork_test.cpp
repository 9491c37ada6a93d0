// A forked child: the parent's objects refuse to work there, each with a reason; what the child opens itself
// works; and the parent notices nothing of either.
#include <sys/wait.h>
#include <unistd.h>

#include "harness.h"

namespace verbena::verbs_test {
namespace {

TEST(Fork, ParentsObjectsRefuseInTheChild) {
    Options options;
    options.with_channel = true;
    Pair pair(options);
    Memory memory(pair.a.pd, 64);
    exchange_message(pair);
    in_child([&] {
        Side& side = pair.a;
        ibv_qp_attr attributes{};
        attributes.qp_state = IBV_QPS_ERR;
        ibv_qp_init_attr setup = side.setup();
        ibv_wc wc;
        ibv_cq* cq;
        void* context;
        ibv_async_event event;
        EXPECT_TRUE(refused(EIO, [&] { return side.post_receive(1, nullptr, 0); }));
        EXPECT_TRUE(refused(EIO, [&] { return Request(1, IBV_WR_SEND, nullptr, 0).post(side.qp); }));
        EXPECT_TRUE(refused(EIO, [&] { return ibv_modify_qp(side.qp, &attributes, IBV_QP_STATE); }));
        EXPECT_TRUE(refused(EIO, [&] { return ibv_query_qp(side.qp, &attributes, IBV_QP_STATE, &setup); }));
        EXPECT_TRUE(refused(EIO, [&] { return -ibv_poll_cq(side.send_cq, 1, &wc); }));
        EXPECT_TRUE(refused(EIO, [&] { return ibv_req_notify_cq(side.send_cq, 0); }));
        EXPECT_TRUE(refused_minus_one(EIO, [&] { return ibv_get_cq_event(side.channel, &cq, &context); }));
        EXPECT_TRUE(refused_minus_one(EIO, [&] { return ibv_get_async_event(side.context, &event); }));
        EXPECT_TRUE(refused_null(EIO, [&] { return ibv_alloc_pd(side.context); }));
        EXPECT_TRUE(refused_null(EIO, [&] { return ibv_create_comp_channel(side.context); }));
        EXPECT_TRUE(refused_null(EIO, [&] { return ibv_create_cq(side.context, 1, nullptr, nullptr, 0); }));
        EXPECT_TRUE(refused_null(EIO, [&] { return ibv_create_qp(side.pd, &setup); }));
        EXPECT_TRUE(refused_null(EIO, [&] {
            return ibv_reg_mr(side.pd, memory.data(), std::size_t{64}, int{IBV_ACCESS_LOCAL_WRITE});
        }));
        // Destroying them is allowed, and is the child's own affair.
        EXPECT_EQ(ibv_dereg_mr(memory.mr), 0);
        EXPECT_EQ(ibv_destroy_qp(side.qp), 0);
        EXPECT_EQ(ibv_destroy_cq(side.send_cq), 0);
    });
    EXPECT_EQ(pair.a.state(), IBV_QPS_RTS);
    exchange_message(pair);
}

TEST(Fork, ChildOpensItsOwn) {
    Pair pair;
    exchange_message(pair);
    in_child([] {
        Pair own;
        exchange_message(own);
    });
    exchange_message(pair);
}

// The child has a copy of the parent's queued events, but the descriptor's count is one and the same.
TEST(Fork, ParentKeepsItsEvents) {
    Options options;
    options.with_channel = true;
    Pair pair(options);
    ASSERT_EQ(ibv_req_notify_cq(pair.b.receive_cq, 0), 0);
    exchange_message(pair);
    ASSERT_TRUE(readable(pair.b.channel->fd));
    in_child([&] {
        EXPECT_EQ(ibv_destroy_qp(pair.b.qp), 0);
        EXPECT_EQ(ibv_destroy_cq(pair.b.receive_cq), 0);
    });
    ASSERT_TRUE(readable(pair.b.channel->fd));
    ibv_cq* cq = nullptr;
    void* context = nullptr;
    ASSERT_EQ(ibv_get_cq_event(pair.b.channel, &cq, &context), 0);
    EXPECT_EQ(cq, pair.b.receive_cq);
    ibv_ack_cq_events(cq, 1);
}

}  // namespace
}  // namespace verbena::verbs_test
