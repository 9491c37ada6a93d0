// Memory windows, invalidates and registrations of every kind, as programs see them.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "harness.h"
#include "leaves_behind.h"

namespace verbena::verbs_test {
namespace {

constexpr std::size_t kRegionSize = 16 << 10;
constexpr int kBindable = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND;
constexpr unsigned kReadWrite = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;

struct Windows : testing::Test {
    Windows() : local(pair.a.pd, kRegionSize), remote(pair.b.pd, kRegionSize, kBindable) { local.fill(3); }

    ibv_mw_bind_info info(std::size_t offset, std::size_t length, unsigned access = kReadWrite) {
        return {remote.mr, remote.address(offset), length, access};
    }
    int bind(ibv_mw* mw, const ibv_mw_bind_info& wanted) {
        ibv_mw_bind all{1, IBV_SEND_SIGNALED, wanted};
        return ibv_bind_mw(pair.b.qp, mw, &all);
    }
    int post_bind(ibv_mw* mw, std::uint32_t rkey, const ibv_mw_bind_info& wanted) {
        Request request(2, IBV_WR_BIND_MW, nullptr, 0);
        request.bind_mw = {mw, rkey, wanted};
        return request.post(pair.b.qp);
    }
    int invalidate(std::uint32_t rkey) {
        Request request(3, IBV_WR_LOCAL_INV, nullptr, 0);
        request.invalidate_rkey = rkey;
        return request.post(pair.b.qp);
    }
    ibv_wc_status write(std::uint32_t rkey, std::uint64_t address, std::size_t length = 64) {
        ibv_sge sge = local.sge(0, length);
        Request request(4, IBV_WR_RDMA_WRITE, &sge, 1);
        request.wr.rdma = {address, rkey};
        EXPECT_EQ(request.post(pair.a.qp), 0);
        return completion(pair.a.send_cq).status;
    }
    ibv_wc bound(ibv_wc_opcode opcode) {
        const ibv_wc wc = success(pair.b.send_cq);
        EXPECT_EQ(wc.opcode, opcode);
        EXPECT_EQ(wc.qp_num, pair.b.qp->qp_num);
        return wc;
    }

    Pair pair;
    Memory local, remote;
};

TEST_F(Windows, Type1) {
    ibv_mw* mw = ibv_alloc_mw(pair.b.pd, IBV_MW_TYPE_1);
    ASSERT_TRUE(mw);
    const std::uint32_t first = mw->rkey;
    ASSERT_EQ(bind(mw, info(4096, 4096)), 0);
    EXPECT_NE(mw->rkey, first);
    bound(IBV_WC_BIND_MW);
    EXPECT_TRUE(refused(EBUSY, [&] { return ibv_dereg_mr(remote.mr); }));
    EXPECT_EQ(write(mw->rkey, remote.address(4096)), IBV_WC_SUCCESS);
    EXPECT_TRUE(remote.holds(3, 64, 4096));
    const std::uint32_t second = mw->rkey;
    ASSERT_EQ(bind(mw, {nullptr, 0, 0, 0}), 0);
    bound(IBV_WC_BIND_MW);
    EXPECT_EQ(write(second, remote.address(4096)), IBV_WC_REM_ACCESS_ERR);
    EXPECT_EQ(ibv_dealloc_mw(mw), 0);
}

TEST_F(Windows, Type2AndLocalInvalidate) {
    ibv_mw* mw = ibv_alloc_mw(pair.b.pd, IBV_MW_TYPE_2);
    ASSERT_TRUE(mw);
    const std::uint32_t rkey = ibv_inc_rkey(mw->rkey);
    ASSERT_EQ(post_bind(mw, rkey, info(0, 128, kReadWrite | IBV_ACCESS_ZERO_BASED)), 0);
    bound(IBV_WC_BIND_MW);
    EXPECT_EQ(write(rkey, 64), IBV_WC_SUCCESS);
    EXPECT_TRUE(remote.holds(3, 64, 64));
    ASSERT_EQ(invalidate(rkey), 0);
    bound(IBV_WC_LOCAL_INV);
    ASSERT_EQ(post_bind(mw, ibv_inc_rkey(rkey), info(0, 128)), 0);
    bound(IBV_WC_BIND_MW);
    EXPECT_EQ(write(ibv_inc_rkey(rkey), remote.address()), IBV_WC_SUCCESS);
    EXPECT_EQ(write(rkey, 64), IBV_WC_REM_ACCESS_ERR);
    EXPECT_EQ(ibv_dealloc_mw(mw), 0);
}

// As adapters take it: of a bind's rkey the lowest byte counts, and it may be the one of before.
TEST_F(Windows, Type2IsBoundByTheLowestByte) {
    ibv_mw* mw = ibv_alloc_mw(pair.b.pd, IBV_MW_TYPE_2);
    const std::uint32_t own = mw->rkey & ~0xffu;
    for (const std::uint32_t rkey : {mw->rkey, std::uint32_t{17}, own + 0x12345600 + 17}) {
        ASSERT_EQ(post_bind(mw, rkey, info(0, 128)), 0);
        bound(IBV_WC_BIND_MW);
        EXPECT_EQ(write(own | (rkey & 0xff), remote.address()), IBV_WC_SUCCESS);
        ASSERT_EQ(invalidate(own | (rkey & 0xff)), 0);
        bound(IBV_WC_LOCAL_INV);
    }
    EXPECT_EQ(ibv_dealloc_mw(mw), 0);
}

TEST_F(Windows, SendWithInvalidate) {
    ibv_mw* mw = ibv_alloc_mw(pair.b.pd, IBV_MW_TYPE_2);
    const std::uint32_t rkey = ibv_inc_rkey(mw->rkey);
    ASSERT_EQ(post_bind(mw, rkey, info(0, 128)), 0);
    bound(IBV_WC_BIND_MW);
    ASSERT_EQ(pair.b.post_receive(5, remote.sge(1024, 64)), 0);
    ibv_sge sge = local.sge(0, 8);
    Request request(6, IBV_WR_SEND_WITH_INV, &sge, 1);
    request.invalidate_rkey = rkey;
    ASSERT_EQ(request.post(pair.a.qp), 0);
    success(pair.a.send_cq);
    const ibv_wc wc = success(pair.b.receive_cq);
    EXPECT_EQ(wc.wc_flags, static_cast<unsigned>(IBV_WC_WITH_INV));
    EXPECT_EQ(wc.invalidated_rkey, rkey);
    EXPECT_EQ(write(rkey, remote.address()), IBV_WC_REM_ACCESS_ERR);
    EXPECT_EQ(ibv_dealloc_mw(mw), 0);
}

TEST_F(Windows, OnlyTheQueuePairThatBoundIt) {
    ibv_mw* mw = ibv_alloc_mw(pair.a.pd, IBV_MW_TYPE_2);
    Memory bindable(pair.a.pd, kRegionSize, kBindable);
    Side other({.connect = false});
    Request request(2, IBV_WR_BIND_MW, nullptr, 0);
    const std::uint32_t rkey = ibv_inc_rkey(mw->rkey);
    request.bind_mw = {mw, rkey, {bindable.mr, bindable.address(), kRegionSize, kReadWrite}};
    ASSERT_EQ(request.post(pair.a.qp), 0);
    success(pair.a.send_cq);
    EXPECT_EQ(ibv_dealloc_pd(pair.a.pd), EBUSY);
    ASSERT_EQ(invalidate(rkey), 0);  // by the other side's queue pair
    const ibv_wc wc = completion(pair.b.send_cq);
    EXPECT_EQ(wc.status, IBV_WC_MW_BIND_ERR);
    EXPECT_EQ(wc.opcode, IBV_WC_LOCAL_INV);
    EXPECT_EQ(pair.b.state(), IBV_QPS_ERR);
    EXPECT_EQ(ibv_dealloc_mw(mw), 0);
}

TEST_F(Windows, RefusedAtThePost) {
    ibv_mw* one = ibv_alloc_mw(pair.b.pd, IBV_MW_TYPE_1);
    ibv_mw* two = ibv_alloc_mw(pair.b.pd, IBV_MW_TYPE_2);
    const std::uint32_t before = one->rkey;
    EXPECT_TRUE(refused(EINVAL, [&] { return post_bind(one, ibv_inc_rkey(one->rkey), info(0, 1)); }));
    EXPECT_TRUE(refused(EINVAL, [&] { return post_bind(nullptr, 1, info(0, 1)); }));
    EXPECT_TRUE(refused(EINVAL, [&] { return post_bind(two, ibv_inc_rkey(two->rkey), {nullptr, 0, 1, 0}); }));
    EXPECT_TRUE(refused(
        EINVAL, [&] { return post_bind(two, ibv_inc_rkey(two->rkey), info(0, 1, IBV_ACCESS_MW_BIND)); }));
    EXPECT_TRUE(refused(EINVAL, [&] { return bind(one, info(0, 1, IBV_ACCESS_ZERO_BASED)); }));
    EXPECT_EQ(bind(two, info(0, 1)), EINVAL);
    EXPECT_TRUE(refused_null(EINVAL, [&] { return ibv_alloc_mw(pair.b.pd, static_cast<ibv_mw_type>(3)); }));
    EXPECT_EQ(one->rkey, before);
    Side idle({.connect = false});
    ibv_mw* foreign = ibv_alloc_mw(idle.pd, IBV_MW_TYPE_1);
    ibv_mw_bind all{1, 0, {nullptr, 0, 0, 0}};
    EXPECT_TRUE(refused(EINVAL, [&] { return ibv_bind_mw(idle.qp, foreign, &all); })) << "in RESET";
    EXPECT_TRUE(refused(EBUSY, [&] { return ibv_dealloc_pd(idle.pd); }));
    for (ibv_mw* mw : {one, two, foreign}) EXPECT_EQ(ibv_dealloc_mw(mw), 0);
}

TEST_F(Windows, RefusedBindsComplete) {
    struct Wrong {
        int access;
        std::size_t offset, length;
        std::uint32_t vendor;
    };
    for (const Wrong& wrong :
         {Wrong{IBV_ACCESS_LOCAL_WRITE, 0, 64, 0x125}, Wrong{IBV_ACCESS_MW_BIND, 0, 64, 0x126},
          Wrong{kBindable, 1, kRegionSize, 0x127}, Wrong{kBindable, 0, 0, 0x128}}) {
        Pair fresh;
        Memory memory(fresh.a.pd, kRegionSize, wrong.access);
        ibv_mw* mw = ibv_alloc_mw(fresh.a.pd, IBV_MW_TYPE_2);
        Request request(9, IBV_WR_BIND_MW, nullptr, 0, 0);
        request.bind_mw = {
            mw, ibv_inc_rkey(mw->rkey), {memory.mr, memory.address(wrong.offset), wrong.length, kReadWrite}};
        ASSERT_EQ(request.post(fresh.a.qp), 0);
        const ibv_wc wc = completion(fresh.a.send_cq);
        EXPECT_EQ(wc.status, IBV_WC_MW_BIND_ERR);
        EXPECT_EQ(wc.vendor_err, wrong.vendor);
        EXPECT_EQ(wc.wr_id, 9u);
        EXPECT_EQ(fresh.a.state(), IBV_QPS_ERR);
        EXPECT_EQ(ibv_dealloc_mw(mw), 0);
    }
}

TEST_F(Windows, LeftOverAtTheClose) {
    LeavesBehind on_purpose;
    ibv_context* context = open_loopback();
    ibv_pd* pd = ibv_alloc_pd(context);
    EXPECT_TRUE(ibv_alloc_mw(pd, IBV_MW_TYPE_1));
    EXPECT_TRUE(ibv_alloc_null_mr(pd));
    ibv_alloc_dm_attr size{64, 0, 0};
    ibv_dm* dm = ibv_alloc_dm(context, &size);
    EXPECT_TRUE(ibv_reg_dm_mr(pd, dm, 0, 64, IBV_ACCESS_ZERO_BASED));
    EXPECT_EQ(ibv_close_device(context), 0);
}

TEST(AtomicWrite, EightBytes) {
    Pair pair;
    Memory local(pair.a.pd, 64), remote(pair.b.pd, 64);
    local.set_word(1, 0x1122334455667788);
    ibv_sge sge = local.sge(8, 8);
    Request request(1, IBV_WR_ATOMIC_WRITE, &sge, 1);
    request.to(remote, 16);
    ASSERT_EQ(request.post(pair.a.qp), 0);
    EXPECT_EQ(success(pair.a.send_cq).opcode, IBV_WC_ATOMIC_WRITE);
    EXPECT_EQ(remote.word(2), 0x1122334455667788u);
    request.to(remote, 4);
    EXPECT_TRUE(refused(EINVAL, [&] { return request.post(pair.a.qp); }));
    ibv_sge short_one = local.sge(8, 4);
    EXPECT_TRUE(refused(EINVAL, [&] {
        return Request(1, IBV_WR_ATOMIC_WRITE, &short_one, 1).to(remote, 0).post(pair.a.qp);
    }));
}

// What v45 and later declare.
struct NewerQpEx {
    ibv_qp_ex base;
    void (*wr_flush)(ibv_qp_ex*, std::uint32_t, std::uint64_t, std::size_t, std::uint8_t, std::uint8_t);
};

TEST(MemoryRequests, ThroughTheExtendedInterface) {
    constexpr std::uint64_t kWithFlush = 1u << 11;
    constexpr unsigned kFlushGlobal = 1u << 8;
    Pair pair({.connect = false});
    ASSERT_EQ(ibv_destroy_qp(pair.a.qp), 0);
    const ibv_qp_init_attr basic = pair.a.setup();
    ibv_qp_init_attr_ex wanted{};
    wanted.send_cq = basic.send_cq;
    wanted.recv_cq = basic.recv_cq;
    wanted.cap = basic.cap;
    wanted.qp_type = IBV_QPT_RC;
    wanted.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    wanted.pd = pair.a.pd;
    wanted.send_ops_flags =
        IBV_QP_EX_WITH_BIND_MW | IBV_QP_EX_WITH_LOCAL_INV | IBV_QP_EX_WITH_ATOMIC_WRITE | kWithFlush;
    pair.a.qp = ibv_create_qp_ex(pair.a.context, &wanted);
    ASSERT_TRUE(pair.a.qp);
    for (auto [one, other] : {std::pair{&pair.a, &pair.b}, {&pair.b, &pair.a}}) {
        ASSERT_EQ(one->to_init(), 0);
        ASSERT_EQ(one->to_rtr(other->gid(), other->qp->qp_num), 0);
        ASSERT_EQ(one->to_rts(), 0);
    }
    ibv_qp_attr rights{};
    rights.qp_access_flags = kAllAccess | kFlushGlobal;
    ASSERT_EQ(ibv_modify_qp(pair.b.qp, &rights, IBV_QP_ACCESS_FLAGS), 0);

    Memory local(pair.a.pd, 4096, kBindable),
        remote(pair.b.pd, 4096, kAllAccess | static_cast<int>(kFlushGlobal));
    ibv_mw* mw = ibv_alloc_mw(pair.a.pd, IBV_MW_TYPE_2);
    ibv_qp_ex* qp = ibv_qp_to_qp_ex(pair.a.qp);
    const std::uint32_t rkey = ibv_inc_rkey(mw->rkey);
    const ibv_mw_bind_info info{local.mr, local.address(), 4096, kReadWrite}, nowhere{nullptr, 0, 1, 0};
    const std::uint64_t value = 0x0102030405060708;
    ibv_wr_start(qp);
    qp->wr_flags = IBV_SEND_SIGNALED;
    qp->wr_id = 1;
    ibv_wr_bind_mw(qp, mw, rkey, &info);
    qp->wr_id = 2;
    ibv_wr_atomic_write(qp, remote.mr->rkey, remote.address(8), &value);
    qp->wr_id = 3;
    reinterpret_cast<NewerQpEx*>(qp)->wr_flush(qp, remote.mr->rkey, remote.address(8), 8, 1, 0);
    qp->wr_id = 4;
    ibv_wr_local_inv(qp, rkey);
    ASSERT_EQ(ibv_wr_complete(qp), 0);
    constexpr ibv_wc_opcode kFlush = static_cast<ibv_wc_opcode>(8);
    std::uint64_t id = 1;
    for (ibv_wc_opcode opcode : {IBV_WC_BIND_MW, IBV_WC_ATOMIC_WRITE, kFlush, IBV_WC_LOCAL_INV}) {
        const ibv_wc wc = success(pair.a.send_cq);
        EXPECT_EQ(wc.opcode, opcode);
        EXPECT_EQ(wc.wr_id, id++);
    }
    EXPECT_EQ(remote.word(1), value);

    EXPECT_TRUE(refused(EINVAL, [&] {
        ibv_wr_start(qp);
        ibv_wr_bind_mw(qp, mw, rkey, &nowhere);
        return ibv_wr_complete(qp);
    }));
    ibv_wr_start(qp);
    reinterpret_cast<NewerQpEx*>(qp)->wr_flush(qp, remote.mr->rkey, remote.address(8), 8, 0, 0);
    EXPECT_TRUE(refused(EINVAL, [&] { return ibv_wr_complete(qp); })) << "no placement type";
    EXPECT_EQ(ibv_dealloc_mw(mw), 0);
}

struct Pages {
    Pages(std::size_t count, int protection) : size(count * static_cast<std::size_t>(sysconf(_SC_PAGESIZE))) {
        address = mmap(nullptr, size, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    }
    ~Pages() { munmap(address, size); }
    Pages(const Pages&) = delete;
    Pages& operator=(const Pages&) = delete;
    const std::size_t size;
    void* address;
};

struct Kinds : testing::Test {
    Kinds() : side({.connect = false}) {}
    Side side;
};

TEST_F(Kinds, MemoryThatIsNotThere) {
    Pages hole(2, PROT_READ | PROT_WRITE), readable(1, PROT_READ);
    // With the flags as a variable: clang dislikes the header's macro.
    const auto reg = [&](const Pages& pages, int access) {
        return ibv_reg_mr(side.pd, pages.address, pages.size, access);
    };
    munmap(static_cast<char*>(hole.address) + hole.size / 2, hole.size / 2);
    EXPECT_TRUE(refused_null(EFAULT, [&] { return reg(hole, 0); }));
    EXPECT_TRUE(refused_null(EFAULT, [&] { return reg(readable, IBV_ACCESS_LOCAL_WRITE); }));
    EXPECT_TRUE(refused_null(EFAULT, [&] { return reg(Pages(1, PROT_NONE), 0); }));
    EXPECT_TRUE(refused_null(EINVAL, [&] { return ibv_reg_mr(side.pd, nullptr, SIZE_MAX, 0); }));
    ibv_mr* mr = reg(readable, IBV_ACCESS_REMOTE_READ);
    ASSERT_TRUE(mr);
    EXPECT_EQ(ibv_dereg_mr(mr), 0);
}

TEST_F(Kinds, AccessFlags) {
    alignas(4096) std::array<char, 64> bytes{};
    const auto reg = [&](unsigned access, std::uint64_t iova = 0x1000) {
        return ibv_reg_mr_iova2(side.pd, bytes.data(), bytes.size(), iova, access);
    };
    EXPECT_TRUE(refused_null(EINVAL, [&] { return reg(0, 0x1040); })) << "another offset into the page";
    for (unsigned access : {1u << 10, 1u << 19, 1u << 30, unsigned{IBV_ACCESS_REMOTE_WRITE},
                            unsigned{IBV_ACCESS_REMOTE_ATOMIC}})
        EXPECT_TRUE(refused_null(EINVAL, [&] { return reg(access); })) << access;
    EXPECT_TRUE(refused_null(EOPNOTSUPP, [&] { return reg(1u << 9); })) << "persistent memory";
    for (unsigned access : {0u, unsigned{IBV_ACCESS_RELAXED_ORDERING}, unsigned{IBV_ACCESS_OPTIONAL_RANGE},
                            unsigned{IBV_ACCESS_HUGETLB}, unsigned{IBV_ACCESS_ON_DEMAND}, 1u << 8}) {
        ibv_mr* mr = reg(access);
        ASSERT_TRUE(mr) << access;
        EXPECT_EQ(ibv_dereg_mr(mr), 0);
    }
}

TEST_F(Kinds, Reregistration) {
    std::array<char, 128> bytes{};
    int access = IBV_ACCESS_LOCAL_WRITE;
    ibv_mr* mr = ibv_reg_mr(side.pd, bytes.data(), 64, access);
    const std::uint32_t lkey = mr->lkey;
    const auto change = [&](int flags, ibv_pd* pd, void* address, std::size_t length, int rights) {
        return ibv_rereg_mr(mr, flags, pd, address, length, rights);
    };
    EXPECT_EQ(change(0, nullptr, nullptr, 0, 0), IBV_REREG_MR_ERR_INPUT);
    EXPECT_EQ(change(8, nullptr, nullptr, 0, 0), IBV_REREG_MR_ERR_INPUT);
    EXPECT_EQ(change(IBV_REREG_MR_CHANGE_PD, side.pd, nullptr, 0, access), IBV_REREG_MR_ERR_INPUT)
        << "rights that would not be given";
    EXPECT_EQ(change(IBV_REREG_MR_CHANGE_PD, nullptr, nullptr, 0, 0), IBV_REREG_MR_ERR_INPUT);
    EXPECT_EQ(change(IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, nullptr, 64, 0), IBV_REREG_MR_ERR_INPUT);
    EXPECT_EQ(change(IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, IBV_ACCESS_REMOTE_WRITE),
              IBV_REREG_MR_ERR_CMD);
    EXPECT_EQ(errno, EINVAL);
    EXPECT_EQ(change(IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, kBindable), 0);
    EXPECT_EQ(mr->lkey, lkey) << "the same memory has the same keys";
    EXPECT_EQ(change(IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, bytes.data() + 64, 64, 0), 0);
    EXPECT_NE(mr->lkey, lkey);
    EXPECT_EQ(mr->addr, bytes.data() + 64);
    EXPECT_EQ(ibv_dereg_mr(mr), 0);
}

TEST_F(Kinds, NewRightsToMemoryThatDoesNotHaveThem) {
    constexpr int kRead = IBV_ACCESS_REMOTE_READ, kDemand = kAllAccess | IBV_ACCESS_ON_DEMAND;
    Pages readable(1, PROT_READ);
    const auto changed = [&](ibv_mr* mr, int access) {
        new_log();
        errno = 0;
        const int result = ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, access);
        if (result == 0) return 0;
        EXPECT_EQ(result, IBV_REREG_MR_ERR_CMD);
        EXPECT_NE(new_log().find("ibv_rereg_mr"), std::string::npos);
        return errno;
    };
    ibv_mr* mr = ibv_reg_mr(side.pd, readable.address, readable.size, int{kRead});
    ASSERT_TRUE(mr);
    EXPECT_EQ(changed(mr, kAllAccess), EFAULT);
    EXPECT_EQ(changed(mr, kDemand), 0) << "asks at each access";
    EXPECT_EQ(changed(mr, kAllAccess), EFAULT);
    EXPECT_EQ(changed(mr, kRead), 0);
    EXPECT_EQ(ibv_dereg_mr(mr), 0);
    ibv_mr* all = ibv_reg_mr(side.pd, nullptr, SIZE_MAX, int{kDemand});
    ASSERT_TRUE(all);
    EXPECT_EQ(changed(all, kAllAccess), EINVAL) << "as at a registration";
    EXPECT_EQ(ibv_dereg_mr(all), 0);
}

TEST_F(Kinds, DmaBufsThatAreNone) {
    const int closed = dup(0), file = memfd_create("no dma-buf", 0);
    close(closed);
    EXPECT_TRUE(refused_null(EBADF, [&] { return ibv_reg_dmabuf_mr(side.pd, 0, 64, 0, closed, 0); }));
    EXPECT_TRUE(refused_null(EINVAL, [&] { return ibv_reg_dmabuf_mr(side.pd, 0, 64, 0, file, 0); }));
    close(file);
}

// Refused before the descriptor is looked at.
TEST_F(Kinds, OfDmaBufsWithWrongArguments) {
    const auto page = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
    const auto registered = [&](std::uint64_t offset, std::uint64_t iova, int access) {
        return ibv_reg_dmabuf_mr(side.pd, offset, 64, iova, -1, access);
    };
    constexpr int kPossible = kAllAccess | IBV_ACCESS_RELAXED_ORDERING;
    EXPECT_TRUE(refused_null(EOPNOTSUPP, [&] { return registered(page + 8, 7 * page + 8, kPossible); }))
        << "so programs ask for memory of devices";
    EXPECT_TRUE(refused_null(EINVAL, [&] { return registered(page + 8, 7 * page, kPossible); }));
    constexpr int kImpossible[] = {
        IBV_ACCESS_MW_BIND, IBV_ACCESS_ZERO_BASED, IBV_ACCESS_ON_DEMAND, IBV_ACCESS_HUGETLB, 1 << 8, 1 << 21};
    for (const int access : kImpossible)
        EXPECT_TRUE(refused_null(EINVAL, [&] { return registered(0, 0, access); })) << access;
}

TEST(NullRegion, SwallowsAndGivesZeros) {
    Pair pair;
    Memory local(pair.a.pd, 20000), remote(pair.b.pd, 20000);
    ibv_mr* null = ibv_alloc_null_mr(pair.b.pd);
    ASSERT_TRUE(null);
    local.fill(1);
    ibv_sge into[2] = {{0x1234, 10000, null->lkey}, remote.sge(0, 10000)};
    ASSERT_EQ(pair.b.post_receive(1, into, 2), 0);
    ibv_sge from = local.sge(0, 20000);
    ASSERT_EQ(Request(2, IBV_WR_SEND, &from, 1).post(pair.a.qp), 0);
    success(pair.a.send_cq);
    EXPECT_EQ(success(pair.b.receive_cq).byte_len, 20000u);
    EXPECT_EQ(std::memcmp(remote.data(), local.data() + 10000, 10000), 0);
    ibv_sge zeros{0, 10000, null->lkey};
    ASSERT_EQ(Request(3, IBV_WR_RDMA_WRITE, &zeros, 1).to(local).post(pair.b.qp), 0);
    success(pair.b.send_cq);
    EXPECT_TRUE(std::all_of(local.data(), local.data() + 10000, [](auto b) { return b == 0; }));
    EXPECT_EQ(ibv_dereg_mr(null), 0);
}

TEST(OnDemand, WholeAddressSpace) {
    Pair pair;
    Memory local(pair.a.pd, 8192), remote(pair.b.pd, 8192);
    constexpr int kAccess = kAllAccess | IBV_ACCESS_ON_DEMAND;
    ibv_mr* all = ibv_reg_mr(pair.b.pd, nullptr, SIZE_MAX, kAccess);
    ASSERT_TRUE(all);
    local.fill(9);
    ibv_sge from = local.sge(0, 8192);
    Request request(1, IBV_WR_RDMA_WRITE, &from, 1);
    request.wr.rdma = {remote.address(), all->rkey};
    ASSERT_EQ(request.post(pair.a.qp), 0);
    success(pair.a.send_cq);
    EXPECT_TRUE(remote.holds(9, 8192));

    Pages readable(1, PROT_READ);
    ibv_sge one{reinterpret_cast<std::uintptr_t>(readable.address), 64, all->lkey};
    const auto advise = [&](ibv_advise_mr_advice advice, unsigned flags) {
        return ibv_advise_mr(pair.b.pd, advice, flags, &one, 1);
    };
    constexpr auto kRead = IBV_ADVISE_MR_ADVICE_PREFETCH, kWrite = IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE;
    EXPECT_EQ(advise(kRead, IBV_ADVISE_MR_FLAG_FLUSH), 0);
    EXPECT_EQ(advise(kWrite, 0), 0) << "nobody waits for it";
    EXPECT_TRUE(refused(EFAULT, [&] { return advise(kWrite, IBV_ADVISE_MR_FLAG_FLUSH); }));
    EXPECT_TRUE(refused(EINVAL, [&] { return advise(kRead, 2); }));
    EXPECT_TRUE(refused(EOPNOTSUPP, [&] { return advise(static_cast<ibv_advise_mr_advice>(3), 0); }));
    EXPECT_TRUE(refused(EINVAL, [&] { return ibv_advise_mr(pair.b.pd, kRead, 0, &one, 0); }));
    one = remote.sge(0, 64);
    EXPECT_TRUE(refused(EINVAL, [&] { return advise(kRead, 0); })) << "not on demand";
    one.lkey = kNoKey;
    EXPECT_TRUE(refused(ENOENT, [&] { return advise(kRead, 0); }));
    ibv_mw* window = ibv_alloc_mw(pair.b.pd, IBV_MW_TYPE_2);
    ASSERT_TRUE(window);
    one.lkey = window->rkey;
    EXPECT_TRUE(refused(EINVAL, [&] { return advise(kRead, 0); }));
    EXPECT_EQ(ibv_dealloc_mw(window), 0);
    EXPECT_TRUE(refused(ENOENT, [&] { return advise(kRead, 0); })) << "nothing's any more";

    // What is not there, or cannot be written, ends the request and not the program.
    request.wr.rdma.remote_addr = reinterpret_cast<std::uintptr_t>(readable.address);
    from.length = 64;
    ASSERT_EQ(request.post(pair.a.qp), 0);
    const ibv_wc wc = completion(pair.a.send_cq);
    EXPECT_EQ(wc.status, IBV_WC_REM_ACCESS_ERR);
    EXPECT_EQ(ibv_dereg_mr(all), 0);
}

TEST(Import, RegionOfTheSameProcess) {
    Side side({.connect = false});
    Memory memory(side.pd, 64);
    ibv_mr* imported = ibv_import_mr(side.pd, memory.mr->handle);
    ASSERT_TRUE(imported);
    EXPECT_EQ(imported->rkey, memory.mr->rkey);
    EXPECT_EQ(imported->addr, nullptr);
    ibv_unimport_mr(imported);
    ibv_pd* other = ibv_alloc_pd(side.context);
    EXPECT_TRUE(refused_null(ENOENT, [&] { return ibv_import_mr(other, memory.mr->handle); }));
    EXPECT_TRUE(refused_null(ENOENT, [&] { return ibv_import_mr(side.pd, 0xffffff); }));
    EXPECT_EQ(ibv_dealloc_pd(other), 0);
}

// Either handle ends the region (ibv_import_mr(3)); the other is given back.
TEST(Import, RegionIsDeregisteredByEither) {
    Side side({.connect = false});
    Memory memory(side.pd, 64);
    ibv_mr* imported = ibv_import_mr(side.pd, memory.mr->handle);
    ASSERT_TRUE(imported);
    EXPECT_EQ(ibv_dereg_mr(imported), 0);
    EXPECT_TRUE(refused(EINVAL, [&] { return ibv_dereg_mr(memory.mr); })) << "it is not there any more";
    ibv_unimport_mr(std::exchange(memory.mr, nullptr));
}

}  // namespace
}  // namespace verbena::verbs_test
