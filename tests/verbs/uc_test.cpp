// UC as programs see it: what it takes, what it moves, what a failure does.
#include "harness.h"

namespace verbena::verbs_test {
namespace {

Options unreliable() {
    Options options;
    options.type = IBV_QPT_UC;
    return options;
}

TEST(Uc, MovesDataOfEveryKind) {
    Pair pair(unreliable());
    Memory from(pair.a.pd, 1 << 16), to(pair.b.pd, 1 << 16);
    std::uint8_t seed = 1;
    for (const ibv_wr_opcode operation :
         {IBV_WR_SEND, IBV_WR_SEND_WITH_IMM, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM}) {
        for (const std::size_t size : {0u, 1u, 4095u, 4096u, 4097u, 20'000u}) {
            from.fill(++seed);
            to.set_all(0);
            ASSERT_EQ(pair.b.post_receive(seed, to.sge(0, 1 << 16)), 0);
            ibv_sge sge = from.sge(0, size);
            Request request(seed, operation, &sge, 1);
            request.imm_data = 0x12345678;
            if (operation == IBV_WR_RDMA_WRITE || operation == IBV_WR_RDMA_WRITE_WITH_IMM) request.to(to);
            ASSERT_EQ(request.post(pair.a.qp), 0);
            EXPECT_EQ(success(pair.a.send_cq).wr_id, seed);
            if (operation == IBV_WR_RDMA_WRITE) {
                EXPECT_TRUE(wait_until([&] { return empty(pair.b.receive_cq) && to.holds(seed, size); }));
                // Takes the receive that the write left alone.
                ASSERT_EQ(Request(seed, IBV_WR_SEND, nullptr, 0).post(pair.a.qp), 0);
                success(pair.a.send_cq);
                EXPECT_EQ(success(pair.b.receive_cq).byte_len, 0u);
                continue;
            }
            const ibv_wc wc = success(pair.b.receive_cq);
            EXPECT_EQ(wc.byte_len, size);
            EXPECT_EQ(wc.qp_num, pair.b.qp->qp_num);
            if (operation != IBV_WR_SEND) {
                EXPECT_EQ(wc.wc_flags, IBV_WC_WITH_IMM);
                EXPECT_EQ(wc.imm_data, 0x12345678u);
            }
            EXPECT_TRUE(to.holds(seed, size));
        }
    }
}

TEST(Uc, HasNoOperationsThatNeedAnAnswer) {
    Pair pair(unreliable());
    Memory from(pair.a.pd, 64), to(pair.b.pd, 64);
    ibv_sge sge = from.sge(0, 8);
    for (const ibv_wr_opcode operation :
         {IBV_WR_RDMA_READ, IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WR_SEND_WITH_INV})
        EXPECT_TRUE(refused(EINVAL, [&] { return Request(1, operation, &sge, 1).to(to).post(pair.a.qp); }));
}

TEST(Uc, AttributesOfReliabilityAreRefused) {
    Side side{Options{.connect = false, .type = IBV_QPT_UC}};
    ASSERT_EQ(side.to_init(), 0);
    ibv_qp_attr to{};
    to.qp_state = IBV_QPS_RTR;
    to.path_mtu = IBV_MTU_1024;
    to.ah_attr.is_global = 1;
    to.ah_attr.port_num = 1;
    to.ah_attr.grh.dgid = side.gid();
    to.max_dest_rd_atomic = 1;
    EXPECT_TRUE(refused(EINVAL, [&] {
        return ibv_modify_qp(side.qp, &to,
                             IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                                 IBV_QP_MAX_DEST_RD_ATOMIC);
    }));
    ASSERT_EQ(side.to_rtr(side.gid(), side.qp->qp_num), 0);
    to = {};
    to.qp_state = IBV_QPS_RTS;
    to.timeout = 14;
    EXPECT_TRUE(refused(
        EINVAL, [&] { return ibv_modify_qp(side.qp, &to, IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT); }));
    EXPECT_EQ(side.to_rts(), 0);
}

// IBA 10.3.1.6.
TEST(Uc, AFailedSendStopsTheSendQueueUntilTheProgramGoesOn) {
    Pair pair(unreliable());
    Memory from(pair.a.pd, 64);
    ibv_sge wrong = from.sge(0, 8);
    wrong.lkey = kNoKey;
    ASSERT_EQ(Request(1, IBV_WR_SEND, &wrong, 1).post(pair.a.qp), 0);
    EXPECT_EQ(completion(pair.a.send_cq).status, IBV_WC_LOC_PROT_ERR);
    EXPECT_EQ(pair.a.state(), IBV_QPS_SQE);
    ASSERT_EQ(Request(2, IBV_WR_SEND, nullptr, 0).post(pair.a.qp), 0);
    EXPECT_EQ(completion(pair.a.send_cq).status, IBV_WC_WR_FLUSH_ERR);
    ibv_qp_attr to{};
    to.qp_state = IBV_QPS_RTS;
    to.cur_qp_state = IBV_QPS_SQE;
    ASSERT_EQ(ibv_modify_qp(pair.a.qp, &to, IBV_QP_STATE | IBV_QP_CUR_STATE), 0);
    ASSERT_EQ(pair.b.post_receive(3, nullptr, 0), 0);
    ASSERT_EQ(Request(3, IBV_WR_SEND, nullptr, 0).post(pair.a.qp), 0);
    success(pair.a.send_cq);
    success(pair.b.receive_cq);
}

// No receive is no failure: the message is lost.
TEST(Uc, AMessageWithoutAReceiveIsLost) {
    Pair pair(unreliable());
    ASSERT_EQ(Request(1, IBV_WR_SEND, nullptr, 0).post(pair.a.qp), 0);
    success(pair.a.send_cq);
    for (int i = 0; i < 1000; i++) ASSERT_TRUE(empty(pair.b.receive_cq));
    ASSERT_EQ(pair.b.post_receive(2, nullptr, 0), 0);
    ASSERT_EQ(Request(2, IBV_WR_SEND, nullptr, 0).post(pair.a.qp), 0);
    EXPECT_EQ(success(pair.b.receive_cq).wr_id, 2u);
    success(pair.a.send_cq);
}

TEST(Uc, TakesFromASharedQueue) {
    Options options = unreliable();
    options.shared_receives = 8;
    Pair pair(options);
    for (std::uint64_t id = 0; id < 8; id++) ASSERT_EQ(pair.b.post_receive(id, nullptr, 0), 0);
    for (std::uint64_t id = 0; id < 8; id++) {
        ASSERT_EQ(Request(id, IBV_WR_SEND, nullptr, 0).post(pair.a.qp), 0);
        success(pair.a.send_cq);
        EXPECT_EQ(success(pair.b.receive_cq).wr_id, id);
    }
}

}  // namespace
}  // namespace verbena::verbs_test
