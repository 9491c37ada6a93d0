/* Mistakes on purpose, and the same without them, for `verbena run --strict`: strict_ends WORD [right]. See
 * strict_pair.h. */
#include <pthread.h>
#include <rdma/rsocket.h>
#include <semaphore.h>

#include "strict_pair.h"

static int right;

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

static void read_key(void) {
    set_up(16);
    struct ibv_mr* other = ibv_reg_mr(pd, memory, 4096, IBV_ACCESS_LOCAL_WRITE);
    uint32_t lkey = other->lkey;
    if (!right) ibv_dereg_mr(other);
    one_sided(left, 1, lkey, IBV_WR_RDMA_READ, 0);
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

static void extended_overrun(void) {
    struct ibv_cq_init_attr_ex init = {.cqe = right ? 16 : 4};
    set_up(16);
    ibv_destroy_qp(left);
    ibv_destroy_qp(right_qp);
    ibv_destroy_cq(receive_cq);
    struct ibv_cq_ex* cq = ibv_create_cq_ex(context, &init);
    if (!cq) die("ibv_create_cq_ex");
    receive_cq = ibv_cq_ex_to_cq(cq);
    left = make();
    right_qp = make();
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1};
    if (ibv_modify_qp(right_qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS)) die("INIT");
    int count = right ? 12 : receive_cq->cqe + 1;
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

static struct ibv_cq* take_event(void) {
    struct ibv_cq* cq;
    void* ignored;
    receive(1, 4096, 64);
    ibv_req_notify_cq(receive_cq, 0);
    send_it(2, 0, 8, mr->lkey, IBV_SEND_SIGNALED);
    ibv_get_cq_event(channel, &cq, &ignored);
    take(receive_cq);
    take(send_cq);
    return cq;
}

static void unacknowledged(void) {
    set_up(16);
    struct ibv_cq* cq = take_event();
    if (right) ibv_ack_cq_events(cq, 1);
    tear_down();
}

/* The thread that rsockets have acknowledges nothing either. */
static void beside_rsockets(void) {
    struct sockaddr_in here = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = rsocket(AF_INET, SOCK_STREAM, 0);
    if (fd < 0 || rbind(fd, (struct sockaddr*)&here, sizeof here) || rlisten(fd, 1)) die("rlisten");
    unacknowledged();
    rclose(fd);
}

static int posted;

static void* post_cancelled(void* ignored) {
    pthread_cancel(pthread_self());
    receive(2, right ? 128 : 64, 128);
    posted = 1;
    return ignored;
}

/* A post is no point of cancellation, and none when it is told of a mistake either. */
static void cancelled(void) {
    pthread_t thread;
    set_up(16);
    receive(1, 0, 128);
    pthread_create(&thread, 0, post_cancelled, 0);
    pthread_join(thread, 0);
    if (!posted) _exit(3);
    tear_down();
}

static sem_t destroyed;

static void* acknowledge(void* cq) {
    if (right) sleep(1);
    else sem_wait(&destroyed);
    ibv_ack_cq_events(cq, 1);
    return 0;
}

/* A completion queue where one was that is gone. */
static struct ibv_cq* made_in(uintptr_t place) {
    struct ibv_cq *all[64], *found = 0;
    int count = 0;
    while (!found && count < 64) {
        struct ibv_cq* next = ibv_create_cq(context, 16, 0, channel, 0);
        if (!next) die("ibv_create_cq");
        if ((uintptr_t)next == place) found = next;
        else all[count++] = next;
    }
    if (!found) die("no completion queue is in the same place");
    while (count > 0) ibv_destroy_cq(all[--count]);
    return found;
}

/* Another thread acknowledges while ibv_destroy_cq() waits for it, or only when that has been ended. */
static void late(void) {
    pthread_t thread;
    set_up(16);
    sem_init(&destroyed, 0, 0);
    pthread_create(&thread, 0, acknowledge, take_event());
    ibv_destroy_qp(left);
    ibv_destroy_qp(right_qp);
    uintptr_t place = (uintptr_t)receive_cq;
    pthread_cancel(pthread_self()); /* which is no point of cancellation, however long it waits */
    ibv_destroy_cq(receive_cq);
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, 0);
    receive_cq = made_in(place);
    sem_post(&destroyed);
    pthread_join(thread, 0);
    if (receive_cq->comp_events_completed != 0) puts("acknowledged in another's place");
    left = right_qp = 0;
    tear_down();
    puts("done");
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
               {"cm_event", cm_event}, {"async_event", async_event}, {"leak", leak}, {"poison", poison}, {"poison_extended", poison_extended},
               {"read_key", read_key}, {"extended_overrun", extended_overrun}, {"late", late},
               {"beside_rsockets", beside_rsockets}, {"cancelled", cancelled}};
    right = argc > 2;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (argc > 1 && !strcmp(argv[1], all[i].word)) return all[i].run(), 0;
    return 2;
}
