// Each RC operation with each size that may go wrong, and the shapes of its scatter/gather lists: the data,
// and every field of the completions on both sides.
#include <sys/mman.h>

#include <algorithm>

#include "harness.h"

namespace verbena::verbs_test {
namespace {

constexpr std::size_t kLargest = 1 << 20;
constexpr int kLargePatienceMs = 240'000;  // 2^31 bytes on a loaded machine
constexpr std::uint64_t kSendId = 0xfedcba9876543210, kReceiveId = 0x8000000000000001;
constexpr std::uint32_t kImmediate = 0x01020304;

struct Case {
    const char* name;
    ibv_wr_opcode opcode;
    ibv_wc_opcode done;
    bool receives;  // consumes a receive
};

constexpr Case kCases[] = {
    {"Send", IBV_WR_SEND, IBV_WC_SEND, true},
    {"SendImm", IBV_WR_SEND_WITH_IMM, IBV_WC_SEND, true},
    {"SendInv", IBV_WR_SEND_WITH_INV, IBV_WC_SEND, true},
    {"Write", IBV_WR_RDMA_WRITE, IBV_WC_RDMA_WRITE, false},
    {"WriteImm", IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WC_RDMA_WRITE, true},
    {"Read", IBV_WR_RDMA_READ, IBV_WC_RDMA_READ, false},
};

struct Mtu {
    ibv_mtu code;
    std::size_t bytes;
};

class Operations : public testing::TestWithParam<std::tuple<Case, int>> {};

void check_receive(const Case& c, const ibv_wc& wc, std::size_t size, Side& side, std::uint32_t invalidated) {
    EXPECT_EQ(wc.wr_id, kReceiveId);
    EXPECT_EQ(wc.byte_len, size);
    EXPECT_EQ(wc.qp_num, side.qp->qp_num);
    EXPECT_EQ(wc.vendor_err, 0u);
    const bool write = c.opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
    EXPECT_EQ(wc.opcode, write ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV);
    if (write || c.opcode == IBV_WR_SEND_WITH_IMM) {
        EXPECT_EQ(wc.wc_flags, static_cast<unsigned>(IBV_WC_WITH_IMM));
        EXPECT_EQ(wc.imm_data, kImmediate);
    } else if (c.opcode == IBV_WR_SEND_WITH_INV) {
        EXPECT_EQ(wc.wc_flags, static_cast<unsigned>(IBV_WC_WITH_INV));
        EXPECT_EQ(wc.invalidated_rkey, invalidated);
    } else {
        EXPECT_EQ(wc.wc_flags, 0u);
    }
}

TEST_P(Operations, EverySize) {
    const auto& [c, code] = GetParam();
    Options options;
    options.mtu = static_cast<ibv_mtu>(code);
    const std::size_t mtu = 128u << code;
    Pair pair(options);
    Memory local(pair.a.pd, kLargest + 16), remote(pair.b.pd, kLargest + 16);
    const bool read = c.opcode == IBV_WR_RDMA_READ;
    Memory &from = read ? remote : local, &to = read ? local : remote;
    std::uint8_t seed = 1;
    for (std::size_t size : {std::size_t{0}, std::size_t{1}, mtu - 1, mtu, mtu + 1, 3 * mtu, kLargest}) {
        SCOPED_TRACE(size);
        from.fill(++seed);
        to.set_all(0);
        std::unique_ptr<Memory> victim;
        ibv_sge sge = local.sge(0, size);
        Request request(kSendId, c.opcode, &sge, 1);
        request.to(remote);
        if (c.opcode == IBV_WR_SEND_WITH_IMM || c.opcode == IBV_WR_RDMA_WRITE_WITH_IMM)
            request.imm_data = kImmediate;
        if (c.opcode == IBV_WR_SEND_WITH_INV) {
            victim = std::make_unique<Memory>(pair.b.pd, 64);
            request.invalidate_rkey = victim->mr->rkey;
        }
        if (c.receives) {
            ASSERT_EQ(pair.b.post_receive(kReceiveId, remote.sge(0, kLargest)), 0);
        }
        ASSERT_EQ(request.post(pair.a.qp), 0);

        const ibv_wc sent = success(pair.a.send_cq);
        EXPECT_EQ(sent.wr_id, kSendId);
        EXPECT_EQ(sent.opcode, c.done);
        EXPECT_EQ(sent.qp_num, pair.a.qp->qp_num);
        EXPECT_EQ(sent.vendor_err, 0u);
        if (read) {
            EXPECT_EQ(sent.byte_len, size);
        }
        if (c.receives)
            check_receive(c, success(pair.b.receive_cq), size, pair.b, victim ? victim->mr->rkey : 0);
        EXPECT_TRUE(to.holds(seed, size));
        EXPECT_EQ(to.data()[size], 0) << "a byte behind the message was written";
        EXPECT_TRUE(empty(pair.a.send_cq) && empty(pair.b.receive_cq));
    }
}

INSTANTIATE_TEST_SUITE_P(All, Operations,
                         testing::Combine(testing::ValuesIn(kCases),
                                          testing::Values(int{IBV_MTU_1024}, int{IBV_MTU_4096})),
                         [](const auto& instance) {
                             return std::get<0>(instance.param).name + std::string("Mtu") +
                                    std::to_string(128 << std::get<1>(instance.param));
                         });

TEST(Atomics, ReturnTheOldValue) {
    Pair pair;
    Memory local(pair.a.pd, 64), remote(pair.b.pd, 64);
    remote.set_word(2, 0xfffffffffffffffe);
    ibv_sge sge = local.sge(8, 8);

    Request add(1, IBV_WR_ATOMIC_FETCH_AND_ADD, &sge, 1);
    add.to(remote, 16).wr.atomic.compare_add = 5;
    ASSERT_EQ(add.post(pair.a.qp), 0);
    ibv_wc wc = success(pair.a.send_cq);
    EXPECT_EQ(wc.opcode, IBV_WC_FETCH_ADD);
    EXPECT_EQ(wc.byte_len, 8u);
    EXPECT_EQ(local.word(1), 0xfffffffffffffffe);
    EXPECT_EQ(remote.word(2), 3u) << "the sum wraps";

    Request swap(2, IBV_WR_ATOMIC_CMP_AND_SWP, &sge, 1);
    swap.to(remote, 16);
    swap.wr.atomic.compare_add = 3;
    swap.wr.atomic.swap = 0x1122334455667788;
    ASSERT_EQ(swap.post(pair.a.qp), 0);
    wc = success(pair.a.send_cq);
    EXPECT_EQ(wc.opcode, IBV_WC_COMP_SWAP);
    EXPECT_EQ(local.word(1), 3u);
    EXPECT_EQ(remote.word(2), 0x1122334455667788u);

    ASSERT_EQ(swap.post(pair.a.qp), 0);  // compares unequal now
    success(pair.a.send_cq);
    EXPECT_EQ(local.word(1), 0x1122334455667788u);
    EXPECT_EQ(remote.word(2), 0x1122334455667788u);
    EXPECT_EQ(remote.word(1), 0u);
    EXPECT_EQ(remote.word(3), 0u);
}

TEST(ScatterGather, UnevenElementsOnBothSides) {
    Pair pair;
    Memory local(pair.a.pd, 20000), remote(pair.b.pd, 20000);
    local.fill(9);
    // 9 000 bytes in four elements, one of them empty, into three that end elsewhere.
    ibv_sge from[4] = {local.sge(0, 1), local.sge(1, 5000), local.sge(7, 0), local.sge(5001, 3999)};
    ibv_sge into[3] = {remote.sge(0, 4097), remote.sge(4097, 3), remote.sge(4100, 10000)};
    for (ibv_wr_opcode opcode : {IBV_WR_SEND, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ}) {
        SCOPED_TRACE(opcode);
        remote.set_all(0);
        if (opcode == IBV_WR_RDMA_READ) {
            remote.fill(9);
            local.set_all(0);
        }
        if (opcode == IBV_WR_SEND) {
            ASSERT_EQ(pair.b.post_receive(7, into, 3), 0);
        }
        Request request(8, opcode, from, 4);
        if (opcode != IBV_WR_SEND) request.to(remote);
        ASSERT_EQ(request.post(pair.a.qp), 0);
        success(pair.a.send_cq);
        if (opcode == IBV_WR_SEND) {
            EXPECT_EQ(success(pair.b.receive_cq).byte_len, 9000u);
        }
        EXPECT_TRUE((opcode == IBV_WR_RDMA_READ ? local : remote).holds(9, 9000));
    }
}

// A message without bytes needs no memory, no receive buffer and no valid key (IBA 9.7.4.1.5).
TEST(ZeroLength, NeedsNoMemory) {
    Pair pair;
    Memory remote(pair.b.pd, 8192);
    for (ibv_wr_opcode opcode : {IBV_WR_SEND, IBV_WR_SEND_WITH_IMM, IBV_WR_RDMA_WRITE_WITH_IMM}) {
        ASSERT_EQ(pair.b.post_receive(opcode, nullptr, 0), 0);
        Request request(1, opcode, nullptr, 0);
        request.wr.rdma.rkey = kNoKey;
        ASSERT_EQ(request.post(pair.a.qp), 0);
        success(pair.a.send_cq);
        ibv_wc wc = success(pair.b.receive_cq);
        EXPECT_EQ(wc.wr_id, static_cast<std::uint64_t>(opcode));
        EXPECT_EQ(wc.byte_len, 0u);
    }
    for (ibv_wr_opcode opcode : {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ}) {
        Request request(2, opcode, nullptr, 0);
        request.wr.rdma.rkey = kNoKey;
        ASSERT_EQ(request.post(pair.a.qp), 0);
        success(pair.a.send_cq);
    }
}

// The receive of a WRITE with immediate tells of it and takes no bytes.
TEST(ZeroLength, ReceiveWithoutBuffersTakesWriteImm) {
    Pair pair;
    Memory local(pair.a.pd, 8192), remote(pair.b.pd, 8192);
    local.fill(3);
    ASSERT_EQ(pair.b.post_receive(4, nullptr, 0), 0);
    ibv_sge sge = local.sge(0, 8192);
    Request request(1, IBV_WR_RDMA_WRITE_WITH_IMM, &sge, 1);
    request.to(remote).imm_data = kImmediate;
    ASSERT_EQ(request.post(pair.a.qp), 0);
    success(pair.a.send_cq);
    EXPECT_EQ(success(pair.b.receive_cq).byte_len, 8192u);
    EXPECT_TRUE(remote.holds(3, 8192));
}

TEST(Rkey, InvalidatedByTheSendIsGone) {
    Pair pair;
    Memory local(pair.a.pd, 64), remote(pair.b.pd, 64);
    ASSERT_EQ(pair.b.post_receive(1, nullptr, 0), 0);
    Request invalidate(1, IBV_WR_SEND_WITH_INV, nullptr, 0);
    invalidate.invalidate_rkey = remote.mr->rkey;
    ASSERT_EQ(invalidate.post(pair.a.qp), 0);
    success(pair.a.send_cq);
    success(pair.b.receive_cq);
    ibv_sge sge = local.sge(0, 8);
    Request write(2, IBV_WR_RDMA_WRITE, &sge, 1);
    ASSERT_EQ(write.to(remote).post(pair.a.qp), 0);
    EXPECT_EQ(completion(pair.a.send_cq).status, IBV_WC_REM_ACCESS_ERR);
}

// The largest message, 2^31 bytes (IBA 9.7.8), only where the memory is there.
TEST(Large, TwoToThe31) {
    constexpr std::size_t kBytes = std::size_t{1} << 31;
    Pair pair;
    auto map = [] {
        return static_cast<std::uint8_t*>(mmap(nullptr, kBytes + 4096, PROT_READ | PROT_WRITE,
                                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    };
    std::uint8_t *from = map(), *into = map();
    ASSERT_NE(from, MAP_FAILED);
    ASSERT_NE(into, MAP_FAILED);
    ibv_mr* source = ibv_reg_mr(pair.a.pd, from, kBytes + 1, int{IBV_ACCESS_LOCAL_WRITE});
    ibv_mr* target = ibv_reg_mr(pair.b.pd, into, kBytes, kAllAccess);
    ASSERT_TRUE(source && target);
    for (std::size_t i = 0; i < kBytes; i += 64 << 20) from[i] = static_cast<std::uint8_t>(i >> 26 | 0x80);
    from[kBytes - 1] = 0x77;

    ibv_sge sge{reinterpret_cast<std::uintptr_t>(from), 1u << 31, source->lkey};
    Request request(1, IBV_WR_RDMA_WRITE, &sge, 1);
    request.wr.rdma.remote_addr = reinterpret_cast<std::uintptr_t>(into);
    request.wr.rdma.rkey = target->rkey;
    ASSERT_EQ(request.post(pair.a.qp), 0);
    ibv_wc wc{};
    ASSERT_TRUE(wait_until([&] { return ibv_poll_cq(pair.a.send_cq, 1, &wc) == 1; }, kLargePatienceMs));
    EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
    for (std::size_t i = 0; i < kBytes; i += 64 << 20)
        ASSERT_EQ(into[i], static_cast<std::uint8_t>(i >> 26 | 0x80));
    EXPECT_EQ(into[kBytes - 1], 0x77);

    sge.length++;
    EXPECT_TRUE(refused(EINVAL, [&] { return request.post(pair.a.qp); }));
    ibv_dereg_mr(source);
    ibv_dereg_mr(target);
    munmap(from, kBytes + 4096);
    munmap(into, kBytes + 4096);
}

}  // namespace
}  // namespace verbena::verbs_test
