// Device memory (ibv_alloc_dm(3)): its limits, and traffic from and to it.
#include "harness.h"

namespace verbena::verbs_test {
namespace {

struct DeviceMemory : testing::Test {
    ibv_dm* alloc(std::size_t length, std::uint32_t alignment = 0, std::uint32_t mask = 0) {
        ibv_alloc_dm_attr wanted{length, alignment, mask};
        return ibv_alloc_dm(pair.a.context, &wanted);
    }
    Pair pair;
};

TEST_F(DeviceMemory, Limits) {
    ibv_device_attr_ex device;
    ASSERT_EQ(ibv_query_device_ex(pair.a.context, nullptr, &device), 0);
    ASSERT_GT(device.max_dm_size, 0u);
    EXPECT_TRUE(refused_null(EINVAL, [&] { return alloc(0); }));
    EXPECT_TRUE(refused_null(EINVAL, [&] { return alloc(device.max_dm_size + 1); }));
    EXPECT_TRUE(refused_null(EINVAL, [&] { return alloc(4, 0, 1); }));
    EXPECT_TRUE(refused_null(EINVAL, [&] { return alloc(4, 40); }));
    ibv_dm* dm = alloc(device.max_dm_size, 6);
    ASSERT_TRUE(dm);
    std::uint32_t word = 7;
    EXPECT_EQ(ibv_memcpy_to_dm(dm, device.max_dm_size - 4, &word, 4), 0);
    for (const auto& range : {std::pair<std::uint64_t, std::size_t>{3, 4},
                              {4, 3},
                              {device.max_dm_size, 4},
                              {0, device.max_dm_size + 4},
                              {~std::uint64_t{3}, 8}}) {
        EXPECT_TRUE(refused(EINVAL, [&] { return ibv_memcpy_to_dm(dm, range.first, &word, range.second); }))
            << range.first;
        EXPECT_TRUE(refused(EINVAL, [&] { return ibv_memcpy_from_dm(&word, dm, range.first, range.second); }))
            << range.first;
    }
    EXPECT_TRUE(
        refused_null(EINVAL, [&] { return ibv_reg_dm_mr(pair.a.pd, dm, 0, 64, IBV_ACCESS_LOCAL_WRITE); }));
    EXPECT_TRUE(refused_null(
        EINVAL, [&] { return ibv_reg_dm_mr(pair.a.pd, dm, 4, device.max_dm_size, IBV_ACCESS_ZERO_BASED); }));
    EXPECT_EQ(ibv_free_dm(dm), 0);
}

TEST_F(DeviceMemory, Traffic) {
    ibv_dm* dm = alloc(8192);
    ibv_mr* mr = ibv_reg_dm_mr(pair.a.pd, dm, 4096, 4096, kAllAccess | IBV_ACCESS_ZERO_BASED);
    ASSERT_TRUE(mr);
    EXPECT_EQ(mr->addr, nullptr);
    EXPECT_EQ(mr->length, 4096u);
    EXPECT_TRUE(refused(EBUSY, [&] { return ibv_free_dm(dm); }));
    Memory memory(pair.b.pd, 4096);
    memory.fill(5);
    ibv_sge from = memory.sge(0, 4096);
    Request write(1, IBV_WR_RDMA_WRITE, &from, 1);
    write.wr.rdma = {0, mr->rkey};
    ASSERT_EQ(write.post(pair.b.qp), 0);
    success(pair.b.send_cq);
    std::vector<std::uint8_t> read(4096);
    ASSERT_EQ(ibv_memcpy_from_dm(read.data(), dm, 4096, 4096), 0);
    EXPECT_EQ(std::memcmp(read.data(), memory.data(), 4096), 0);

    ibv_dm* imported = ibv_import_dm(pair.b.context, dm->handle);
    ASSERT_TRUE(imported);
    const std::uint32_t word = 0x12345678;
    ASSERT_EQ(ibv_memcpy_to_dm(dm, 0, &word, 4), 0);
    EXPECT_EQ(ibv_dereg_mr(mr), 0);
    EXPECT_EQ(ibv_free_dm(dm), 0);
    std::uint32_t seen = 0;
    EXPECT_EQ(ibv_memcpy_from_dm(&seen, imported, 0, 4), 0);
    EXPECT_EQ(seen, word);
    ibv_unimport_dm(imported);
    EXPECT_TRUE(refused_null(ENOENT, [&] { return ibv_import_dm(pair.b.context, 0xffffff); }));
}

}  // namespace
}  // namespace verbena::verbs_test
