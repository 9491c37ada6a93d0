// What the scale tests share: a device, and a queue pair brought up to RTS.
#pragma once

#include <infiniband/verbs.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace verbena::scale {

[[noreturn]] inline void fail(const char* what) {
    std::fprintf(stderr, "%s: %s\n", what, std::strerror(errno));
    std::exit(1);
}

struct Device {
    ibv_context* context = nullptr;
    ibv_pd* pd = nullptr;
    ibv_comp_channel* channel = nullptr;
    ibv_cq* cq = nullptr;
    ibv_gid gid{};

    explicit Device(unsigned completions, bool with_channel = false) {
        int devices = 0;
        ibv_device** list = ibv_get_device_list(&devices);
        if (!list || devices == 0) fail("no device");
        context = ibv_open_device(list[0]);
        ibv_free_device_list(list);
        if (!context || !(pd = ibv_alloc_pd(context))) fail("ibv_open_device");
        if (with_channel && !(channel = ibv_create_comp_channel(context))) fail("ibv_create_comp_channel");
        cq = ibv_create_cq(context, static_cast<int>(completions), nullptr, channel, 0);
        if (!cq) fail("ibv_create_cq");
        if (ibv_query_gid(context, 1, 0, &gid)) fail("ibv_query_gid");
    }
    ibv_mr* register_memory(void* memory, std::size_t size, int access = IBV_ACCESS_LOCAL_WRITE) const {
        ibv_mr* region = ibv_reg_mr(pd, memory, size, access);
        if (!region) fail("ibv_reg_mr");
        return region;
    }
    ibv_qp* create_qp(std::uint32_t depth = 4) const {
        ibv_qp_init_attr attr{};
        attr.qp_type = IBV_QPT_RC;
        attr.send_cq = attr.recv_cq = cq;
        attr.cap = {depth, depth, 1, 1, 0};
        ibv_qp* qp = ibv_create_qp(pd, &attr);
        if (!qp) fail("ibv_create_qp");
        return qp;
    }
};

// reads: how many may be outstanding, of each side.
inline void connect(ibv_qp* qp, const ibv_gid& gid, std::uint32_t peer, std::uint8_t reads = 1) {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_INIT;
    attr.port_num = 1;
    attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
    if (ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS))
        fail("to INIT");
    attr.qp_state = IBV_QPS_RTR;
    attr.path_mtu = IBV_MTU_1024;
    attr.dest_qp_num = peer;
    attr.max_dest_rd_atomic = reads;
    attr.min_rnr_timer = 12;
    attr.ah_attr.is_global = 1;
    attr.ah_attr.grh.dgid = gid;
    attr.ah_attr.grh.hop_limit = 64;
    attr.ah_attr.port_num = 1;
    if (ibv_modify_qp(qp, &attr,
                      IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                          IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER))
        fail("to RTR");
    attr.qp_state = IBV_QPS_RTS;
    attr.timeout =
        17;  // 0.5 s: where five hundred processes share a processor, a partner may wait long for it
    attr.retry_cnt = attr.rnr_retry = 7;
    attr.max_rd_atomic = reads;
    if (ibv_modify_qp(qp, &attr,
                      IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                          IBV_QP_MAX_QP_RD_ATOMIC))
        fail("to RTS");
}

inline void post_receive(ibv_qp* qp, ibv_sge sge, std::uint64_t wr_id = 0) {
    ibv_recv_wr wr{}, *bad;
    wr.wr_id = wr_id;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    if (ibv_post_recv(qp, &wr, &bad)) fail("ibv_post_recv");
}

// Where in the peer's memory.
struct Remote {
    std::uint64_t address = 0;
    std::uint32_t rkey = 0;
};

// A SEND, WRITE, READ, or a FetchAdd of one.
inline void post_send(ibv_qp* qp, ibv_sge sge, ibv_wr_opcode opcode = IBV_WR_SEND, Remote remote = {},
                      std::uint64_t wr_id = 0) {
    ibv_send_wr wr{}, *bad;
    wr.wr_id = wr_id;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.opcode = opcode;
    wr.send_flags = IBV_SEND_SIGNALED;
    if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
        wr.wr.atomic.remote_addr = remote.address;
        wr.wr.atomic.rkey = remote.rkey;
        wr.wr.atomic.compare_add = 1;
    } else {
        wr.wr.rdma.remote_addr = remote.address;
        wr.wr.rdma.rkey = remote.rkey;
    }
    if (ibv_post_send(qp, &wr, &bad)) fail("ibv_post_send");
}

// Up to so many completions, all of them successes.
inline int take_completions(ibv_cq* cq, ibv_wc* completions, int most) {
    const int count = ibv_poll_cq(cq, most, completions);
    if (count < 0) fail("ibv_poll_cq");
    for (int i = 0; i < count; i++)
        if (completions[i].status != IBV_WC_SUCCESS) {
            std::fprintf(stderr, "a request ended with %s\n", ibv_wc_status_str(completions[i].status));
            std::exit(1);
        }
    return count;
}

inline ibv_sge word(std::uint64_t& value, const ibv_mr* region) {
    return {reinterpret_cast<std::uintptr_t>(&value), sizeof value, region->lkey};
}

}  // namespace verbena::scale
