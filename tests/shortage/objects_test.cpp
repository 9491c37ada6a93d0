// The calls of libibverbs that make something, and those that take it back.
#include <fcntl.h>

#include <array>
#include <cstring>

#include "shortage.h"
#include "verbs/harness.h"

namespace verbena::shortage_test {
namespace {

using verbs_test::Side;

ibv_device* loopback(ibv_device** list) {
    while (*list && std::strcmp(ibv_get_device_name(*list), "verbena_lo") != 0) list++;
    return *list;
}

// Before this process has opened one itself.
TEST(ADevice, IsOpenedOrNotByWhoOpensItFirst) {
    ibv_device** list = nullptr;
    ibv_context* context = nullptr;
    sweep_in_children(
        "ibv_open_device",
        [&] {
            list = ibv_get_device_list(nullptr);
            if (!list) return errno;
            const int error = kept(ibv_open_device(loopback(list)), context);
            ibv_free_device_list(list);
            return error;
        },
        [&] { return ibv_close_device(context); });
}

// Then, so that what a process makes once is made here.
TEST(ADevice, IsListedAndOpenedOrNot) {
    ibv_device** list = nullptr;
    const auto free_list = [&list] {
        ibv_free_device_list(list);
        return 0;
    };
    sweep(
        "ibv_get_device_list", [&] { return kept(ibv_get_device_list(nullptr), list); }, free_list);
    list = ibv_get_device_list(nullptr);
    ASSERT_TRUE(list && *list);
    ibv_device* const device = loopback(list);
    ibv_context* context = nullptr;
    sweep(
        "ibv_open_device", [&] { return kept(ibv_open_device(device), context); },
        [&] { return ibv_close_device(context); });
    free_list();
}

struct Objects : testing::Test {
    Side side{{.connect = false}};
    ibv_context* const context = side.context;
    ibv_pd* const pd = side.pd;
    std::array<std::uint64_t, 512> memory{};

    template <class Thing>
    void sweep_over(const char* name, const std::function<Thing*()>& make,
                    const std::function<int(Thing*)>& destroy) {
        Thing* made = nullptr;
        sweep(
            name, [&] { return kept(make(), made); },
            [&] { return without_memory([&] { return destroy(made); }); });
    }
};

TEST_F(Objects, Domains) {
    sweep_over<ibv_pd>(
        "ibv_alloc_pd", [&] { return ibv_alloc_pd(context); }, ibv_dealloc_pd);
    ibv_td_init_attr nothing{};
    sweep_over<ibv_td>(
        "ibv_alloc_td", [&] { return ibv_alloc_td(context, &nothing); }, ibv_dealloc_td);
    ibv_parent_domain_init_attr of_side{};
    of_side.pd = pd;
    sweep_over<ibv_pd>(
        "ibv_alloc_parent_domain", [&] { return ibv_alloc_parent_domain(context, &of_side); },
        ibv_dealloc_pd);
    ibv_xrcd_init_attr alone{IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, -1, O_CREAT};
    sweep_over<ibv_xrcd>(
        "ibv_open_xrcd", [&] { return ibv_open_xrcd(context, &alone); }, ibv_close_xrcd);
    alone.fd = open("/proc/self/exe", O_RDONLY);
    sweep_over<ibv_xrcd>(
        "ibv_open_xrcd of a file", [&] { return ibv_open_xrcd(context, &alone); }, ibv_close_xrcd);
    close(alone.fd);
}

TEST_F(Objects, Regions) {
    const auto add = [&] { return ibv_reg_mr(pd, &memory, sizeof memory, verbs_test::kAllAccess); };
    sweep_over<ibv_mr>("ibv_reg_mr", add, ibv_dereg_mr);
    sweep_over<ibv_mr>(
        "ibv_alloc_null_mr", [&] { return ibv_alloc_null_mr(pd); }, ibv_dereg_mr);
    for (const ibv_mw_type type : {IBV_MW_TYPE_1, IBV_MW_TYPE_2})
        sweep_over<ibv_mw>(
            "ibv_alloc_mw", [&] { return ibv_alloc_mw(pd, type); }, ibv_dealloc_mw);
    ibv_alloc_dm_attr wanted{};
    wanted.length = 4096;
    sweep_over<ibv_dm>(
        "ibv_alloc_dm", [&] { return ibv_alloc_dm(context, &wanted); }, ibv_free_dm);
}

TEST_F(Objects, CompletionQueues) {
    sweep_over<ibv_comp_channel>(
        "ibv_create_comp_channel", [&] { return ibv_create_comp_channel(context); },
        ibv_destroy_comp_channel);
    ibv_comp_channel* const channel = ibv_create_comp_channel(context);
    sweep_over<ibv_cq>(
        "ibv_create_cq", [&] { return ibv_create_cq(context, 100, nullptr, channel, 0); }, ibv_destroy_cq);
    ibv_cq_init_attr_ex extended{};
    extended.cqe = 100;
    sweep_over<ibv_cq_ex>(
        "ibv_create_cq_ex", [&] { return ibv_create_cq_ex(context, &extended); },
        [](ibv_cq_ex* cq) { return ibv_destroy_cq(ibv_cq_ex_to_cq(cq)); });
    sweep_until("ibv_resize_cq", [&] { return ibv_resize_cq(side.send_cq, 1000); });
    EXPECT_EQ(ibv_destroy_comp_channel(channel), 0);
}

TEST_F(Objects, ReceiveQueues) {
    ibv_srq_init_attr wanted{nullptr, {64, 2, 0}};
    sweep_over<ibv_srq>(
        "ibv_create_srq", [&] { return ibv_create_srq(pd, &wanted); }, ibv_destroy_srq);
    ibv_srq* const srq = ibv_create_srq(pd, &wanted);
    ibv_srq_attr larger{256, 2, 0};
    sweep_until("ibv_modify_srq", [&] { return ibv_modify_srq(srq, &larger, IBV_SRQ_MAX_WR); });
    EXPECT_EQ(ibv_destroy_srq(srq), 0);
}

TEST_F(Objects, AddressHandles) {
    sweep_over<ibv_ah>(
        "ibv_create_ah", [&] { return verbs_test::address_handle(pd, side.gid()); }, ibv_destroy_ah);
}

TEST_F(Objects, QueuePairs) {
    for (const ibv_qp_type type : {IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD}) {
        ibv_qp_init_attr wanted = side.setup();
        wanted.qp_type = type;
        sweep_over<ibv_qp>(
            "ibv_create_qp", [&] { return ibv_create_qp(pd, &wanted); }, ibv_destroy_qp);
    }
    // More than there was room for.
    std::array<ibv_qp*, 200> many{};
    ibv_qp_init_attr small = side.setup();
    small.cap = {1, 1, 1, 1, 0};
    for (ibv_qp*& each : many)
        sweep_until("ibv_create_qp", [&] { return kept(ibv_create_qp(pd, &small), each); });
    for (ibv_qp* each : many) EXPECT_EQ(without_memory([&] { return ibv_destroy_qp(each); }), 0);
}

TEST_F(Objects, TargetsOfXrc) {
    ibv_xrcd_init_attr alone{IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, -1, O_CREAT};
    ibv_xrcd* const domain = ibv_open_xrcd(context, &alone);
    ASSERT_TRUE(domain);
    ibv_qp_init_attr_ex wanted{};
    wanted.qp_type = IBV_QPT_XRC_RECV;
    wanted.comp_mask = IBV_QP_INIT_ATTR_XRCD;
    wanted.xrcd = domain;
    sweep_over<ibv_qp>(
        "ibv_create_qp_ex", [&] { return ibv_create_qp_ex(context, &wanted); }, ibv_destroy_qp);
    ibv_qp* const target = ibv_create_qp_ex(context, &wanted);
    ASSERT_TRUE(target);
    ibv_qp_open_attr known{};
    known.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE;
    known.qp_num = target->qp_num;
    known.xrcd = domain;
    known.qp_type = IBV_QPT_XRC_RECV;
    sweep_over<ibv_qp>(
        "ibv_open_qp", [&] { return ibv_open_qp(context, &known); }, ibv_destroy_qp);
    EXPECT_EQ(ibv_destroy_qp(target), 0);
    EXPECT_EQ(ibv_close_xrcd(domain), 0);
}

TEST_F(Objects, MembersOfGroups) {
    ibv_qp_init_attr wanted = side.setup();
    wanted.qp_type = IBV_QPT_UD;
    ibv_qp* const qp = ibv_create_qp(pd, &wanted);
    ASSERT_TRUE(qp);
    ibv_gid group{};
    group.raw[0] = 0xff;
    group.raw[1] = 0x0e;
    group.raw[15] = 9;
    sweep(
        "ibv_attach_mcast", [&] { return ibv_attach_mcast(qp, &group, 0); },
        [&] { return without_memory([&] { return ibv_detach_mcast(qp, &group, 0); }); });
    EXPECT_EQ(ibv_destroy_qp(qp), 0);
}

}  // namespace
}  // namespace verbena::shortage_test
