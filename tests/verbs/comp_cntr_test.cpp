// Completion counters, over packets and over shared memory, where peers write into our memory by themselves.
#include <utility>

#include "harness.h"

// After release 64; this is compiled with the headers of v44.
struct ibv_comp_cntr_caps {
    std::uint64_t max_value;
    std::uint32_t max_counters, supported_qp_attach_ops;
};
struct ibv_comp_cntr {
    ibv_context* context;
    std::uint32_t handle;
};
struct ibv_comp_cntr_init_attr {
    std::uint32_t comp_mask, type, flags;
};
struct ibv_qp_attach_comp_cntr_attr {
    std::uint32_t comp_mask, op_mask;
};
extern "C" {
int _ibv_query_comp_cntr_caps(ibv_context*, ibv_comp_cntr_caps*, std::size_t);
ibv_comp_cntr* ibv_create_comp_cntr(ibv_context*, ibv_comp_cntr_init_attr*);
int ibv_destroy_comp_cntr(ibv_comp_cntr*);
int ibv_set_comp_cntr(ibv_comp_cntr*, std::uint64_t);
int ibv_set_err_comp_cntr(ibv_comp_cntr*, std::uint64_t);
int ibv_inc_comp_cntr(ibv_comp_cntr*, std::uint64_t);
int ibv_inc_err_comp_cntr(ibv_comp_cntr*, std::uint64_t);
int ibv_read_comp_cntr(ibv_comp_cntr*, std::uint64_t*);
int ibv_read_err_comp_cntr(ibv_comp_cntr*, std::uint64_t*);
int ibv_qp_attach_comp_cntr(ibv_qp*, ibv_comp_cntr*, ibv_qp_attach_comp_cntr_attr*);
}

namespace verbena::verbs_test {
namespace {

enum : std::uint32_t { kWorkRequests, kBytes };
enum : std::uint32_t { kSend = 1, kReceive = 2, kRead = 4, kRemoteRead = 8, kWrite = 16, kRemoteWrite = 32 };

class Counter {
   public:
    explicit Counter(ibv_comp_cntr* counter) : handle(counter) { EXPECT_NE(handle, nullptr); }

    int attach(ibv_qp* qp, std::uint32_t operations, std::uint32_t comp_mask = 0) const {
        ibv_qp_attach_comp_cntr_attr attributes{comp_mask, operations};
        return ibv_qp_attach_comp_cntr(qp, handle, &attributes);
    }
    std::uint64_t completed() const { return value(ibv_read_comp_cntr); }
    std::uint64_t failed() const { return value(ibv_read_err_comp_cntr); }

    ibv_comp_cntr* const handle;

   private:
    std::uint64_t value(int (*read)(ibv_comp_cntr*, std::uint64_t*)) const {
        std::uint64_t count = ~0ull;
        EXPECT_EQ(read(handle, &count), 0);
        return count;
    }
};

// Two sides, connected when their counters are attached. Counters go after the queue pairs that they are
// attached to.
struct CompCntr : testing::Test {
    ~CompCntr() override {
        for (Side* side : {&a, &b}) {
            if (side->qp) {
                EXPECT_EQ(ibv_destroy_qp(std::exchange(side->qp, nullptr)), 0);
            }
        }
        for (ibv_comp_cntr* each : made) EXPECT_EQ(ibv_destroy_comp_cntr(each), 0);
    }
    Counter counter(Side& side, std::uint32_t type = kWorkRequests) {
        ibv_comp_cntr_init_attr setup{0, type, 0};
        return Counter(made.emplace_back(ibv_create_comp_cntr(side.context, &setup)));
    }
    Counter attached(Side& side, std::uint32_t operations, std::uint32_t type = kWorkRequests) {
        const Counter made_now = counter(side, type);
        EXPECT_EQ(made_now.attach(side.qp, operations), 0);
        return made_now;
    }

    Side a, b;
    std::vector<ibv_comp_cntr*> made;
};

TEST_F(CompCntr, CapabilitiesAndValues) {
    ibv_comp_cntr_caps caps{};
    ASSERT_EQ(_ibv_query_comp_cntr_caps(a.context, &caps, sizeof caps), 0);
    EXPECT_EQ(caps.max_value, UINT64_MAX);
    EXPECT_EQ(caps.max_counters, 65536u);
    EXPECT_EQ(caps.supported_qp_attach_ops, 0x3fu);
    // A structure of another release, that is shorter, is not written past.
    caps = {};
    ASSERT_EQ(_ibv_query_comp_cntr_caps(a.context, &caps, 8), 0);
    EXPECT_EQ(caps.max_counters, 0u);

    const Counter one = counter(a);
    EXPECT_EQ(one.handle->context, a.context);
    EXPECT_EQ(one.completed(), 0u);
    ASSERT_EQ(ibv_set_comp_cntr(one.handle, UINT64_MAX), 0);
    ASSERT_EQ(ibv_inc_comp_cntr(one.handle, 3), 0);
    EXPECT_EQ(one.completed(), 2u);
    ASSERT_EQ(ibv_set_err_comp_cntr(one.handle, 5), 0);
    ASSERT_EQ(ibv_inc_err_comp_cntr(one.handle, 2), 0);
    EXPECT_EQ(one.failed(), 7u);
}

TEST_F(CompCntr, Refusals) {
    for (ibv_comp_cntr_init_attr setup : {ibv_comp_cntr_init_attr{1, 0, 0}, {0, 2, 0}, {0, 0, 1}})
        EXPECT_TRUE(refused_null(EINVAL, [&] { return ibv_create_comp_cntr(a.context, &setup); }));

    const Counter one = counter(a), other = counter(a), foreign = counter(b);
    EXPECT_TRUE(refused(EINVAL, [&] { return one.attach(a.qp, 0); }));
    EXPECT_TRUE(refused(EINVAL, [&] { return one.attach(a.qp, kSend, 1); }));
    EXPECT_TRUE(refused(EOPNOTSUPP, [&] { return one.attach(a.qp, 1 << 6); }));
    EXPECT_TRUE(refused(EINVAL, [&] { return foreign.attach(a.qp, kSend); }));
    EXPECT_EQ(one.attach(a.qp, kSend | kReceive), 0);
    EXPECT_TRUE(refused(EBUSY, [&] { return other.attach(a.qp, kWrite | kReceive); }));
    EXPECT_TRUE(refused(EBUSY, [&] { return ibv_destroy_comp_cntr(one.handle); }));
    connect(a, b);
    EXPECT_TRUE(refused(EINVAL, [&] { return other.attach(a.qp, kWrite); }));
}

// A peer's WRITEs and READs count, whether or not a link of this host could have done them behind our back.
TEST_F(CompCntr, BothEndsOfEveryOperation) {
    const Counter sent = attached(a, kSend), wrote = attached(a, kWrite, kBytes), read = attached(a, kRead);
    const Counter received = attached(b, kReceive, kBytes), written = attached(b, kRemoteWrite, kBytes),
                  was_read = attached(b, kRemoteRead);
    connect(a, b);
    Memory from(a.pd, 8192), to(b.pd, 8192);
    for (unsigned i = 0; i < 3; i++) {
        ASSERT_EQ(b.post_receive(i, to.sge(0, 8192)), 0);
        ibv_sge small = from.sge(0, 8), large = from.sge(0, 5000);
        ASSERT_EQ(Request(i, IBV_WR_SEND, &small, 1, 0).post(a.qp), 0);
        ASSERT_EQ(Request(i, IBV_WR_RDMA_WRITE, &large, 1, 0).to(to).post(a.qp), 0);
        ASSERT_EQ(Request(i, IBV_WR_RDMA_READ, &large, 1).to(to).post(a.qp), 0);
        EXPECT_EQ(success(a.send_cq).opcode, IBV_WC_RDMA_READ);
        EXPECT_EQ(success(b.receive_cq).byte_len, 8u);
    }
    EXPECT_EQ(sent.completed(), 3u);
    EXPECT_EQ(received.completed(), 24u);
    EXPECT_EQ(wrote.completed(), 15'000u);
    EXPECT_EQ(written.completed(), 15'000u);
    EXPECT_EQ(read.completed(), 3u);
    EXPECT_EQ(was_read.completed(), 3u);
    for (const Counter& each : {sent, received, wrote, written, read, was_read}) EXPECT_EQ(each.failed(), 0u);
}

// Nothing is counted at the target, whose memory the link may write by itself.
TEST_F(CompCntr, TheInitiatorAlone) {
    const Counter wrote = attached(a, kWrite);
    connect(a, b);
    Memory from(a.pd, 64), to(b.pd, 64);
    ibv_sge sge = from.sge(0, 64);
    ASSERT_EQ(Request(1, IBV_WR_RDMA_WRITE, &sge, 1, 0).to(to).post(a.qp), 0);
    ASSERT_EQ(Request(2, IBV_WR_RDMA_WRITE, &sge, 1).to(to).post(a.qp), 0);
    success(a.send_cq);
    EXPECT_EQ(wrote.completed(), 2u);
}

TEST_F(CompCntr, OneForBothQueuesAndWhatIsFlushed) {
    const Counter all = attached(b, kSend | kReceive);
    connect(a, b);
    Memory memory(b.pd, 64);
    ASSERT_EQ(b.post_receive(1, memory.sge(0, 64)), 0);
    ASSERT_EQ(Request(1, IBV_WR_SEND, nullptr, 0).post(a.qp), 0);
    success(b.receive_cq);
    EXPECT_EQ(all.completed(), 1u);
    ASSERT_EQ(b.post_receive(2, memory.sge(0, 64)), 0);
    ASSERT_EQ(b.to_state(IBV_QPS_ERR), 0);
    EXPECT_EQ(completion(b.receive_cq).status, IBV_WC_WR_FLUSH_ERR);
    EXPECT_EQ(all.completed(), 1u);
    EXPECT_EQ(all.failed(), 1u);
}

}  // namespace
}  // namespace verbena::verbs_test
