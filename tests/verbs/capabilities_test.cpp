// What the device says that it can do is what it does: behind every capability is a call that shows it. What
// is advertised works, what works is advertised, and what is not there is answered with EOPNOTSUPP.
#include <fcntl.h>
#include <unistd.h>

#include "harness.h"

namespace verbena::verbs_test {
namespace {

struct Capabilities : testing::Test {
    Capabilities() {
        EXPECT_EQ(ibv_query_device_ex(side.context, nullptr, &extended), 0);
        EXPECT_EQ(ibv_query_device(side.context, &attributes), 0);
    }

    bool has(unsigned flag) const { return attributes.device_cap_flags & flag; }

    // Whether a constructor makes an object; a refusal has to be EOPNOTSUPP, the answer for what is not
    // there.
    template <class Make, class Destroy>
    bool works(Make make, Destroy destroy) {
        errno = 0;
        auto* object = make();
        if (object) {
            EXPECT_EQ(destroy(object), 0);
            return true;
        }
        EXPECT_EQ(errno, EOPNOTSUPP);
        return false;
    }
    // The same of a call that returns an error.
    bool answers(int error) {
        EXPECT_TRUE(error == 0 || error == EOPNOTSUPP) << error;
        return error == 0;
    }

    ibv_srq* make_srq(std::uint32_t size, std::uint32_t sges) {
        ibv_srq_init_attr setup{};
        setup.attr = {size, sges, 0};
        return ibv_create_srq(side.pd, &setup);
    }
    ibv_cq_ex* make_cq(std::uint64_t fields) {
        ibv_cq_init_attr_ex setup{};
        setup.cqe = 4;
        setup.wc_flags = fields;
        return ibv_create_cq_ex(side.context, &setup);
    }
    static int destroy_cq(ibv_cq_ex* cq) { return ibv_destroy_cq(ibv_cq_ex_to_cq(cq)); }
    bool queue_pairs_of(ibv_qp_type type) {
        ibv_qp_init_attr setup = side.setup();
        setup.qp_type = type;
        return works([&] { return ibv_create_qp(side.pd, &setup); }, ibv_destroy_qp);
    }

    Side side;
    ibv_device_attr_ex extended{};
    ibv_device_attr attributes{};
};

TEST_F(Capabilities, BothQueriesAgree) {
    EXPECT_EQ(std::memcmp(&attributes, &extended.orig_attr, sizeof attributes), 0);
    EXPECT_EQ(static_cast<std::uint32_t>(extended.device_cap_flags_ex), attributes.device_cap_flags);
    EXPECT_EQ(extended.phys_port_cnt_ex, attributes.phys_port_cnt);
}

// Capabilities and operations of releases after v44, whose headers this is compiled with.
TEST_F(Capabilities, OperationsOfLaterReleases) {
    constexpr std::uint64_t kFlushGlobal = 1ull << 38, kAtomicWrite = 1ull << 40;
    EXPECT_EQ(extended.device_cap_flags_ex >> 32, (kFlushGlobal | kAtomicWrite) >> 32);
    auto posts = [&](std::uint64_t operations) {
        ibv_qp_init_attr_ex setup{};
        setup.send_cq = side.send_cq;
        setup.recv_cq = side.receive_cq;
        setup.pd = side.pd;
        setup.cap = {4, 4, 1, 1, 0};
        setup.qp_type = IBV_QPT_RC;
        setup.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
        setup.send_ops_flags = operations;
        return works([&] { return ibv_create_qp_ex(side.context, &setup); }, ibv_destroy_qp);
    };
    EXPECT_TRUE(posts(1u << 11));   // FLUSH
    EXPECT_TRUE(posts(1u << 12));   // ATOMIC_WRITE
    EXPECT_FALSE(posts(1u << 10));  // TSO
    EXPECT_EQ(extended.tso_caps.max_tso, 0u);
}

TEST_F(Capabilities, WhoItIs) {
    EXPECT_NE(attributes.node_guid, 0u);
    EXPECT_TRUE(has(IBV_DEVICE_SYS_IMAGE_GUID));
    EXPECT_NE(attributes.sys_image_guid, 0u);
    EXPECT_EQ(attributes.node_guid, ibv_get_device_guid(side.context->device));
    EXPECT_NE(attributes.fw_ver[0], '\0');
    EXPECT_EQ(attributes.vendor_id, 0x025642u);
    EXPECT_EQ(attributes.vendor_part_id, 1u);
    EXPECT_EQ(attributes.phys_port_cnt, 1);
    EXPECT_EQ(attributes.max_pkeys, 1);
    EXPECT_EQ(side.context->num_comp_vectors, sysconf(_SC_NPROCESSORS_ONLN));
}

TEST_F(Capabilities, Limits) {
    EXPECT_GE(attributes.max_qp, 65536);
    EXPECT_GE(attributes.max_qp_wr, 16384);
    EXPECT_GE(attributes.max_sge, 30);
    EXPECT_GE(attributes.max_sge_rd, 30);
    EXPECT_GE(attributes.max_cq, 65536);
    EXPECT_GE(attributes.max_cqe, 1 << 20);
    EXPECT_GE(attributes.max_mr, 100'000);
    EXPECT_GE(attributes.max_pd, 65536);
    EXPECT_GE(attributes.max_qp_rd_atom, 16);
    EXPECT_EQ(attributes.max_qp_init_rd_atom, attributes.max_qp_rd_atom);
    EXPECT_EQ(attributes.max_mr_size, UINT64_MAX);
    EXPECT_TRUE(attributes.page_size_cap & static_cast<unsigned>(getpagesize()));
    // The largest of everything at once works; one more of each is refused.
    ibv_qp_init_attr setup = side.setup();
    setup.cap.max_send_wr = setup.cap.max_recv_wr = static_cast<std::uint32_t>(attributes.max_qp_wr);
    setup.cap.max_send_sge = setup.cap.max_recv_sge = static_cast<std::uint32_t>(attributes.max_sge);
    setup.cap.max_inline_data = 0;
    EXPECT_TRUE(works([&] { return ibv_create_qp(side.pd, &setup); }, ibv_destroy_qp));
    for (std::uint32_t ibv_qp_cap::*member : {&ibv_qp_cap::max_send_wr, &ibv_qp_cap::max_recv_wr,
                                              &ibv_qp_cap::max_send_sge, &ibv_qp_cap::max_recv_sge}) {
        ibv_qp_init_attr more = setup;
        more.cap.*member += 1;
        EXPECT_TRUE(refused_null(EINVAL, [&] { return ibv_create_qp(side.pd, &more); }));
    }
}

TEST_F(Capabilities, ServicesOfQueuePairs) {
    EXPECT_TRUE(queue_pairs_of(IBV_QPT_RC));
    EXPECT_TRUE(queue_pairs_of(IBV_QPT_UC));
    EXPECT_TRUE(queue_pairs_of(IBV_QPT_UD));
    EXPECT_FALSE(queue_pairs_of(IBV_QPT_RAW_PACKET));
    EXPECT_EQ(extended.raw_packet_caps, 0u);
    EXPECT_TRUE(has(IBV_DEVICE_RC_RNR_NAK_GEN));
    EXPECT_TRUE(has(IBV_DEVICE_CURR_QP_STATE_MOD));
}

TEST_F(Capabilities, ExtendedReliableConnections) {
    ibv_xrcd_init_attr setup{};
    setup.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
    setup.fd = -1;
    setup.oflags = O_CREAT;
    EXPECT_EQ(has(IBV_DEVICE_XRC),
              works([&] { return ibv_open_xrcd(side.context, &setup); }, ibv_close_xrcd));
}

TEST_F(Capabilities, SharedReceiveQueues) {
    EXPECT_EQ(attributes.max_srq > 0, works([&] { return make_srq(4, 1); }, ibv_destroy_srq));
    if (attributes.max_srq == 0) return;
    const auto size = static_cast<std::uint32_t>(attributes.max_srq_wr);
    const auto sges = static_cast<std::uint32_t>(attributes.max_srq_sge);
    EXPECT_TRUE(works([&] { return make_srq(size, sges); }, ibv_destroy_srq));
    EXPECT_TRUE(refused_null(EINVAL, [&] { return make_srq(size + 1, 1); }));
    EXPECT_TRUE(refused_null(EINVAL, [&] { return make_srq(1, sges + 1); }));
    ibv_srq* srq = make_srq(4, 1);
    ibv_srq_attr larger{8, 1, 0};
    EXPECT_EQ(has(IBV_DEVICE_SRQ_RESIZE), answers(ibv_modify_srq(srq, &larger, IBV_SRQ_MAX_WR)));
    EXPECT_EQ(ibv_destroy_srq(srq), 0);
}

TEST_F(Capabilities, AddressHandles) {
    ibv_ah_attr to{};
    to.is_global = 1;
    to.port_num = 1;
    to.grh.dgid = side.gid();
    EXPECT_EQ(attributes.max_ah > 0, works([&] { return ibv_create_ah(side.pd, &to); }, ibv_destroy_ah));
    to.port_num = 2;
    EXPECT_EQ(ibv_create_ah(side.pd, &to), nullptr);
    EXPECT_EQ(errno, EINVAL);
}

TEST_F(Capabilities, Multicast) {
    ibv_qp_init_attr setup = side.setup();
    setup.qp_type = IBV_QPT_UD;
    ibv_qp* qp = ibv_create_qp(side.pd, &setup);
    ASSERT_NE(qp, nullptr);
    ibv_qp_attr init{};
    init.qp_state = IBV_QPS_INIT;
    init.port_num = 1;
    EXPECT_EQ(ibv_modify_qp(qp, &init, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY), 0);
    ibv_gid group{};
    group.raw[10] = group.raw[11] = 0xff;
    group.raw[12] = 239;
    group.raw[15] = 7;
    const bool attached = answers(ibv_attach_mcast(qp, &group, 0));
    EXPECT_EQ(attributes.max_mcast_grp > 0, attached);
    EXPECT_EQ(attributes.max_mcast_qp_attach > 0, attached);
    EXPECT_EQ(attributes.max_total_mcast_qp_attach > 0, attached);
    EXPECT_EQ(ibv_detach_mcast(qp, &group, 0) == 0, attached);
    EXPECT_EQ(ibv_destroy_qp(qp), 0);
}

TEST_F(Capabilities, MemoryWindows) {
    auto windows = [&](ibv_mw_type type) {
        return works([&] { return ibv_alloc_mw(side.pd, type); }, ibv_dealloc_mw);
    };
    EXPECT_EQ(has(IBV_DEVICE_MEM_WINDOW), windows(IBV_MW_TYPE_1));
    EXPECT_EQ(has(IBV_DEVICE_MEM_WINDOW_TYPE_2A | IBV_DEVICE_MEM_WINDOW_TYPE_2B), windows(IBV_MW_TYPE_2));
    EXPECT_FALSE(has(IBV_DEVICE_MEM_WINDOW_TYPE_2A) && has(IBV_DEVICE_MEM_WINDOW_TYPE_2B));
    EXPECT_EQ(attributes.max_mw > 0, has(IBV_DEVICE_MEM_WINDOW));
    // The extensions are windows of type 2, SEND with invalidate and local invalidates.
    EXPECT_EQ(has(IBV_DEVICE_MEM_MGT_EXTENSIONS),
              has(IBV_DEVICE_MEM_WINDOW_TYPE_2A | IBV_DEVICE_MEM_WINDOW_TYPE_2B));
}

TEST_F(Capabilities, DeviceMemory) {
    ibv_alloc_dm_attr setup{};
    setup.length = 4096;
    EXPECT_EQ(extended.max_dm_size > 0,
              works([&] { return ibv_alloc_dm(side.context, &setup); }, ibv_free_dm));
}

TEST_F(Capabilities, OnDemandPaging) {
    Memory memory(side.pd, 4096);
    const bool registers =
        works([&] { return ibv_reg_mr(side.pd, memory.data(), 4096, kAllAccess | IBV_ACCESS_ON_DEMAND); },
              ibv_dereg_mr);
    const ibv_odp_caps& caps = extended.odp_caps;
    EXPECT_EQ((caps.general_caps & IBV_ODP_SUPPORT) != 0, registers);
    if (!registers) return;
    const bool implicit =
        works([&] { return ibv_reg_mr(side.pd, nullptr, SIZE_MAX, kAllAccess | IBV_ACCESS_ON_DEMAND); },
              ibv_dereg_mr);
    EXPECT_EQ((caps.general_caps & IBV_ODP_SUPPORT_IMPLICIT) != 0, implicit);
    constexpr std::uint32_t kRc = IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV | IBV_ODP_SUPPORT_WRITE |
                                  IBV_ODP_SUPPORT_READ | IBV_ODP_SUPPORT_ATOMIC;
    EXPECT_EQ(caps.per_transport_caps.rc_odp_caps & kRc, kRc);
    EXPECT_EQ(caps.per_transport_caps.uc_odp_caps & IBV_ODP_SUPPORT_SEND, IBV_ODP_SUPPORT_SEND);
    EXPECT_EQ(caps.per_transport_caps.ud_odp_caps & IBV_ODP_SUPPORT_SEND, IBV_ODP_SUPPORT_SEND);
}

TEST_F(Capabilities, CompletionQueues) {
    EXPECT_EQ(extended.completion_timestamp_mask != 0,
              works([&] { return make_cq(IBV_WC_EX_WITH_COMPLETION_TIMESTAMP); }, destroy_cq));
    EXPECT_EQ(extended.completion_timestamp_mask != 0, extended.hca_core_clock != 0);
    ibv_values_ex values{};
    values.comp_mask = IBV_VALUES_MASK_RAW_CLOCK;
    EXPECT_EQ(extended.hca_core_clock != 0, answers(ibv_query_rt_values_ex(side.context, &values)));
    ibv_cq_ex* cq = make_cq(0);
    ASSERT_NE(cq, nullptr);
    ibv_modify_cq_attr moderation{};
    moderation.attr_mask = IBV_CQ_ATTR_MODERATE;
    moderation.moderate = {1, 1};
    EXPECT_EQ(extended.cq_mod_caps.max_cq_count, UINT16_MAX);
    EXPECT_EQ(extended.cq_mod_caps.max_cq_period, UINT16_MAX);
    EXPECT_EQ(ibv_modify_cq(ibv_cq_ex_to_cq(cq), &moderation), 0);
    EXPECT_EQ(destroy_cq(cq), 0);
}

TEST_F(Capabilities, Atomics) {
    EXPECT_EQ(attributes.atomic_cap, IBV_ATOMIC_GLOB);
    EXPECT_EQ(extended.pci_atomic_caps.fetch_add, 0);
    EXPECT_EQ(extended.pci_atomic_caps.swap, 0);
    EXPECT_EQ(extended.pci_atomic_caps.compare_swap, 0);
}

// What needs an adapter is not there, and the calls say so.
TEST_F(Capabilities, WhatIsNotThere) {
    EXPECT_FALSE(has(IBV_DEVICE_RAW_MULTI | IBV_DEVICE_AUTO_PATH_MIG | IBV_DEVICE_CHANGE_PHY_PORT |
                     IBV_DEVICE_SHUTDOWN_PORT | IBV_DEVICE_INIT_TYPE | IBV_DEVICE_UD_IP_CSUM |
                     IBV_DEVICE_RC_IP_CSUM | IBV_DEVICE_RAW_IP_CSUM | IBV_DEVICE_MANAGED_FLOW_STEERING |
                     IBV_DEVICE_BAD_PKEY_CNTR | IBV_DEVICE_BAD_QKEY_CNTR | IBV_DEVICE_N_NOTIFY_CQ |
                     IBV_DEVICE_RESIZE_MAX_WR));
    EXPECT_EQ(extended.tso_caps.max_tso, 0u);
    EXPECT_EQ(extended.rss_caps.supported_qpts, 0u);
    EXPECT_EQ(extended.rss_caps.max_rwq_indirection_tables, 0u);
    EXPECT_EQ(extended.max_wq_type_rq, 0u);
    EXPECT_EQ(extended.tm_caps.max_num_tags, 0u);
    EXPECT_EQ(extended.tm_caps.flags, 0u);
    ibv_flow_attr flow{};
    EXPECT_TRUE(refused_null(EOPNOTSUPP, [&] { return ibv_create_flow(side.qp, &flow); }));
    ibv_wq_init_attr queue{};
    queue.wq_type = IBV_WQT_RQ;
    queue.max_wr = queue.max_sge = 1;
    queue.pd = side.pd;
    queue.cq = side.receive_cq;
    EXPECT_TRUE(refused_null(EOPNOTSUPP, [&] { return ibv_create_wq(side.context, &queue); }));
    ibv_srq_init_attr_ex tags{};
    tags.attr = {4, 1, 0};
    tags.comp_mask =
        IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_CQ | IBV_SRQ_INIT_ATTR_TM;
    tags.srq_type = IBV_SRQT_TM;
    tags.pd = side.pd;
    tags.cq = side.receive_cq;
    tags.tm_cap = {4, 4};
    EXPECT_TRUE(refused_null(EOPNOTSUPP, [&] { return ibv_create_srq_ex(side.context, &tags); }));
    EXPECT_TRUE(refused_null(EOPNOTSUPP, [&] { return ibv_create_counters(side.context, nullptr); }));
}

TEST_F(Capabilities, Pacing) {
    const ibv_packet_pacing_caps& caps = extended.packet_pacing_caps;
    EXPECT_EQ(caps.supported_qpts, 1u << IBV_QPT_RC | 1u << IBV_QPT_UC | 1u << IBV_QPT_UD);
    EXPECT_GT(caps.qp_rate_limit_max, caps.qp_rate_limit_min);
    ibv_qp_rate_limit_attr limit{};
    EXPECT_TRUE(refused(EINVAL, [&] { return ibv_modify_qp_rate_limit(side.qp, &limit); })) << "in RESET";
    Pair pair;
    limit.rate_limit = 8000;  // kbit/s, a byte in a microsecond
    limit.max_burst_sz = 2000;
    ASSERT_EQ(ibv_modify_qp_rate_limit(pair.a.qp, &limit), 0);
    ibv_qp_attr got{};
    ibv_qp_init_attr setup;
    ASSERT_EQ(ibv_query_qp(pair.a.qp, &got, IBV_QP_RATE_LIMIT, &setup), 0);
    EXPECT_EQ(got.rate_limit, 8000u);
    Memory from(pair.a.pd, 20'000), to(pair.b.pd, 20'000);
    ibv_sge sge = from.sge(0, 20'000);
    const auto began = Clock::now();
    ASSERT_EQ(Request(1, IBV_WR_RDMA_WRITE, &sge, 1).to(to).post(pair.a.qp), 0);
    ASSERT_EQ(Request(2, IBV_WR_RDMA_WRITE, &sge, 1).to(to).post(pair.a.qp), 0);
    success(pair.a.send_cq);
    success(pair.a.send_cq);
    EXPECT_GE(Clock::now() - began, std::chrono::milliseconds(18)) << "nothing can make it faster";
    limit.comp_mask = 1;
    EXPECT_TRUE(refused(EINVAL, [&] { return ibv_modify_qp_rate_limit(pair.a.qp, &limit); }));
}

// Options of a vendor, of which there are none: the device's own are accepted, without any.
TEST_F(Capabilities, EnhancedConnectionEstablishment) {
    ibv_ece ece{1, 1, 1};
    ASSERT_EQ(ibv_query_ece(side.qp, &ece), 0);
    EXPECT_EQ(ece.vendor_id, attributes.vendor_id);
    EXPECT_EQ(ece.options, 0u);
    EXPECT_EQ(ece.comp_mask, 0u);
    ece.options = 0xff;
    ASSERT_EQ(ibv_set_ece(side.qp, &ece), 0);
    EXPECT_EQ(ece.options, 0u);
    ece = {0x15b3, 1, 0};  // of a peer of another vendor, with which NCCL goes on without it then
    EXPECT_TRUE(refused(EOPNOTSUPP, [&] { return ibv_set_ece(side.qp, &ece); }));
    ece = {attributes.vendor_id, 0, 1};
    EXPECT_TRUE(refused(EINVAL, [&] { return ibv_set_ece(side.qp, &ece); }));
    ece = {0, 0, 0};
    EXPECT_TRUE(refused(EOPNOTSUPP, [&] { return ibv_set_ece(side.qp, &ece); }));
}

TEST_F(Capabilities, ThePort) {
    ibv_port_attr port{};
    ASSERT_EQ(ibv_query_port(side.context, 1, &port), 0);
    EXPECT_EQ(port.state, IBV_PORT_ACTIVE);
    EXPECT_EQ(port.phys_state, 5);
    EXPECT_EQ(port.link_layer, IBV_LINK_LAYER_ETHERNET);
    EXPECT_EQ(port.max_mtu, IBV_MTU_4096);
    EXPECT_EQ(port.active_mtu, IBV_MTU_4096);
    EXPECT_EQ(port.port_cap_flags, static_cast<unsigned>(IBV_PORT_CM_SUP | IBV_PORT_IP_BASED_GIDS));
    EXPECT_EQ(port.pkey_tbl_len, 1);
    EXPECT_GE(port.gid_tbl_len, 16);
    EXPECT_EQ(port.max_msg_sz, 1u << 31);
    EXPECT_EQ(port.lid, 0);
    EXPECT_EQ(port.sm_lid, 0);
    EXPECT_EQ(port.flags, IBV_QPF_GRH_REQUIRED);
    // The function of older headers, whose structure ends with the flags.
    ibv_port_attr oldest{};
    ASSERT_EQ((ibv_query_port)(side.context, 1, reinterpret_cast<_compat_ibv_port_attr*>(&oldest)), 0);
    EXPECT_EQ(oldest.flags, IBV_QPF_GRH_REQUIRED);
}

}  // namespace
}  // namespace verbena::verbs_test
