// What a post refuses, with the right error and the right bad_wr, and in which states it takes what
// (IBA 10.3.1).
#include "harness.h"

namespace verbena::verbs_test {
namespace {

int post_empty_receive(Side& side) { return side.post_receive(1, nullptr, 0); }
int post_empty_send(Side& side) { return Request(1, IBV_WR_SEND, nullptr, 0).post(side.qp); }

TEST(PostStates, ResetTakesNothing) {
    Side side({.connect = false});
    EXPECT_TRUE(refused(EINVAL, [&] { return post_empty_receive(side); }));
    EXPECT_TRUE(refused(EINVAL, [&] { return post_empty_send(side); }));
}

TEST(PostStates, InitAndRtrTakeReceivesOnly) {
    Side side({.connect = false});
    ASSERT_EQ(side.to_init(), 0);
    EXPECT_EQ(post_empty_receive(side), 0);
    EXPECT_TRUE(refused(EINVAL, [&] { return post_empty_send(side); }));
    ASSERT_EQ(side.to_rtr(side.gid(), side.qp->qp_num), 0);
    EXPECT_EQ(post_empty_receive(side), 0);
    EXPECT_TRUE(refused(EINVAL, [&] { return post_empty_send(side); }));
}

TEST(PostStates, SqdHoldsSendsBack) {
    Pair pair;
    ASSERT_EQ(pair.a.to_state(IBV_QPS_SQD), 0);
    EXPECT_EQ(post_empty_receive(pair.b), 0);
    EXPECT_EQ(post_empty_send(pair.a), 0);
    for (int i = 0; i < 1000; i++) ASSERT_TRUE(empty(pair.b.receive_cq));
    ASSERT_EQ(pair.a.to_state(IBV_QPS_RTS), 0);
    success(pair.b.receive_cq);
    success(pair.a.send_cq);
}

TEST(PostStates, ErrorFlushesInOrder) {
    Pair pair;
    for (std::uint64_t id = 0; id < 5; id++) ASSERT_EQ(pair.a.post_receive(id, nullptr, 0), 0);
    ASSERT_EQ(pair.a.to_state(IBV_QPS_ERR), 0);
    for (std::uint64_t id = 5; id < 8; id++) ASSERT_EQ(pair.a.post_receive(id, nullptr, 0), 0);
    for (std::uint64_t id = 0; id < 5; id++)
        ASSERT_EQ(Request(id, IBV_WR_SEND, nullptr, 0, 0).post(pair.a.qp), 0);
    for (std::uint64_t id = 0; id < 8; id++) {
        const ibv_wc wc = completion(pair.a.receive_cq);
        EXPECT_EQ(wc.wr_id, id);
        EXPECT_EQ(wc.status, IBV_WC_WR_FLUSH_ERR);
        EXPECT_EQ(wc.vendor_err, 0x0001u);
    }
    for (std::uint64_t id = 0; id < 5; id++) {
        const ibv_wc wc = completion(pair.a.send_cq);
        EXPECT_EQ(wc.wr_id, id);
        EXPECT_EQ(wc.status, IBV_WC_WR_FLUSH_ERR);
        EXPECT_EQ(wc.qp_num, pair.a.qp->qp_num);
    }
}

// After a reset nothing of the earlier life appears, and the queue pair connects again.
TEST(PostStates, ResetForgets) {
    Pair pair;
    for (std::uint64_t id = 0; id < 5; id++) ASSERT_EQ(pair.a.post_receive(id, nullptr, 0), 0);
    for (Side* side : {&pair.a, &pair.b}) ASSERT_EQ(side->to_state(IBV_QPS_RESET), 0);
    EXPECT_TRUE(empty(pair.a.receive_cq));
    Side* sides[2] = {&pair.a, &pair.b};
    for (int i = 0; i < 2; i++) {
        ASSERT_EQ(sides[i]->to_init(), 0);
        ASSERT_EQ(sides[i]->to_rtr(sides[1 - i]->gid(), sides[1 - i]->qp->qp_num), 0);
        ASSERT_EQ(sides[i]->to_rts(), 0);
    }
    ASSERT_EQ(pair.a.post_receive(77, nullptr, 0), 0);
    ASSERT_EQ(post_empty_send(pair.b), 0);
    EXPECT_EQ(success(pair.a.receive_cq).wr_id, 77u);
    success(pair.b.send_cq);
}

struct Refusals : testing::Test {
    Refusals() : memory(pair.a.pd, 4096), remote(pair.b.pd, 4096) {
        for (auto& sge : sges) sge = memory.sge(0, 8);
    }
    // The second of three requests is wrong: the first one goes, bad_wr is the second.
    void refuse_second(int error, Request& wrong) {
        ASSERT_EQ(pair.b.post_receive(1, nullptr, 0), 0);
        Request first(1, IBV_WR_SEND, nullptr, 0), third(3, IBV_WR_SEND, nullptr, 0);
        first.next = &wrong;
        wrong.next = &third;
        EXPECT_TRUE(refused(error, [&] { return first.post(pair.a.qp); }));
        EXPECT_EQ(first.bad, &wrong);
        EXPECT_EQ(success(pair.a.send_cq).wr_id, 1u);
        success(pair.b.receive_cq);
        EXPECT_TRUE(empty(pair.a.send_cq));
        EXPECT_EQ(pair.a.state(), IBV_QPS_RTS);
    }

    Pair pair;
    Memory memory, remote;
    ibv_sge sges[40];
};

TEST_F(Refusals, OfSendRequests) {
    struct Wrong {
        const char* name;
        int error;
        std::function<void(Request&)> spoil;
    };
    const Wrong kWrongs[] = {
        {"5 elements of 4", EINVAL, [](Request& r) { r.num_sge = 5; }},
        {"-1 elements", EINVAL, [](Request& r) { r.num_sge = -1; }},
        {"opcode 13", EINVAL, [](Request& r) { r.opcode = static_cast<ibv_wr_opcode>(13); }},
        {"opcode 77", EINVAL, [](Request& r) { r.opcode = static_cast<ibv_wr_opcode>(77); }},
        {"opcode 258", EINVAL, [](Request& r) { r.opcode = static_cast<ibv_wr_opcode>(258); }},
        {"bind of no window", EINVAL,
         [](Request& r) {
             r.opcode = IBV_WR_BIND_MW;
             r.bind_mw = {};
         }},
        {"TSO", EOPNOTSUPP, [](Request& r) { r.opcode = IBV_WR_TSO; }},
        {"inline READ", EINVAL,
         [](Request& r) {
             r.opcode = IBV_WR_RDMA_READ;
             r.send_flags |= IBV_SEND_INLINE;
         }},
        {"too long inline", EINVAL,
         [](Request& r) {
             r.send_flags |= IBV_SEND_INLINE;
             r.sg_list->length = 257;
         }},
        {"unaligned atomic", EINVAL,
         [&](Request& r) {
             r.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
             r.to(remote, 12);
         }},
        {"atomic of 4 bytes", EINVAL,
         [&](Request& r) {
             r.opcode = IBV_WR_ATOMIC_CMP_AND_SWP;
             r.to(remote, 16);
             r.sg_list->length = 4;
         }},
        {"atomic write of nothing", EINVAL,
         [&](Request& r) {
             r.opcode = IBV_WR_ATOMIC_WRITE;
             r.to(remote, 16);
             r.num_sge = 0;
         }},
    };
    for (const Wrong& wrong : kWrongs) {
        SCOPED_TRACE(wrong.name);
        ibv_sge kept = sges[0];
        Request request(2, IBV_WR_SEND, sges, 1);
        wrong.spoil(request);
        refuse_second(wrong.error, request);
        sges[0] = kept;
    }
}

TEST_F(Refusals, ManyGoodOnesBeforeTheBadOne) {
    std::vector<Request> list(40, Request(0, IBV_WR_RDMA_WRITE, sges, 1));
    for (std::size_t i = 0; i < list.size(); i++) {
        list[i].wr_id = i;
        list[i].to(remote);
        if (i + 1 < list.size()) list[i].next = &list[i + 1];
    }
    for (int wrong : {15, 16, 17, 31, 32, 39}) {
        SCOPED_TRACE(wrong);
        Request& bad = list[static_cast<std::size_t>(wrong)];
        for (int count : {5, -1}) {
            bad.num_sge = count;
            EXPECT_TRUE(refused(EINVAL, [&] { return list[0].post(pair.a.qp); }));
            EXPECT_EQ(list[0].bad, &bad);
            for (int i = 0; i < wrong; i++)
                EXPECT_EQ(success(pair.a.send_cq).wr_id, static_cast<std::uint64_t>(i));
            EXPECT_TRUE(empty(pair.a.send_cq));
        }
        bad.num_sge = 1;
    }
}

TEST_F(Refusals, OfReceives) {
    ibv_recv_wr second{}, first{}, *bad = nullptr;
    first.next = &second;
    second.sg_list = sges;
    for (int count : {5, -1}) {
        second.num_sge = count;
        EXPECT_TRUE(refused(EINVAL, [&] { return ibv_post_recv(pair.b.qp, &first, &bad); }));
        EXPECT_EQ(bad, &second);
    }
}

TEST(Full, QueuesRefuseOneTooMany) {
    Options options;
    options.cap.max_send_wr = options.cap.max_recv_wr = 5;
    options.min_rnr_timer = 31;  // 491 ms: nothing completes meanwhile
    Pair pair(options);
    for (int i = 0; i < 5; i++) ASSERT_EQ(post_empty_receive(pair.a), 0);
    EXPECT_TRUE(refused(ENOMEM, [&] { return post_empty_receive(pair.a); }));
    for (int i = 0; i < 5; i++) ASSERT_EQ(post_empty_send(pair.a), 0);
    Request one_more(9, IBV_WR_SEND, nullptr, 0);
    EXPECT_TRUE(refused(ENOMEM, [&] { return one_more.post(pair.a.qp); }));
    EXPECT_EQ(one_more.bad, &one_more);
}

// A place is free again when its completion was polled, not when the request has completed: who counts on
// ENOMEM can never make the completion queue overrun.
class Places : public testing::TestWithParam<ibv_qp_type> {};

TEST_P(Places, BelongToTheRequestUntilItsCompletionIsPolled) {
    constexpr int kPlaces = 5;
    Options options;
    options.cap.max_send_wr = kPlaces;
    options.cqe = kPlaces;
    options.type = GetParam();
    Pair pair(options);
    auto send = [&](unsigned flags) {
        EXPECT_EQ(post_empty_receive(pair.b), 0);
        return Request(1, IBV_WR_SEND, nullptr, 0, flags).post(pair.a.qp);
    };
    for (int i = 0; i < kPlaces; i++) ASSERT_EQ(send(IBV_SEND_SIGNALED), 0);
    for (int i = 0; i < kPlaces; i++) success(pair.b.receive_cq);
    // All have arrived, and the acknowledgements soon have, too.
    for (int i = 0; i < 1000; i++) ASSERT_TRUE(empty(pair.a.receive_cq));
    for (int polled = 0; polled < 2 * kPlaces; polled++) {
        EXPECT_TRUE(refused(ENOMEM, [&] { return send(IBV_SEND_SIGNALED); }));
        success(pair.a.send_cq);
        ASSERT_EQ(send(IBV_SEND_SIGNALED), 0);
        success(pair.b.receive_cq);
    }
    for (int i = 0; i < kPlaces; i++) success(pair.a.send_cq);
    // Reset begins anew.
    ASSERT_EQ(send(IBV_SEND_SIGNALED), 0);
    ASSERT_EQ(pair.a.to_state(IBV_QPS_ERR), 0);
    for (int i = 1; i < kPlaces; i++) ASSERT_EQ(send(IBV_SEND_SIGNALED), 0);
    EXPECT_TRUE(refused(ENOMEM, [&] { return send(IBV_SEND_SIGNALED); }));
    ASSERT_EQ(pair.a.to_state(IBV_QPS_RESET), 0);
    ASSERT_EQ(pair.a.to_init(), 0);
    ASSERT_EQ(pair.a.to_state(IBV_QPS_ERR), 0);
    for (int i = 0; i < kPlaces; i++) ASSERT_EQ(send(0), 0);
    EXPECT_TRUE(refused(ENOMEM, [&] { return send(0); }));
}

INSTANTIATE_TEST_SUITE_P(Services, Places, testing::Values(IBV_QPT_RC, IBV_QPT_UC),
                         [](const auto& type) { return type.param == IBV_QPT_RC ? "RC" : "UC"; });

TEST(Depth, ZeroAllowsNoRead) {
    Options options;
    options.depth = 0;
    Pair pair(options);
    Memory local(pair.a.pd, 64), remote(pair.b.pd, 64);
    ibv_sge sge = local.sge(0, 8);
    for (ibv_wr_opcode opcode : {IBV_WR_RDMA_READ, IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WR_ATOMIC_CMP_AND_SWP}) {
        Request request(1, opcode, &sge, 1);
        request.to(remote);
        EXPECT_TRUE(refused(EINVAL, [&] { return request.post(pair.a.qp); }));
    }
}

}  // namespace
}  // namespace verbena::verbs_test
