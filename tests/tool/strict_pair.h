/* Two connected RC queue pairs in one process, as in two_ends.c, for programs that strict mode looks at.
 * DEVICE=name for another device than the loopback interface's. */
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define BYTES 65536

static struct ibv_context* context;
static struct ibv_pd* pd;
static struct ibv_mr* mr;
static struct ibv_comp_channel* channel;
static struct ibv_cq *send_cq, *receive_cq;
static struct ibv_qp *left, *right_qp;
static char* memory;

static void die(const char* what) {
    perror(what);
    exit(3);
}

static struct ibv_qp* make(void) {
    struct ibv_qp_init_attr init = {.send_cq = send_cq,
                                    .recv_cq = receive_cq,
                                    .qp_type = IBV_QPT_RC,
                                    .cap = {.max_send_wr = 8,
                                            .max_recv_wr = 16,
                                            .max_send_sge = 1,
                                            .max_recv_sge = 1,
                                            .max_inline_data = 64}};
    struct ibv_qp* qp = ibv_create_qp(pd, &init);
    if (!qp) die("ibv_create_qp");
    return qp;
}

static void join(struct ibv_qp* qp, struct ibv_qp* to, union ibv_gid gid) {
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = IBV_ACCESS_REMOTE_WRITE};
    if (ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS))
        die("INIT");
    attr = (struct ibv_qp_attr){
        .qp_state = IBV_QPS_RTR,
        .path_mtu = IBV_MTU_1024,
        .dest_qp_num = to->qp_num,
        .max_dest_rd_atomic = 1,
        .min_rnr_timer = 20,
        .ah_attr = {.is_global = 1, .port_num = 1, .grh = {.dgid = gid, .hop_limit = 64}}};
    if (ibv_modify_qp(qp, &attr,
                      IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                          IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER))
        die("RTR");
    attr = (struct ibv_qp_attr){
        .qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 1};
    if (ibv_modify_qp(qp, &attr,
                      IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                          IBV_QP_MAX_QP_RD_ATOMIC))
        die("RTS");
}

static void set_up(int entries) {
    int count;
    struct ibv_device** list = ibv_get_device_list(&count);
    for (int i = 0; i < count; i++)
        if (!strcmp(ibv_get_device_name(list[i]), getenv("DEVICE") ? getenv("DEVICE") : "verbena_lo"))
            context = ibv_open_device(list[i]);
    ibv_free_device_list(list);
    if (!context || !(pd = ibv_alloc_pd(context))) die("device");
    memory = mmap(0, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    mr = ibv_reg_mr(pd, memory, BYTES, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    channel = ibv_create_comp_channel(context);
    send_cq = ibv_create_cq(context, 64, 0, 0, 0);
    receive_cq = ibv_create_cq(context, entries, 0, channel, 0);
    if (!mr || !channel || !send_cq || !receive_cq) die("objects");
    union ibv_gid gid;
    ibv_query_gid(context, 1, 0, &gid);
    left = make();
    right_qp = make();
    join(left, right_qp, gid);
    join(right_qp, left, gid);
}

static void tear_down(void) {
    if (left) ibv_destroy_qp(left);
    if (right_qp) ibv_destroy_qp(right_qp);
    ibv_destroy_cq(send_cq);
    ibv_destroy_cq(receive_cq);
    ibv_destroy_comp_channel(channel);
    if (mr) ibv_dereg_mr(mr);
    ibv_dealloc_pd(pd);
    ibv_close_device(context);
}

static int receive(uint64_t wr_id, size_t offset, uint32_t length) {
    struct ibv_sge sge = {(uintptr_t)memory + offset, length, mr->lkey};
    struct ibv_recv_wr wr = {.wr_id = wr_id, .sg_list = &sge, .num_sge = 1}, *bad;
    return ibv_post_recv(right_qp, &wr, &bad);
}

static int send_it(uint64_t wr_id, size_t offset, uint32_t length, uint32_t lkey, int flags) {
    struct ibv_sge sge = {(uintptr_t)memory + offset, length, lkey};
    struct ibv_send_wr wr = {.wr_id = wr_id,
                             .sg_list = &sge,
                             .num_sge = 1,
                             .opcode = IBV_WR_SEND,
                             .send_flags = flags},
                       *bad;
    return ibv_post_send(left, &wr, &bad);
}

static struct ibv_wc take(struct ibv_cq* cq) {
    struct ibv_wc wc;
    while (ibv_poll_cq(cq, 1, &wc) == 0) usleep(10);
    return wc;
}

static int one_sided(struct ibv_qp* qp, uint64_t wr_id, uint32_t lkey, enum ibv_wr_opcode opcode,
                     size_t offset) {
    struct ibv_sge sge = {(uintptr_t)memory + offset, 8, lkey};
    struct ibv_send_wr wr = {.wr_id = wr_id,
                             .sg_list = &sge,
                             .num_sge = 1,
                             .opcode = opcode,
                             .send_flags = IBV_SEND_SIGNALED},
                       *bad;
    wr.wr.rdma.remote_addr = (uintptr_t)memory + BYTES / 2;
    wr.wr.rdma.rkey = mr->rkey;
    return ibv_post_send(qp, &wr, &bad);
}
