// Datagrams: UD queue pairs, address handles, multicast groups, and what is refused.
#include "harness.h"

namespace verbena::verbs_test {
namespace {

constexpr std::uint32_t kGrh = sizeof(ibv_grh);

Options datagram() {
    Options options;
    options.type = IBV_QPT_UD;
    options.connect = false;
    return options;
}

ibv_gid group(std::uint8_t last) {
    ibv_gid gid{};
    gid.raw[10] = gid.raw[11] = 0xff;
    gid.raw[12] = 239;
    gid.raw[13] = 9;
    gid.raw[15] = last;
    return gid;
}

struct Datagrams : testing::Test {
    Datagrams() : a(datagram()), b(datagram()), from(a.pd, 8192), to(b.pd, 8192) {
        EXPECT_EQ(start_datagrams(a.qp, kQkey), 0);
        EXPECT_EQ(start_datagrams(b.qp, kQkey), 0);
        from.fill(1);
    }
    ~Datagrams() override {
        for (ibv_ah* ah : handles) EXPECT_EQ(ibv_destroy_ah(ah), 0);
    }

    ibv_ah_attr address(const ibv_gid& gid) const {
        ibv_ah_attr attr{};
        attr.is_global = 1;
        attr.port_num = 1;
        attr.grh.dgid = gid;
        return attr;
    }
    ibv_ah* handle(const ibv_gid& gid) {
        ibv_ah_attr attr = address(gid);
        ibv_ah* ah = ibv_create_ah(a.pd, &attr);
        if (ah)
            handles.push_back(ah);
        else
            ADD_FAILURE() << "ibv_create_ah: " << std::strerror(errno);
        return ah;
    }
    int send(ibv_ah* ah, std::uint32_t qpn, std::uint32_t length, ibv_wr_opcode operation = IBV_WR_SEND,
             std::uint32_t qkey = kQkey) {
        ibv_sge sge = from.sge(0, length);
        Request request(7, operation, &sge, length ? 1 : 0);
        request.imm_data = 0x12345678;
        request.wr.ud = {ah, qpn, qkey};
        return request.post(a.qp);
    }
    // What was sent before has arrived or is gone: one to the sender itself comes behind it.
    void settle() {
        ASSERT_EQ(a.post_receive(98, from.sge(2048, kGrh)), 0);
        ASSERT_EQ(send(handle(a.gid()), a.qp->qp_num, 0), 0);
        EXPECT_EQ(success(a.receive_cq).wr_id, 98u);
    }
    // The next one arrives.
    void next_arrives(ibv_ah* ah) {
        ASSERT_EQ(b.post_receive(99, to.sge(4096, kGrh)), 0);
        ASSERT_EQ(send(ah, b.qp->qp_num, 0), 0);
        EXPECT_EQ(success(b.receive_cq).wr_id, 99u);
    }

    Side a, b;
    Memory from, to;
    std::vector<ibv_ah*> handles;
};

TEST_F(Datagrams, ArriveBehindTheHeader) {
    ibv_ah* ah = handle(b.gid());
    ASSERT_EQ(b.post_receive(5, to.sge(0, 1000)), 0);
    ASSERT_EQ(send(ah, b.qp->qp_num, 300, IBV_WR_SEND_WITH_IMM), 0);
    EXPECT_EQ(success(a.send_cq).opcode, IBV_WC_SEND);
    ibv_wc wc = success(b.receive_cq);
    EXPECT_EQ(wc.wr_id, 5u);
    EXPECT_EQ(wc.byte_len, 300 + kGrh);
    EXPECT_EQ(wc.src_qp, a.qp->qp_num);
    EXPECT_EQ(wc.qp_num, b.qp->qp_num);
    EXPECT_EQ(wc.wc_flags, unsigned{IBV_WC_GRH | IBV_WC_WITH_IMM});
    EXPECT_EQ(wc.imm_data, 0x12345678u);
    EXPECT_TRUE(to.holds(1, 300, kGrh));
}

TEST_F(Datagrams, TheAnswerFindsTheSender) {
    ASSERT_EQ(b.post_receive(5, to.sge(0, 1000)), 0);
    ASSERT_EQ(send(handle(b.gid()), b.qp->qp_num, 10), 0);
    ibv_wc wc = success(b.receive_cq);
    auto* grh = reinterpret_cast<ibv_grh*>(to.data());
    ibv_ah_attr attr;
    ASSERT_EQ(ibv_init_ah_from_wc(b.context, 1, &wc, grh, &attr), 0);
    EXPECT_EQ(attr.is_global, 1);
    EXPECT_EQ(attr.grh.hop_limit, 64);
    const ibv_gid sender = a.gid();
    EXPECT_EQ(std::memcmp(&attr.grh.dgid, &sender, sizeof sender), 0);
    ibv_ah* back = ibv_create_ah_from_wc(b.pd, &wc, grh, 1);
    ASSERT_TRUE(back);

    ASSERT_EQ(a.post_receive(6, from.sge(1024, 100)), 0);
    Request request(8, IBV_WR_SEND, nullptr, 0);
    request.wr.ud = {back, wc.src_qp, kQkey};
    ASSERT_EQ(request.post(b.qp), 0);
    EXPECT_EQ(success(a.receive_cq).wr_id, 6u);
    EXPECT_EQ(ibv_destroy_ah(back), 0);

    EXPECT_TRUE(
        refused_minus_one(EINVAL, [&] { return ibv_init_ah_from_wc(b.context, 2, &wc, grh, &attr); }));
    to.data()[kGrh - 1] ^= 1;  // the IPv4 header's checksum is wrong now, and nothing looks like IPv6
    EXPECT_TRUE(refused_null(EPROTONOSUPPORT, [&] { return ibv_create_ah_from_wc(b.pd, &wc, grh, 1); }));
}

TEST_F(Datagrams, AreDroppedWithoutAReceiveOrWithAWrongKey) {
    ibv_ah* ah = handle(b.gid());
    ASSERT_EQ(send(ah, b.qp->qp_num, 10), 0);
    settle();
    EXPECT_TRUE(empty(b.receive_cq));
    next_arrives(ah);
    ASSERT_EQ(b.post_receive(5, to.sge(0, 1000)), 0);
    ASSERT_EQ(send(ah, b.qp->qp_num, 10, IBV_WR_SEND, kQkey + 1), 0);
    ASSERT_EQ(send(ah, b.qp->qp_num, 20, IBV_WR_SEND, 0x80000000), 0);  // the sender's own key
    EXPECT_EQ(success(b.receive_cq).byte_len, 20 + kGrh);
}

TEST_F(Datagrams, PostsThatAreRefused) {
    ibv_ah* ah = handle(b.gid());
    const std::uint32_t qpn = b.qp->qp_num;
    EXPECT_TRUE(refused(EINVAL, [&] { return send(nullptr, qpn, 1); }));
    EXPECT_TRUE(refused(EINVAL, [&] { return send(ah, 0x1000000, 1); }));
    EXPECT_TRUE(refused(EINVAL, [&] { return send(ah, qpn, 1, IBV_WR_RDMA_WRITE); }));
    EXPECT_TRUE(refused(EINVAL, [&] { return send(ah, qpn, 1, IBV_WR_RDMA_READ); }));
    EXPECT_TRUE(refused(EINVAL, [&] { return send(ah, qpn, 1, IBV_WR_ATOMIC_FETCH_AND_ADD); }));
    ibv_pd* other = ibv_alloc_pd(a.context);
    ibv_ah_attr attr = address(b.gid());
    ibv_ah* foreign = ibv_create_ah(other, &attr);
    ASSERT_TRUE(foreign);
    EXPECT_TRUE(refused(EINVAL, [&] { return send(foreign, qpn, 1); }));
    EXPECT_EQ(ibv_destroy_ah(foreign), 0);
    EXPECT_EQ(ibv_dealloc_pd(other), 0);
    EXPECT_EQ(a.state(), IBV_QPS_RTS);
}

TEST_F(Datagrams, LongerThanThePortTakes) {
    ibv_ah* ah = handle(b.gid());
    ASSERT_EQ(b.post_receive(5, to.sge(0, 4096 + kGrh)), 0);
    ASSERT_EQ(send(ah, b.qp->qp_num, 4096), 0);
    success(a.send_cq);
    EXPECT_EQ(success(b.receive_cq).byte_len, 4096 + kGrh);
    EXPECT_TRUE(to.holds(1, 4096, kGrh));
    ASSERT_EQ(send(ah, b.qp->qp_num, 4097), 0);
    EXPECT_EQ(completion(a.send_cq).status, IBV_WC_LOC_LEN_ERR);
    EXPECT_EQ(a.state(), IBV_QPS_SQE);
    ibv_qp_attr again{};
    again.qp_state = IBV_QPS_RTS;
    ASSERT_EQ(ibv_modify_qp(a.qp, &again, IBV_QP_STATE), 0);
    next_arrives(ah);
}

TEST_F(Datagrams, AReceiveThatIsTooSmallEndsInAnError) {
    ASSERT_EQ(b.post_receive(5, to.sge(0, kGrh + 9)), 0);
    ASSERT_EQ(send(handle(b.gid()), b.qp->qp_num, 10), 0);
    EXPECT_EQ(completion(b.receive_cq).status, IBV_WC_LOC_LEN_ERR);
    EXPECT_EQ(b.state(), IBV_QPS_ERR);
}

TEST_F(Datagrams, AddressHandlesThatAreRefused) {
    const auto refuse = [&](const std::function<void(ibv_ah_attr&)>& change) {
        ibv_ah_attr attr = address(b.gid());
        change(attr);
        return refused_null(EINVAL, [&] { return ibv_create_ah(a.pd, &attr); });
    };
    EXPECT_TRUE(refuse([](ibv_ah_attr& attr) { attr.is_global = 0; }));
    EXPECT_TRUE(refuse([](ibv_ah_attr& attr) { attr.port_num = 2; }));
    EXPECT_TRUE(refuse([](ibv_ah_attr& attr) { attr.grh.sgid_index = 63; }));
    EXPECT_TRUE(refuse([](ibv_ah_attr& attr) { attr.grh.dgid = {}; }));
    EXPECT_TRUE(refuse([](ibv_ah_attr& attr) { attr.grh.dgid.raw[10] = 0; }));  // IPv6, from an IPv4 GID
}

TEST_F(Datagrams, AGroupReachesItsMembersOnly) {
    const ibv_gid one = group(1), two = group(2);
    ibv_ah* ah = handle(one);
    Side c(datagram());
    Memory memory(c.pd, 4096);
    ASSERT_EQ(start_datagrams(c.qp, kQkey), 0);
    ASSERT_EQ(ibv_attach_mcast(a.qp, &one, 0), 0);
    ASSERT_EQ(ibv_attach_mcast(b.qp, &one, 0), 0);
    ASSERT_EQ(ibv_attach_mcast(b.qp, &one, 0), 0);  // counts once
    ASSERT_EQ(ibv_attach_mcast(c.qp, &two, 0), 0);
    ASSERT_EQ(a.post_receive(3, from.sge(4096, 1000)), 0);
    ASSERT_EQ(b.post_receive(4, to.sge(0, 1000)), 0);
    ASSERT_EQ(b.post_receive(5, to.sge(1000, 1000)), 0);
    ASSERT_EQ(c.post_receive(6, memory.sge(0, 1000)), 0);
    ASSERT_EQ(send(ah, 0xffffff, 100), 0);
    ibv_wc wc = success(b.receive_cq);
    EXPECT_EQ(wc.wr_id, 4u);
    EXPECT_EQ(wc.src_qp, a.qp->qp_num);
    EXPECT_TRUE(to.holds(1, 100, kGrh));
    EXPECT_EQ(success(a.receive_cq).wr_id, 3u) << "the sender is a member, too";
    // To the other group, to see that nothing came there before.
    ASSERT_EQ(send(handle(two), 0xffffff, 50), 0);
    EXPECT_EQ(success(c.receive_cq).byte_len, 50 + kGrh);

    ASSERT_EQ(ibv_detach_mcast(b.qp, &one, 0), 0);
    ASSERT_EQ(a.post_receive(7, from.sge(4096, 1000)), 0);
    ASSERT_EQ(send(ah, 0xffffff, 100), 0);
    EXPECT_EQ(success(a.receive_cq).wr_id, 7u);
    EXPECT_TRUE(empty(b.receive_cq));
    EXPECT_EQ(ibv_detach_mcast(a.qp, &one, 0), 0);
    EXPECT_EQ(ibv_detach_mcast(c.qp, &two, 0), 0);
}

TEST_F(Datagrams, MoreGroupsThanASocketMayJoin) {
    constexpr std::uint8_t kGroups = 30;  // net.ipv4.igmp_max_memberships is 20
    for (std::uint8_t i = 1; i <= kGroups; i++) {
        const ibv_gid gid = group(i);
        ASSERT_EQ(ibv_attach_mcast(b.qp, &gid, 0), 0) << unsigned{i};
        ASSERT_EQ(b.post_receive(i, to.sge(0, 1000)), 0);
        ASSERT_EQ(send(handle(gid), 0xffffff, i), 0);
        EXPECT_EQ(success(b.receive_cq).byte_len, i + kGrh);
    }
    EXPECT_TRUE(refused(EBUSY, [&] { return ibv_destroy_qp(b.qp); }));
    for (std::uint8_t i = 1; i <= kGroups; i++) {
        const ibv_gid gid = group(i);
        EXPECT_EQ(ibv_detach_mcast(b.qp, &gid, 0), 0);
    }
}

TEST_F(Datagrams, GroupsThatAreRefused) {
    const ibv_gid good = group(1), bad = b.gid();
    EXPECT_TRUE(refused(EINVAL, [&] { return ibv_attach_mcast(b.qp, &bad, 0); }));
    EXPECT_TRUE(refused(EINVAL, [&] { return ibv_detach_mcast(b.qp, &good, 0); }));
    Options connected;
    connected.connect = false;
    Side rc(connected);
    EXPECT_TRUE(refused(EINVAL, [&] { return ibv_attach_mcast(rc.qp, &good, 0); }));
    ibv_device_attr device;
    ASSERT_EQ(ibv_query_device(b.context, &device), 0);
    EXPECT_GE(device.max_mcast_grp, 30);
    EXPECT_GT(device.max_mcast_qp_attach, 1);
    EXPECT_GT(device.max_ah, 1);
}

}  // namespace
}  // namespace verbena::verbs_test
