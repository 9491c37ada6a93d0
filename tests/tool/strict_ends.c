/* Mistakes on purpose, and the same without them, for `verbena run --strict`: strict_ends WORD [right]. Two connected RC
 * queue pairs in one process, as in two_ends.c. DEVICE=name for another device than the loopback interface's. */
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
static int right;

static void die(const char* what) {
    perror(what);
    exit(3);
}

static struct ibv_qp* make(void) {
    struct ibv_qp_init_attr init = {.send_cq = send_cq, .recv_cq = receive_cq, .qp_type = IBV_QPT_RC,
                                    .cap = {.max_send_wr = 8, .max_recv_wr = 16, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = 64}};
    struct ibv_qp* qp = ibv_create_qp(pd, &init);
    if (!qp) die("ibv_create_qp");
    return qp;
}

static void join(struct ibv_qp* qp, struct ibv_qp* to, union ibv_gid gid) {
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = IBV_ACCESS_REMOTE_WRITE};
    if (ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS)) die("INIT");
    attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = to->qp_num,
                                .max_dest_rd_atomic = 1, .min_rnr_timer = 20,
                                .ah_attr = {.is_global = 1, .port_num = 1, .grh = {.dgid = gid, .hop_limit = 64}}};
    if (ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                                     IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER))
        die("RTR");
    attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 1};
    if (ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                                     IBV_QP_MAX_QP_RD_ATOMIC))
        die("RTS");
}

static void set_up(int entries) {
    int count;
    struct ibv_device** list = ibv_get_device_list(&count);
    for (int i = 0; i < count; i++)
        if (!strcmp(ibv_get_device_name(list[i]), getenv("DEVICE") ? getenv("DEVICE") : "verbena_lo")) context = ibv_open_device(list[i]);
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
    ibv_destroy_qp(left);
    ibv_destroy_qp(right_qp);
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
    struct ibv_send_wr wr = {.wr_id = wr_id, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = flags}, *bad;
    return ibv_post_send(left, &wr, &bad);
}

static struct ibv_wc take(struct ibv_cq* cq) {
    struct ibv_wc wc;
    while (ibv_poll_cq(cq, 1, &wc) == 0) usleep(10);
    return wc;
}

static void changed(void) {
    set_up(16);
    receive(1, 4096, 64);
    send_it(2, 0, 64, mr->lkey, IBV_SEND_SIGNALED | (right ? IBV_SEND_INLINE : 0));
    memory[63] = 7;  /* inline data was copied */
    take(send_cq);
    take(receive_cq);
    tear_down();
}

static void overlap(void) {
    set_up(16);
    receive(1, 0, 128);
    receive(2, right ? 128 : 64, 128);
    tear_down();
}

static void twice(void) {
    set_up(16);
    receive(1, 0, 64);
    receive(2, 64, 64);
    receive(right ? 3 : 2, right ? 128 : 64, 64);
    tear_down();
}

static void region(void) {
    set_up(16);
    receive(1, 0, 64);
    if (right) {
        send_it(2, 4096, 64, mr->lkey, IBV_SEND_SIGNALED);
        take(send_cq);
        take(receive_cq);
    }
    ibv_dereg_mr(mr);
    mr = 0;
    tear_down();
}

static void key(void) {
    set_up(16);
    struct ibv_mr* other = ibv_reg_mr(pd, memory, 4096, 0);
    uint32_t lkey = other->lkey;
    receive(1, 4096, 64);
    if (!right) ibv_dereg_mr(other);
    send_it(2, 0, 64, lkey, IBV_SEND_SIGNALED);
    take(send_cq);
    if (right) ibv_dereg_mr(other);
    tear_down();
}

static void unmapped(void) {
    set_up(16);
    if (right) send_it(2, 4096, 0, mr->lkey, 0);
    else munmap(memory + 32768, 4096);
    receive(1, right ? 32768 : 32768, 64);
    tear_down();
}

static void overrun(void) {
    set_up(right ? 16 : 8);
    int count = right ? 12 : receive_cq->cqe + 1;  /* some adapters round up */
    for (int i = 0; i < count; i++) receive(i, 64 * i, 64);
    tear_down();
}

static void unsignaled(void) {
    set_up(64);
    for (int i = 0; i < 16; i++) receive(i, 4096 + 64 * i, 64);
    for (int i = 0; i < 12; i++) {
        int last = right && i % 4 == 3;
        if (send_it(i, 0, 8, mr->lkey, last ? IBV_SEND_SIGNALED : 0)) break;
        if (last) take(send_cq);
    }
    tear_down();
}

static void unacknowledged(void) {
    struct ibv_cq* cq;
    void* ignored;
    set_up(16);
    receive(1, 4096, 64);
    ibv_req_notify_cq(receive_cq, 0);
    send_it(2, 0, 8, mr->lkey, IBV_SEND_SIGNALED);
    ibv_get_cq_event(channel, &cq, &ignored);
    if (right) ibv_ack_cq_events(cq, 1);
    take(receive_cq);
    take(send_cq);
    tear_down();
}

static void async_event(void) {
    struct ibv_async_event event;
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_SQD, .en_sqd_async_notify = 1};
    set_up(16);
    if (ibv_modify_qp(left, &attr, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY) || ibv_get_async_event(context, &event))
        die("IBV_EVENT_SQ_DRAINED");
    if (right) ibv_ack_async_event(&event);
    tear_down();
}

static void cm_event(void) {
    struct rdma_event_channel* events = rdma_create_event_channel();
    struct rdma_cm_id* id;
    struct rdma_cm_event* event;
    struct rdma_addrinfo* info;
    if (rdma_create_id(events, &id, 0, RDMA_PS_TCP) || rdma_getaddrinfo("127.0.0.1", "7499", 0, &info) ||
        rdma_resolve_addr(id, 0, info->ai_dst_addr, 1000) || rdma_get_cm_event(events, &event))
        die("rdma_resolve_addr");
    rdma_freeaddrinfo(info);
    if (right) rdma_ack_cm_event(event);
    rdma_destroy_id(id);
    if (!right) rdma_ack_cm_event(event);  /* too late, and harmless under strict mode */
    rdma_destroy_event_channel(events);
}

static void leak(void) {
    set_up(16);
    if (right) return tear_down();
    for (int i = 0; i < 3; i++) ibv_alloc_pd(context);
}

static void poison(void) {
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
    set_up(16);
    receive(1, 0, 64);
    ibv_modify_qp(right_qp, &attr, IBV_QP_STATE);
    struct ibv_wc wc = take(receive_cq);
    printf("status %d wr_id %d opcode 0x%x byte_len 0x%x\n", wc.status, (int)wc.wr_id, wc.opcode, wc.byte_len);
    tear_down();
}

static void poison_extended(void) {
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
    struct ibv_poll_cq_attr poll_attr = {0};
    set_up(16);
    struct ibv_cq_init_attr_ex init = {.cqe = 16, .wc_flags = IBV_WC_EX_WITH_BYTE_LEN | IBV_WC_EX_WITH_IMM | IBV_WC_EX_WITH_SRC_QP};
    struct ibv_cq_ex* cq = ibv_create_cq_ex(context, &init);
    if (!cq) die("ibv_create_cq_ex");
    receive_cq = ibv_cq_ex_to_cq(cq);
    struct ibv_qp* qp = make();
    attr.qp_state = IBV_QPS_INIT;
    attr.port_num = 1;
    if (ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS)) die("INIT");
    struct ibv_sge sge = {(uintptr_t)memory, 64, mr->lkey};
    struct ibv_recv_wr wr = {.wr_id = 7, .sg_list = &sge, .num_sge = 1}, *bad;
    if (ibv_post_recv(qp, &wr, &bad)) die("ibv_post_recv");
    attr.qp_state = IBV_QPS_ERR;
    if (ibv_modify_qp(qp, &attr, IBV_QP_STATE)) die("ERR");
    while (ibv_start_poll(cq, &poll_attr)) {
    }
    printf("status %d wr_id %d opcode 0x%x byte_len 0x%x imm_data 0x%x src_qp 0x%x\n", cq->status, (int)cq->wr_id,
           ibv_wc_read_opcode(cq), ibv_wc_read_byte_len(cq), ibv_wc_read_imm_data(cq), ibv_wc_read_src_qp(cq));
    ibv_end_poll(cq);
    exit(0);
}

int main(int argc, char** argv) {
    static const struct {
        const char* word;
        void (*run)(void);
    } all[] = {{"changed", changed}, {"overlap", overlap}, {"twice", twice}, {"region", region}, {"key", key},
               {"unmapped", unmapped}, {"overrun", overrun}, {"unsignaled", unsignaled}, {"unacknowledged", unacknowledged},
               {"cm_event", cm_event}, {"async_event", async_event}, {"leak", leak}, {"poison", poison}, {"poison_extended", poison_extended}};
    right = argc > 2;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (argc > 1 && !strcmp(argv[1], all[i].word)) return all[i].run(), 0;
    return 2;
}
