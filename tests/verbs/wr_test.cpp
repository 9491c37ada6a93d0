// The ibv_wr_* interface: requests built between ibv_wr_start and ibv_wr_complete.
#include <thread>

#include "harness.h"

namespace verbena::verbs_test {
namespace {

constexpr std::uint64_t kRcOperations = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM |
                                        IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM |
                                        IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |
                                        IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD | IBV_QP_EX_WITH_SEND_WITH_INV;

ibv_qp_init_attr_ex extended(const Side& side, std::uint64_t operations) {
    const ibv_qp_init_attr basic = side.setup();
    ibv_qp_init_attr_ex attributes{};
    attributes.send_cq = basic.send_cq;
    attributes.recv_cq = basic.recv_cq;
    attributes.cap = basic.cap;
    attributes.qp_type = basic.qp_type;
    attributes.sq_sig_all = basic.sq_sig_all;
    attributes.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    attributes.pd = side.pd;
    attributes.send_ops_flags = operations;
    return attributes;
}

// A pair whose first side has the extended interface.
struct Extended : testing::Test {
    Extended() : pair(options()), local(pair.a.pd, 4096), remote(pair.b.pd, 4096) {
        EXPECT_EQ(ibv_destroy_qp(pair.a.qp), 0);
        ibv_qp_init_attr_ex attributes = extended(pair.a, kRcOperations);
        pair.a.qp = ibv_create_qp_ex(pair.a.context, &attributes);
        EXPECT_NE(pair.a.qp, nullptr) << std::strerror(errno);
        qp = ibv_qp_to_qp_ex(pair.a.qp);
        EXPECT_NE(qp, nullptr);
        Side* sides[2] = {&pair.a, &pair.b};
        for (int i = 0; i < 2; i++) {
            EXPECT_EQ(sides[i]->to_init(), 0);
            EXPECT_EQ(sides[i]->to_rtr(sides[1 - i]->gid(), sides[1 - i]->qp->qp_num), 0);
            EXPECT_EQ(sides[i]->to_rts(), 0);
        }
        local.fill(7);
        remote.set_all(0);
    }
    static Options options() {
        Options wanted;
        wanted.connect = false;
        wanted.cap = {32, 64, 4, 4, 256};
        wanted.cqe = 2048;  // a request that has completed makes room in the send queue
        return wanted;
    }
    void begin(std::uint64_t id, unsigned flags = IBV_SEND_SIGNALED) {
        qp->wr_id = id;
        qp->wr_flags = flags;
    }
    void element(std::size_t offset, std::size_t length) {
        ibv_wr_set_sge(qp, local.mr->lkey, local.address(offset), static_cast<std::uint32_t>(length));
    }

    Pair pair;
    Memory local, remote;
    ibv_qp_ex* qp;
};

TEST_F(Extended, AllOperationsInOneList) {
    for (std::uint64_t i = 0; i < 4; i++)
        ASSERT_EQ(pair.b.post_receive(100 + i, remote.sge(2048 + 64 * i, 64)), 0);
    remote.set_word(64, 5);
    ibv_wr_start(qp);
    begin(1);
    ibv_wr_send(qp);
    element(0, 64);
    begin(2);
    ibv_wr_send_imm(qp, htobe32(0x1234));
    element(0, 32);
    begin(3);
    ibv_wr_rdma_write(qp, remote.mr->rkey, remote.address(1024));
    const ibv_sge list[2] = {local.sge(0, 100), local.sge(100, 28)};
    ibv_wr_set_sge_list(qp, 2, list);
    begin(4);
    ibv_wr_rdma_write_imm(qp, remote.mr->rkey, remote.address(1536), htobe32(0x5678));
    char text[] = "inline";
    ibv_wr_set_inline_data(qp, text, sizeof text);
    begin(5);
    ibv_wr_rdma_read(qp, remote.mr->rkey, remote.address(1024));
    element(2048, 128);
    begin(6);
    ibv_wr_atomic_cmp_swp(qp, remote.mr->rkey, remote.address(512), 5, 9);
    element(3072, 8);
    begin(7);
    ibv_wr_atomic_fetch_add(qp, remote.mr->rkey, remote.address(512), 3);
    element(3080, 8);
    begin(8, IBV_SEND_SIGNALED | IBV_SEND_FENCE | IBV_SEND_SOLICITED);
    ibv_wr_send(qp);
    ibv_data_buf buffers[3] = {{text, 2}, {nullptr, 0}, {text + 2, 4}};
    ibv_wr_set_inline_data_list(qp, 3, buffers);
    std::memset(text, 'x', sizeof text - 1);
    ASSERT_EQ(ibv_wr_complete(qp), 0);

    const ibv_wc_opcode opcodes[] = {IBV_WC_SEND,      IBV_WC_SEND,      IBV_WC_RDMA_WRITE, IBV_WC_RDMA_WRITE,
                                     IBV_WC_RDMA_READ, IBV_WC_COMP_SWAP, IBV_WC_FETCH_ADD,  IBV_WC_SEND};
    for (std::uint64_t id = 1; id <= 8; id++) {
        const ibv_wc done = success(pair.a.send_cq);
        EXPECT_EQ(done.wr_id, id);
        EXPECT_EQ(done.opcode, opcodes[id - 1]);
    }
    EXPECT_EQ(success(pair.b.receive_cq).byte_len, 64u);
    ibv_wc with_immediate = success(pair.b.receive_cq);
    EXPECT_EQ(with_immediate.byte_len, 32u);
    EXPECT_EQ(with_immediate.imm_data, htobe32(0x1234));
    with_immediate = success(pair.b.receive_cq);
    EXPECT_EQ(with_immediate.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
    EXPECT_EQ(with_immediate.imm_data, htobe32(0x5678));
    EXPECT_EQ(success(pair.b.receive_cq).byte_len, 6u);
    EXPECT_TRUE(remote.holds(7, 64, 2048));
    EXPECT_TRUE(remote.holds(7, 128, 1024));
    EXPECT_TRUE(local.holds(7, 128, 2048)) << "what the READ brought";
    EXPECT_STREQ(static_cast<char*>(static_cast<void*>(remote.data() + 1536)), "inline");
    EXPECT_EQ(std::memcmp(remote.data() + 2048 + 3 * 64, "inline", 6), 0) << "taken when it was given";
    EXPECT_EQ(local.word(3072 / 8), 5u);
    EXPECT_EQ(local.word(3080 / 8), 9u);
    EXPECT_EQ(remote.word(64), 12u);
}

TEST_F(Extended, RequestsWithoutData) {
    ASSERT_EQ(pair.b.post_receive(1, nullptr, 0), 0);
    ibv_wr_start(qp);
    begin(1);
    ibv_wr_send(qp);
    ASSERT_EQ(ibv_wr_complete(qp), 0);
    success(pair.a.send_cq);
    EXPECT_EQ(success(pair.b.receive_cq).byte_len, 0u);
    ibv_wr_start(qp);
    EXPECT_EQ(ibv_wr_complete(qp), 0) << "an empty list";
}

TEST_F(Extended, AnAbortedListIsForgotten) {
    ibv_wr_start(qp);
    begin(1);
    ibv_wr_rdma_write(qp, remote.mr->rkey, remote.address());
    element(0, 64);
    ibv_wr_abort(qp);
    ibv_wr_start(qp);
    begin(2);
    ibv_wr_rdma_write(qp, remote.mr->rkey, remote.address(64));
    element(64, 64);
    ASSERT_EQ(ibv_wr_complete(qp), 0);
    EXPECT_EQ(success(pair.a.send_cq).wr_id, 2u);
    EXPECT_TRUE(empty(pair.a.send_cq));
    EXPECT_EQ(remote.word(0), 0u);
}

// The list is posted as a whole or not at all, whatever the error and wherever it is.
TEST_F(Extended, OneErrorAndNothingIsPosted) {
    ibv_sge many[5];
    for (ibv_sge& sge : many) sge = local.sge(0, 8);
    std::vector<std::uint8_t> long_data(257);
    struct Bad {
        const char* name;
        int error;
        std::function<void()> build;
    };
    const Bad all[] = {
        {"too many elements", EINVAL,
         [&] {
             ibv_wr_send(qp);
             ibv_wr_set_sge_list(qp, 5, many);
         }},
        {"too much inline data", EINVAL,
         [&] {
             ibv_wr_send(qp);
             ibv_wr_set_inline_data(qp, long_data.data(), long_data.size());
         }},
        {"a READ inline", EINVAL,
         [&] {
             ibv_wr_rdma_read(qp, remote.mr->rkey, remote.address());
             ibv_wr_set_inline_data(qp, long_data.data(), 8);
         }},
        {"an atomic without alignment", EINVAL,
         [&] {
             ibv_wr_atomic_fetch_add(qp, remote.mr->rkey, remote.address(4), 1);
             element(0, 8);
         }},
        {"an operation not asked for", EINVAL, [&] { ibv_wr_local_inv(qp, 1); }},
        {"more than the queue holds", ENOMEM,
         [&] {
             for (int i = 0; i < 33; i++) ibv_wr_send(qp);
         }},
    };
    for (const Bad& bad : all)
        for (bool first : {true, false}) {
            SCOPED_TRACE(bad.name);
            auto good = [&] {
                ibv_wr_rdma_write(qp, remote.mr->rkey, remote.address());
                element(0, 64);
            };
            begin(1);
            EXPECT_TRUE(refused(bad.error, [&] {
                ibv_wr_start(qp);
                if (!first) good();
                bad.build();
                if (first) good();
                return ibv_wr_complete(qp);
            }));
            EXPECT_TRUE(empty(pair.a.send_cq));
            EXPECT_EQ(remote.word(0), 0u);
        }
    ibv_wr_start(qp);
    begin(3);
    ibv_wr_rdma_write(qp, remote.mr->rkey, remote.address());
    element(0, 64);
    ASSERT_EQ(ibv_wr_complete(qp), 0) << "a new list starts without the old one's error";
    success(pair.a.send_cq);
}

TEST_F(Extended, AFullQueueTakesNoPartOfAList) {
    // Nothing is received, so nothing completes.
    auto post = [&](int count) {
        ibv_wr_start(qp);
        for (int i = 0; i < count; i++) {
            begin(static_cast<std::uint64_t>(i));
            ibv_wr_send(qp);
        }
        return ibv_wr_complete(qp);
    };
    ASSERT_EQ(post(30), 0);
    EXPECT_TRUE(refused(ENOMEM, [&] { return post(3); }));
    EXPECT_EQ(post(2), 0);
    EXPECT_TRUE(refused(ENOMEM, [&] { return post(1); }));
    for (int i = 0; i < 32; i++) ASSERT_EQ(pair.b.post_receive(1, nullptr, 0), 0);
    for (int i = 0; i < 32; i++) success(pair.a.send_cq);
    EXPECT_TRUE(empty(pair.a.send_cq));
}

TEST_F(Extended, TheStateIsCheckedAtTheEnd) {
    ibv_qp_attr reset{};
    reset.qp_state = IBV_QPS_RESET;
    ASSERT_EQ(ibv_modify_qp(pair.a.qp, &reset, IBV_QP_STATE), 0);
    EXPECT_TRUE(refused(EINVAL, [&] {
        ibv_wr_start(qp);
        begin(1);
        ibv_wr_send(qp);
        return ibv_wr_complete(qp);
    }));
    ASSERT_EQ(pair.a.to_init(), 0);
    ibv_qp_attr error{};
    error.qp_state = IBV_QPS_ERR;
    ASSERT_EQ(ibv_modify_qp(pair.a.qp, &error, IBV_QP_STATE), 0);
    ibv_wr_start(qp);
    begin(9);
    ibv_wr_send(qp);
    ASSERT_EQ(ibv_wr_complete(qp), 0);
    const ibv_wc flushed = completion(pair.a.send_cq);
    EXPECT_EQ(flushed.status, IBV_WC_WR_FLUSH_ERR);
    EXPECT_EQ(flushed.wr_id, 9u);
}

TEST_F(Extended, TheOldInterfaceWorksBeside) {
    ibv_sge sge = local.sge(0, 64);
    ASSERT_EQ(Request(1, IBV_WR_RDMA_WRITE, &sge, 1).to(remote).post(pair.a.qp), 0);
    EXPECT_EQ(success(pair.a.send_cq).wr_id, 1u);
    EXPECT_TRUE(remote.holds(7, 64));
}

TEST_F(Extended, ThreadsPostTheirOwnLists) {
    constexpr int kThreads = 4, kRounds = 200;
    for (int i = 0; i < kThreads; i++) remote.set_word(static_cast<std::size_t>(i), 0);
    std::atomic<int> posted{0};
    std::vector<std::thread> threads;
    for (int thread = 0; thread < kThreads; thread++)
        threads.emplace_back([&, thread] {
            for (int round = 0; round < kRounds;) {
                ibv_wr_start(qp);
                qp->wr_id = static_cast<std::uint64_t>(thread);
                qp->wr_flags = IBV_SEND_SIGNALED;
                for (int i = 0; i < 2; i++) {
                    ibv_wr_atomic_fetch_add(qp, remote.mr->rkey,
                                            remote.address(8 * static_cast<std::size_t>(thread)), 1);
                    ibv_wr_set_sge(qp, local.mr->lkey, local.address(8 * static_cast<std::size_t>(thread)),
                                   8);
                }
                const int error = ibv_wr_complete(qp);
                if (error == ENOMEM) {
                    std::this_thread::yield();
                    continue;
                }
                EXPECT_EQ(error, 0);
                posted += 2;
                round++;
            }
        });
    for (int i = 0; i < 2 * kThreads * kRounds; i++) success(pair.a.send_cq);
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(posted, 2 * kThreads * kRounds);
    for (std::size_t i = 0; i < kThreads; i++) EXPECT_EQ(remote.word(i), 2u * kRounds);
}

TEST(CreateExtended, WhatCannotBeAskedFor) {
    Options options;
    options.connect = false;
    Side side(options);
    EXPECT_EQ(ibv_qp_to_qp_ex(side.qp), nullptr) << "made without the interface";
    auto refused_with = [&](int error, const std::function<void(ibv_qp_init_attr_ex&)>& spoil) {
        ibv_qp_init_attr_ex attributes = extended(side, kRcOperations);
        spoil(attributes);
        return refused_null(error, [&] { return ibv_create_qp_ex(side.context, &attributes); });
    };
    EXPECT_TRUE(refused_with(EOPNOTSUPP, [](auto& a) { a.send_ops_flags |= IBV_QP_EX_WITH_TSO; }));
    EXPECT_TRUE(refused_with(EOPNOTSUPP, [](auto& a) { a.send_ops_flags |= std::uint64_t{1} << 40; }));
    EXPECT_TRUE(refused_with(EOPNOTSUPP, [](auto& a) {
        a.qp_type = IBV_QPT_UD;
        a.send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE;
    }));
    EXPECT_TRUE(refused_with(EOPNOTSUPP, [](auto& a) {
        a.qp_type = IBV_QPT_UC;
        a.send_ops_flags = IBV_QP_EX_WITH_RDMA_READ;
    }));
    EXPECT_TRUE(refused_with(EINVAL, [](auto& a) { a.pd = nullptr; }));
    EXPECT_TRUE(refused_with(EINVAL, [](auto& a) { a.comp_mask = IBV_QP_INIT_ATTR_SEND_OPS_FLAGS; }));
    EXPECT_TRUE(refused_with(EINVAL, [](auto& a) { a.comp_mask |= 1u << 20; }));
    EXPECT_TRUE(refused_with(EOPNOTSUPP, [](auto& a) {
        a.comp_mask |= IBV_QP_INIT_ATTR_MAX_TSO_HEADER;
        a.max_tso_header = 64;
    }));
    EXPECT_TRUE(refused_with(EOPNOTSUPP, [](auto& a) {
        a.comp_mask |= IBV_QP_INIT_ATTR_CREATE_FLAGS;
        a.create_flags = IBV_QP_CREATE_SCATTER_FCS;
    }));
    EXPECT_TRUE(refused_with(EOPNOTSUPP, [](auto& a) { a.comp_mask |= IBV_QP_INIT_ATTR_RX_HASH; }));
}

}  // namespace
}  // namespace verbena::verbs_test
