// Once two queue pairs are connected, no memory is needed for what they do.
#include <vector>

#include "shortage.h"
#include "verbs/harness.h"

namespace verbena::shortage_test {
namespace {

using verbs_test::Memory;
using verbs_test::Options;
using verbs_test::Pair;
using verbs_test::Request;
using verbs_test::Side;

// Polls without any memory until it comes.
ibv_wc completion_of(ibv_cq* cq) {
    ibv_wc completion{};
    int count = 0;
    EXPECT_TRUE(verbs_test::wait_until([&] {
        const Shortage shortage;
        return (count = ibv_poll_cq(cq, 1, &completion)) != 0;
    }));
    EXPECT_EQ(count, 1);
    EXPECT_EQ(completion.status, IBV_WC_SUCCESS);
    return completion;
}

int post(Request request, ibv_qp* qp) {
    return without_memory([&] { return request.post(qp); });
}

// Refused transitions change nothing, and what is left to do works afterwards.
TEST(Connecting, GoesOnWhereItWasRefused) {
    for (const ibv_qp_type type : {IBV_QPT_RC, IBV_QPT_UC}) {
        Pair pair({.connect = false, .type = type});
        Side* const sides[] = {&pair.a, &pair.b};
        for (int i = 0; i < 2; i++) {
            Side &own = *sides[i], &other = *sides[1 - i];
            sweep_until("to INIT", [&] { return own.to_init(); });
            sweep_until("to RTR", [&] { return own.to_rtr(other.gid(), other.qp->qp_num); });
            sweep_until("to RTS", [&] { return own.to_rts(); });
        }
        verbs_test::exchange_message(pair);
        EXPECT_EQ(without_memory([&] { return pair.a.to_state(IBV_QPS_ERR); }), 0);
        sweep_until("to RESET", [&] { return pair.a.to_state(IBV_QPS_RESET); });
        EXPECT_EQ(pair.a.state(), IBV_QPS_RESET);
    }
}

TEST(Messages, OfConnectedQueuePairs) {
    Pair pair;
    constexpr std::size_t kSize = 1 << 20;
    Memory local(pair.a.pd, kSize), remote(pair.b.pd, kSize);
    for (const std::size_t size : {std::size_t{8}, std::size_t{5000}, kSize}) {
        SCOPED_TRACE(size);
        ibv_sge sge = local.sge(0, size);
        local.fill(1);
        ASSERT_EQ(without_memory([&] { return pair.b.post_receive(1, remote.sge(0, size)); }), 0);
        ASSERT_EQ(post(Request(2, IBV_WR_SEND, &sge, 1), pair.a.qp), 0);
        EXPECT_EQ(completion_of(pair.b.receive_cq).byte_len, size);
        completion_of(pair.a.send_cq);
        EXPECT_TRUE(remote.holds(1, size));
        local.fill(2);
        ASSERT_EQ(post(Request(3, IBV_WR_RDMA_WRITE, &sge, 1).to(remote), pair.a.qp), 0);
        completion_of(pair.a.send_cq);
        EXPECT_TRUE(remote.holds(2, size));
        remote.fill(3);
        ASSERT_EQ(post(Request(4, IBV_WR_RDMA_READ, &sge, 1).to(remote), pair.a.qp), 0);
        completion_of(pair.a.send_cq);
        EXPECT_TRUE(local.holds(3, size));
    }
    ibv_sge sge = local.sge(0, 8);
    ASSERT_EQ(post(Request(5, IBV_WR_ATOMIC_FETCH_AND_ADD, &sge, 1).to(remote), pair.a.qp), 0);
    completion_of(pair.a.send_cq);
}

// As many as the queues hold, which the receiver takes when all are there.
TEST(Messages, ThatWait) {
    Pair pair;
    Memory local(pair.a.pd, 4096), remote(pair.b.pd, 4096);
    constexpr unsigned kMany = 100;
    for (unsigned i = 0; i < kMany; i++)
        ASSERT_EQ(without_memory([&] { return pair.b.post_receive(i, remote.sge(0, 4096)); }), 0);
    ibv_sge sge = local.sge(0, 4096);
    for (unsigned i = 0; i < kMany; i++) ASSERT_EQ(post(Request(i, IBV_WR_SEND, &sge, 1), pair.a.qp), 0);
    for (unsigned i = 0; i < kMany; i++) {
        EXPECT_EQ(completion_of(pair.b.receive_cq).wr_id, i);
        EXPECT_EQ(completion_of(pair.a.send_cq).wr_id, i);
    }
}

TEST(Messages, ThatAreAnnounced) {
    Pair pair({.with_channel = true});
    Memory local(pair.a.pd, 64), remote(pair.b.pd, 64);
    ibv_sge sge = local.sge(0, 64);
    for (int round = 0; round < 20; round++) {
        ASSERT_EQ(without_memory([&] { return ibv_req_notify_cq(pair.b.receive_cq, 0); }), 0);
        ASSERT_EQ(pair.b.post_receive(1, remote.sge(0, 64)), 0);
        ASSERT_EQ(post(Request(2, IBV_WR_SEND, &sge, 1), pair.a.qp), 0);
        ibv_cq* cq = nullptr;
        void* context = nullptr;
        ASSERT_EQ(without_memory([&] { return ibv_get_cq_event(pair.b.channel, &cq, &context); }), 0);
        EXPECT_EQ(cq, pair.b.receive_cq);
        ibv_ack_cq_events(cq, 1);
        completion_of(pair.b.receive_cq);
        completion_of(pair.a.send_cq);
    }
}

TEST(Messages, OfDatagramQueuePairs) {
    Side side{{.connect = false}};
    ibv_qp_init_attr wanted = side.setup();
    wanted.qp_type = IBV_QPT_UD;
    ibv_qp* const qp = ibv_create_qp(side.pd, &wanted);
    ASSERT_TRUE(qp);
    ASSERT_EQ(verbs_test::start_datagrams(qp, verbs_test::kQkey), 0);
    ibv_ah* const to_itself = verbs_test::address_handle(side.pd, side.gid());
    ASSERT_TRUE(to_itself);
    Memory memory(side.pd, 4096);
    ibv_sge into = memory.sge(0, 2048), from = memory.sge(2048, 64);
    for (int round = 0; round < 20; round++) {
        ibv_recv_wr receive{1, nullptr, &into, 1}, *bad;
        ASSERT_EQ(without_memory([&] { return ibv_post_recv(qp, &receive, &bad); }), 0);
        Request request(2, IBV_WR_SEND, &from, 1);
        request.wr.ud = {to_itself, qp->qp_num, verbs_test::kQkey};
        ASSERT_EQ(post(request, qp), 0);
        completion_of(side.send_cq);
        EXPECT_EQ(completion_of(side.receive_cq).byte_len, 64u + 40u);
    }
    EXPECT_EQ(without_memory([&] { return ibv_destroy_ah(to_itself); }), 0);
    EXPECT_EQ(without_memory([&] { return ibv_destroy_qp(qp); }), 0);
}

}  // namespace
}  // namespace verbena::shortage_test
