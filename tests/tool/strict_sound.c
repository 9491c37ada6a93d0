/* What looks like a mistake to strict mode and is none: strict_sound alone|threads. See strict_pair.h. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "strict_pair.h"

static struct ibv_mr* key_again(uint32_t lkey) {
    for (int i = 0; i < 2000; i++) {
        struct ibv_mr* region = ibv_alloc_null_mr(pd);
        if (!region) die("ibv_alloc_null_mr");
        if (region->lkey == lkey) return region;
        ibv_dereg_mr(region);
    }
    return 0;
}

static void alone(void) {
    struct ibv_wc wc;
    set_up(16);
    /* Regions that were not deregistered. */
    struct ibv_mw* window = ibv_alloc_mw(pd, IBV_MW_TYPE_1);
    struct ibv_mr* bound = ibv_reg_mr(pd, memory, 4096, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
    struct ibv_mw_bind bind = {.wr_id = 9, .send_flags = IBV_SEND_SIGNALED, .bind_info = {bound, (uintptr_t)memory, 64, 0}};
    if (!window || !bound || ibv_bind_mw(left, window, &bind)) die("ibv_bind_mw");
    if (take(send_cq).status) die("the bind");
    if (ibv_dereg_mr(bound) == 0) puts("a bound region was deregistered");
    one_sided(left, 1, bound->lkey, IBV_WR_RDMA_READ, 0);
    take(send_cq);
    ibv_dealloc_mw(window);
    if (ibv_rereg_mr(bound, IBV_REREG_MR_CHANGE_TRANSLATION, pd, 0, 0, 0) == 0) puts("registered anew as nothing");
    one_sided(left, 2, bound->lkey, IBV_WR_RDMA_READ, 0);
    take(send_cq);
    /* A key that was another region's. */
    uint32_t lkey = bound->lkey;
    ibv_dereg_mr(bound);
    struct ibv_mr* again = key_again(lkey);
    if (!again) die("no region has the key again");
    one_sided(left, 3, lkey, IBV_WR_RDMA_WRITE, 0);
    take(send_cq);
    ibv_dereg_mr(again);
    /* A READ and, behind it, what has been read. */
    receive(4, 4096, 64);
    memset(memory + BYTES / 2, 7, 64);
    one_sided(left, 4, mr->lkey, IBV_WR_RDMA_READ, 0);
    send_it(5, 0, 8, mr->lkey, IBV_SEND_SIGNALED | IBV_SEND_FENCE);
    take(send_cq);
    take(send_cq);
    take(receive_cq);
    /* Receives that nothing arrives in. */
    struct ibv_srq_init_attr shared = {.attr = {.max_wr = 16, .max_sge = 1}};
    struct ibv_srq* srq = ibv_create_srq(pd, &shared);
    struct ibv_sge sge = {(uintptr_t)memory, 64, mr->lkey};
    struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;
    if (!srq || ibv_post_srq_recv(srq, &wr, &bad)) die("ibv_post_srq_recv");
    struct ibv_qp* unconnected = make();
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1};
    if (ibv_modify_qp(unconnected, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS)) die("INIT");
    sge.addr += 64;
    if (ibv_post_recv(unconnected, &wr, &bad)) die("ibv_post_recv");
    ibv_dereg_mr(mr);
    mr = 0;
    ibv_destroy_srq(srq);
    ibv_destroy_qp(unconnected);
    while (ibv_poll_cq(send_cq, 1, &wc)) {
    }
    tear_down();
}

enum { SENDS = 4000 };
static atomic_int posted, completed;

static void* poll_all(void* ignored) {
    struct ibv_wc wc;
    while (completed < SENDS)
        if (ibv_poll_cq(send_cq, 1, &wc) > 0) completed++;
    return ignored;
}

static void* post_all(void* ignored) {
    for (int id; (id = posted++) < SENDS;)
        while (one_sided(left, id, mr->lkey, IBV_WR_RDMA_WRITE, 8 * id % (BYTES / 2))) sched_yield();
    return ignored;
}

/* Two threads post to one queue pair, two poll its completion queue. */
static void threads(void) {
    pthread_t all[4];
    set_up(16);
    for (int i = 0; i < 4; i++) pthread_create(&all[i], 0, i % 2 ? post_all : poll_all, 0);
    for (int i = 0; i < 4; i++) pthread_join(all[i], 0);
    tear_down();
}

int main(int argc, char** argv) {
    if (argc > 1 && !strcmp(argv[1], "threads")) return threads(), 0;
    return alone(), 0;
}
