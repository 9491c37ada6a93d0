// Buffers that the device allocates (ibv_alloc_buf), and their registration.
#include <unistd.h>

#include <cstring>

#include "harness.h"

// Release 64; this is compiled with the headers of v44.
struct ibv_buf;
struct ibv_mr_init_attr {
    std::size_t length;
    int access;
    std::uint64_t comp_mask, iova;
    void* addr;
    int fd;
    std::uint64_t fd_offset;
    struct ibv_dmah* dmah;
    ibv_buf* buf;
};
extern "C" {
ibv_mr* ibv_reg_mr_ex(ibv_pd*, ibv_mr_init_attr*);
void* ibv_alloc_buf(ibv_pd*, std::size_t, ibv_buf**);
void ibv_free_buf(ibv_buf*);
ibv_mr* ibv_reg_buf_mr(ibv_pd*, ibv_buf*, void*, std::size_t, int);
int ibv_export_buf_dmabuf_fd(ibv_buf*);
}

namespace verbena::verbs_test {
namespace {

constexpr std::uint32_t kAllowUnprotected = 1 << 2;

struct Buffer : testing::TestWithParam<bool> {
    Buffer() {
        if (GetParam()) {
            ibv_parent_domain_init_attr setup{};
            setup.pd = side.pd;
            setup.comp_mask = kAllowUnprotected;
            pd = ibv_alloc_parent_domain(side.context, &setup);
        }
        EXPECT_NE(pd, nullptr);
        address = static_cast<char*>(ibv_alloc_buf(pd, kSize, &buffer));
        EXPECT_NE(address, nullptr);
    }
    ~Buffer() override {
        ibv_free_buf(buffer);
        if (pd != side.pd) {
            EXPECT_EQ(ibv_dealloc_pd(pd), 0);
        }
    }
    ibv_mr* region(std::size_t offset, std::size_t length) {
        return ibv_reg_buf_mr(pd, buffer, address + offset, length, IBV_ACCESS_LOCAL_WRITE);
    }

    static constexpr std::size_t kSize = 10000;
    Side side;
    ibv_pd* pd = side.pd;
    ibv_buf* buffer = nullptr;
    char* address = nullptr;
};

TEST_P(Buffer, PartsOfItAreRegistered) {
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(address) % static_cast<std::uintptr_t>(getpagesize()), 0u);
    std::memset(address, 1, kSize);
    ibv_mr* all = region(0, kSize);
    ibv_mr* end = region(kSize - 1, 1);
    ASSERT_TRUE(all && end);
    EXPECT_NE(all->lkey, end->lkey);
    EXPECT_EQ(end->addr, address + kSize - 1);
    EXPECT_EQ(end->pd, pd);
    EXPECT_EQ(ibv_dereg_mr(all), 0);
    EXPECT_EQ(ibv_dereg_mr(end), 0);
}

TEST_P(Buffer, NothingElseIs) {
    EXPECT_TRUE(refused_null(EINVAL, [&] { return region(0, kSize + 1); }));
    EXPECT_TRUE(refused_null(EINVAL, [&] { return region(kSize, 1); }));
    EXPECT_TRUE(refused_null(EINVAL, [&] { return region(1, SIZE_MAX); }));
    EXPECT_TRUE(refused_null(
        EINVAL, [&] { return ibv_reg_buf_mr(pd, buffer, address - 1, 2, IBV_ACCESS_LOCAL_WRITE); }));
    ibv_pd* other = ibv_alloc_pd(side.context);
    EXPECT_TRUE(refused_null(
        EINVAL, [&] { return ibv_reg_buf_mr(other, buffer, address, 1, IBV_ACCESS_LOCAL_WRITE); }));
    EXPECT_EQ(ibv_dealloc_pd(other), 0);
}

TEST_P(Buffer, ThroughTheExtendedCall) {
    constexpr std::uint64_t kIova = 1 << 0, kAddress = 1 << 1, kFd = 1 << 2, kFdOffset = 1 << 3,
                            kBuffer = 1 << 5;
    ibv_mr_init_attr setup{};
    setup.length = 5000;
    setup.access = IBV_ACCESS_LOCAL_WRITE;
    setup.comp_mask = kAddress | kBuffer;
    setup.addr = address + 5000;
    setup.buf = buffer;
    ibv_mr* mr = ibv_reg_mr_ex(pd, &setup);
    ASSERT_NE(mr, nullptr);
    EXPECT_EQ(mr->addr, setup.addr);
    EXPECT_EQ(ibv_dereg_mr(mr), 0);
    auto call = [&] { return ibv_reg_mr_ex(pd, &setup); };
    setup.length++;
    EXPECT_TRUE(refused_null(EINVAL, call));
    setup.length--;
    setup.comp_mask = kBuffer;
    EXPECT_TRUE(refused_null(EINVAL, call));
    setup.comp_mask = kAddress | kBuffer | kFd;
    EXPECT_TRUE(refused_null(EINVAL, call));
    // A dma-buf: the program says where its addresses begin.
    setup.fd = -1;
    setup.comp_mask = kFd | kFdOffset;
    EXPECT_TRUE(refused_null(EINVAL, call));
    setup.comp_mask = kFd | kFdOffset | kIova;
    EXPECT_TRUE(refused_null(EOPNOTSUPP, call)) << "so programs ask for memory of devices";
}

TEST_P(Buffer, IsOrdinaryMemory) {
    EXPECT_TRUE(refused_minus_one(ENODATA, [&] { return ibv_export_buf_dmabuf_fd(buffer); }));
}

TEST_P(Buffer, OfWrongSize) {
    ibv_buf* none = nullptr;
    EXPECT_TRUE(refused_null(EINVAL, [&] { return ibv_alloc_buf(pd, 0, &none); }));
    EXPECT_TRUE(refused_null(ENOMEM, [&] { return ibv_alloc_buf(pd, SIZE_MAX, &none); }));
    EXPECT_EQ(none, nullptr);
}

INSTANTIATE_TEST_SUITE_P(OfADomain, Buffer, testing::Bool(), [](const auto& parameter) {
    return parameter.param ? "ThatAllowsUnprotectedMemory" : "Plain";
});

}  // namespace
}  // namespace verbena::verbs_test
