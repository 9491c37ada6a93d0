/*
 * why: three mistakes that everybody makes once, and what a program can say about them.
 *
 *     why [HOST]     (default: 127.0.0.1)
 *
 * Each is told twice: by the number that every implementation gives, and, where the libraries know it, by the
 * reason (verbena.h). The program builds without that header and runs over any libibverbs; then the second
 * half is missing.
 *
 *     cc -o why why.c -lrdmacm -libverbs
 */
#include <infiniband/verbs.h>
#include <netdb.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#if defined(__has_include)
#if __has_include(<verbena.h>)
#include <verbena.h>
#endif
#endif
#ifndef VERBENA_H
#define verbena_last_reason() ""
#define verbena_wc_reason(completion) ""
#define verbena_cm_event_reason(event) ""
#endif

static char buffer[4096];

static void die(const char* what) {
    perror(what);
    exit(1);
}

static struct rdma_cm_event* next_event(struct rdma_event_channel* channel) {
    struct rdma_cm_event* event;

    if (rdma_get_cm_event(channel, &event)) die("rdma_get_cm_event");
    return event;
}

static void resolve(struct rdma_cm_id* id, const char* host, const char* port) {
    struct rdma_addrinfo hints = {.ai_port_space = RDMA_PS_TCP}, *found;
    int error = rdma_getaddrinfo(host, port, &hints, &found);

    if (error) {
        fprintf(stderr, "rdma_getaddrinfo: %s\n", gai_strerror(error));
        exit(1);
    }
    if (rdma_resolve_addr(id, NULL, found->ai_dst_addr, 2000)) die("rdma_resolve_addr");
    rdma_freeaddrinfo(found);
    rdma_ack_cm_event(next_event(id->channel));
    if (!id->verbs) {
        fprintf(stderr, "%s cannot be resolved\n", host);
        exit(1);
    }
    if (rdma_resolve_route(id, 2000)) die("rdma_resolve_route");
    rdma_ack_cm_event(next_event(id->channel));
}

/* A call: the address vector lacks the GRH that RoCE needs. The queue pair stays in INIT. */
static void wrong_call(struct ibv_qp* qp) {
    struct ibv_qp_attr to = {
        .qp_state = IBV_QPS_RTR,
        .path_mtu = IBV_MTU_1024,
        .dest_qp_num = qp->qp_num,
        .min_rnr_timer = 12,
        .ah_attr = {.port_num = 1},
    };
    int error = ibv_modify_qp(qp, &to,
                              IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                                  IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);

    printf("call: %s\n  %s\n", strerror(error), verbena_last_reason());
}

/* A completion: the queue pair is connected with itself, and sends from memory that its lkey does not cover.
 */
static void wrong_request(struct ibv_qp* qp, struct ibv_mr* mr) {
    struct ibv_sge memory = {(uintptr_t)buffer + 4000, 200, mr->lkey};
    struct ibv_send_wr request = {.wr_id = 7, .sg_list = &memory, .num_sge = 1, .opcode = IBV_WR_SEND},
                       *refused;
    struct ibv_qp_attr to = {
        .qp_state = IBV_QPS_RTR,
        .path_mtu = IBV_MTU_1024,
        .dest_qp_num = qp->qp_num,
        .min_rnr_timer = 12,
        .ah_attr = {.port_num = 1, .is_global = 1, .grh = {.hop_limit = 64}},
        .timeout = 14,
        .retry_cnt = 7,
        .rnr_retry = 7,
    };
    struct ibv_wc completion;
    int count;

    if (ibv_query_gid(qp->context, 1, 0, &to.ah_attr.grh.dgid)) die("ibv_query_gid");
    if (ibv_modify_qp(qp, &to,
                      IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                          IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER))
        die("RTR");
    to.qp_state = IBV_QPS_RTS;
    if (ibv_modify_qp(qp, &to,
                      IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                          IBV_QP_MAX_QP_RD_ATOMIC))
        die("RTS");
    if (ibv_post_send(qp, &request, &refused)) die("ibv_post_send");
    while ((count = ibv_poll_cq(qp->send_cq, 1, &completion)) == 0) continue;
    if (count < 0) die("ibv_poll_cq");
    printf("completion: %s\n  %s\n", ibv_wc_status_str(completion.status), verbena_wc_reason(&completion));
}

/* An event: nobody listens on that port. */
static void wrong_port(struct rdma_cm_id* id) {
    struct rdma_conn_param parameters = {.retry_count = 7, .qp_num = 0x17};
    struct rdma_cm_event* event;

    if (rdma_connect(id, &parameters)) die("rdma_connect");
    event = next_event(id->channel);
    printf("event: %s, status %d\n  %s\n", rdma_event_str(event->event), event->status,
           verbena_cm_event_reason(event));
    rdma_ack_cm_event(event);
}

int main(int argc, char** argv) {
    struct rdma_event_channel* channel = rdma_create_event_channel();
    struct rdma_cm_id* id;
    struct ibv_pd* pd;
    struct ibv_cq* cq;
    struct ibv_mr* mr;
    struct ibv_qp* qp;
    struct ibv_qp_attr init = {.qp_state = IBV_QPS_INIT, .port_num = 1};
    struct ibv_qp_init_attr attributes = {
        .cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
        .qp_type = IBV_QPT_RC,
        .sq_sig_all = 1,
    };

    if (!channel) die("rdma_create_event_channel");
    if (rdma_create_id(channel, &id, NULL, RDMA_PS_TCP)) die("rdma_create_id");
    resolve(id, argc > 1 ? argv[1] : "127.0.0.1", "7471");

    if (!(pd = ibv_alloc_pd(id->verbs))) die("ibv_alloc_pd");
    if (!(cq = ibv_create_cq(id->verbs, 16, NULL, NULL, 0))) die("ibv_create_cq");
    if (!(mr = ibv_reg_mr(pd, buffer, sizeof buffer, IBV_ACCESS_LOCAL_WRITE))) die("ibv_reg_mr");
    attributes.send_cq = attributes.recv_cq = cq;
    if (!(qp = ibv_create_qp(pd, &attributes))) die("ibv_create_qp");
    if (ibv_modify_qp(qp, &init, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS))
        die("INIT");

    wrong_call(qp);
    wrong_request(qp, mr);
    wrong_port(id);

    ibv_destroy_qp(qp);
    ibv_dereg_mr(mr);
    ibv_destroy_cq(cq);
    ibv_dealloc_pd(pd);
    rdma_destroy_id(id);
    rdma_destroy_event_channel(channel);
    return 0;
}
