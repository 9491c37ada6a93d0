// The list of devices, and what may be asked of a device, its port, its GIDs and its P_Key.
#include <infiniband/verbs.h>

#include <set>
#include <string>

#include "harness.h"
#include "leaves_behind.h"

namespace verbena::verbs_test {
namespace {

struct Queries : testing::Test {
    ~Queries() override { EXPECT_EQ(ibv_close_device(context), 0); }
    // Used entries come first.
    int used_gids() const {
        ibv_gid_entry entry;
        int count = 0;
        while (ibv_query_gid_ex(context, 1, static_cast<std::uint32_t>(count), &entry, 0) == 0) count++;
        return count;
    }
    ibv_context* context = open_loopback();
};

TEST(DeviceList, EndsWithNullAndKeepsItsPointers) {
    int count = -1;
    ibv_device** list = ibv_get_device_list(&count);
    ASSERT_NE(list, nullptr);
    ASSERT_GE(count, 1);
    EXPECT_EQ(list[count], nullptr);
    std::set<std::string> names;
    for (int i = 0; i < count; i++) {
        EXPECT_EQ(list[i]->node_type, IBV_NODE_CA);
        EXPECT_EQ(list[i]->transport_type, IBV_TRANSPORT_IB);
        EXPECT_NE(ibv_get_device_guid(list[i]), 0u);
        EXPECT_TRUE(names.insert(ibv_get_device_name(list[i])).second);
        EXPECT_EQ(ibv_get_device_index(list[i]), -1);  // the kernel has none of them
    }
    // What was opened outlives the list, and the next list has the same devices.
    ibv_device* device = list[0];
    ibv_context* opened = ibv_open_device(device);
    ASSERT_NE(opened, nullptr);
    ibv_free_device_list(list);
    EXPECT_EQ(opened->device, device);
    list = ibv_get_device_list(nullptr);
    EXPECT_EQ(list[0], device);
    ibv_free_device_list(list);
    ibv_pd* pd = ibv_alloc_pd(opened);
    EXPECT_NE(pd, nullptr);
    EXPECT_EQ(ibv_dealloc_pd(pd), 0);
    EXPECT_EQ(ibv_close_device(opened), 0);
}

TEST(DeviceList, EachOpeningIsAContextOfItsOwn) {
    ibv_context* one = open_loopback();
    ibv_context* two = open_loopback();
    EXPECT_NE(one, two);
    EXPECT_NE(one->async_fd, two->async_fd);
    EXPECT_EQ(ibv_close_device(one), 0);
    ibv_port_attr port{};
    EXPECT_EQ(ibv_query_port(two, 1, &port), 0);
    EXPECT_EQ(ibv_close_device(two), 0);
}

TEST_F(Queries, ThereIsOnePort) {
    for (int number : {0, 2, 255}) {
        ibv_port_attr port{};
        const auto wrong = static_cast<std::uint8_t>(number);
        EXPECT_TRUE(refused(EINVAL, [&] { return ibv_query_port(context, wrong, &port); }));
        ibv_gid gid{};
        EXPECT_TRUE(refused_minus_one(EINVAL, [&] { return ibv_query_gid(context, wrong, 0, &gid); }));
        ibv_gid_entry entry{};
        EXPECT_TRUE(refused(EINVAL, [&] { return ibv_query_gid_ex(context, wrong, 0, &entry, 0); }));
        __be16 pkey = 0;
        EXPECT_TRUE(refused_minus_one(EINVAL, [&] { return ibv_query_pkey(context, wrong, 0, &pkey); }));
        EXPECT_TRUE(refused_minus_one(EINVAL, [&] { return ibv_get_pkey_index(context, wrong, 0xffff); }));
    }
}

TEST_F(Queries, GidIndices) {
    ibv_port_attr port{};
    ASSERT_EQ(ibv_query_port(context, 1, &port), 0);
    const int used = used_gids();
    ASSERT_GE(used, 1);
    ASSERT_LT(used, port.gid_tbl_len);  // at least one empty entry at the end
    ibv_gid gid{}, zero{};
    ibv_gid_entry entry{};
    for (int i = 0; i < port.gid_tbl_len; i++) {
        ASSERT_EQ(ibv_query_gid(context, 1, i, &gid), 0);
        EXPECT_EQ(std::memcmp(&gid, &zero, sizeof gid) != 0, i < used) << i;
        const auto index = static_cast<std::uint32_t>(i);
        ASSERT_EQ(ibv_query_gid_ex(context, 1, index, &entry, 0), i < used ? 0 : ENODATA);
        if (i >= used) continue;
        EXPECT_EQ(std::memcmp(&gid, &entry.gid, sizeof gid), 0);
        EXPECT_EQ(entry.gid_index, index);
        EXPECT_EQ(entry.port_num, 1u);
        EXPECT_EQ(entry.gid_type, static_cast<unsigned>(IBV_GID_TYPE_ROCE_V2));
        EXPECT_NE(entry.ndev_ifindex, 0u);
    }
    for (int wrong : {-1, port.gid_tbl_len, 1 << 30}) {
        EXPECT_TRUE(refused_minus_one(EINVAL, [&] { return ibv_query_gid(context, 1, wrong, &gid); }));
        const auto index = static_cast<std::uint32_t>(wrong);
        EXPECT_TRUE(refused(EINVAL, [&] { return ibv_query_gid_ex(context, 1, index, &entry, 0); }));
    }
    EXPECT_TRUE(refused(EINVAL, [&] { return ibv_query_gid_ex(context, 1, 0, &entry, 1); }));
}

TEST_F(Queries, GidTable) {
    const auto used = static_cast<std::size_t>(used_gids());
    std::vector<ibv_gid_entry> entries(used + 1);
    EXPECT_EQ(ibv_query_gid_table(context, entries.data(), used + 1, 0), static_cast<ssize_t>(used));
    EXPECT_EQ(ibv_query_gid_table(context, entries.data(), used, 0), static_cast<ssize_t>(used));
    for (std::size_t i = 0; i < used; i++) EXPECT_EQ(entries[i].gid_index, i);
    EXPECT_EQ(ibv_query_gid_table(context, entries.data(), used - 1, 0), -EINVAL);
    EXPECT_EQ(ibv_query_gid_table(context, entries.data(), 0, 0), -EINVAL);
    EXPECT_EQ(ibv_query_gid_table(context, entries.data(), used, 1), -EINVAL);
}

TEST_F(Queries, ThePkey) {
    __be16 pkey = 0;
    EXPECT_EQ(ibv_query_pkey(context, 1, 0, &pkey), 0);
    EXPECT_EQ(pkey, 0xffff);
    EXPECT_EQ(ibv_get_pkey_index(context, 1, pkey), 0);
    for (int wrong : {-1, 1, 1 << 20})
        EXPECT_TRUE(refused_minus_one(EINVAL, [&] { return ibv_query_pkey(context, 1, wrong, &pkey); }));
    EXPECT_EQ(ibv_get_pkey_index(context, 1, 0x1234), -1);
}

TEST_F(Queries, OfTheDevice) {
    ibv_device_attr_ex attributes{};
    ibv_query_device_ex_input input{};
    EXPECT_EQ(ibv_query_device_ex(context, &input, &attributes), 0);
    input.comp_mask = 1;
    EXPECT_EQ(ibv_query_device_ex(context, &input, &attributes), EINVAL);
}

// A context ends with whatever the program left in it, and everybody else's goes on.
TEST_F(Queries, ClosingTakesTheRestAlong) {
    LeavesBehind on_purpose;
    ibv_context* other = open_loopback();
    ibv_pd* pd = ibv_alloc_pd(other);
    ibv_cq* cq = ibv_create_cq(other, 8, nullptr, nullptr, 0);
    ibv_qp_init_attr setup{};
    setup.send_cq = setup.recv_cq = cq;
    setup.cap = {4, 4, 1, 1, 0};
    setup.qp_type = IBV_QPT_RC;
    EXPECT_NE(ibv_create_qp(pd, &setup), nullptr);
    EXPECT_EQ(ibv_close_device(other), 0);
    ibv_port_attr port{};
    EXPECT_EQ(ibv_query_port(context, 1, &port), 0);
}

}  // namespace
}  // namespace verbena::verbs_test
