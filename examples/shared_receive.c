/*
 * shared_receive: a server takes the messages of two connections from one queue of receives.
 *
 *     shared_receive server [PORT]
 *     shared_receive client HOST PORT
 *
 * With a receive queue for each connection a server of a thousand clients needs thousands of buffers, most of
 * which wait for nothing. A shared receive queue (SRQ) has them in common: whoever gets a message takes the
 * next one. The client makes both connections, to keep the example small.
 *
 *     cc -o shared_receive shared_receive.c -lrdmacm -libverbs
 */
#include <arpa/inet.h>
#include <netdb.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CONNECTIONS 2
#define MESSAGE_SIZE 64

static void die(const char* what) {
    perror(what);
    exit(1);
}

static struct rdma_addrinfo* look_up(const char* host, const char* port) {
    struct rdma_addrinfo hints = {.ai_flags = host ? 0 : RAI_PASSIVE, .ai_port_space = RDMA_PS_TCP}, *found;
    int error = rdma_getaddrinfo(host, port, &hints, &found);

    if (error) {
        fprintf(stderr, "rdma_getaddrinfo: %s\n", gai_strerror(error));
        exit(1);
    }
    return found;
}

static struct ibv_wc next_completion(struct ibv_cq* cq) {
    struct ibv_wc completion;
    int found;

    do found = ibv_poll_cq(cq, 1, &completion);
    while (found == 0);
    if (found < 0 || completion.status != IBV_WC_SUCCESS) {
        fprintf(stderr, "completion: %s\n", found < 0 ? "none" : ibv_wc_status_str(completion.status));
        exit(1);
    }
    return completion;
}

static int serve(const char* port) {
    static char buffers[CONNECTIONS][MESSAGE_SIZE];
    struct rdma_addrinfo* address = look_up(NULL, port);
    struct rdma_cm_id *listener, *ids[CONNECTIONS];
    struct ibv_pd* domain = NULL;
    struct ibv_cq* cq = NULL;
    struct ibv_srq* shared = NULL;
    struct ibv_mr* region = NULL;

    if (rdma_create_ep(&listener, address, NULL, NULL)) die("rdma_create_ep");
    if (rdma_listen(listener, CONNECTIONS)) die("rdma_listen");
    printf("listening on port %d\n", ntohs(rdma_get_src_port(listener)));
    fflush(stdout);

    for (int i = 0; i < CONNECTIONS; i++) {
        if (rdma_get_request(listener, &ids[i])) die("rdma_get_request");

        /* 1. With the first request the device is known. The shared queue is made of a protection domain, and
         * gets its receives, before anybody can send. */
        if (i == 0) {
            struct ibv_srq_init_attr queue = {.attr = {.max_wr = 8, .max_sge = 1}};
            domain = ibv_alloc_pd(ids[i]->verbs);
            cq = ibv_create_cq(ids[i]->verbs, 8, NULL, NULL, 0);
            shared = domain ? ibv_create_srq(domain, &queue) : NULL;
            region = domain ? ibv_reg_mr(domain, buffers, sizeof(buffers), IBV_ACCESS_LOCAL_WRITE) : NULL;
            if (!cq || !shared || !region) die("ibv_create_cq, ibv_create_srq, ibv_reg_mr");
            for (int j = 0; j < CONNECTIONS; j++) {
                struct ibv_sge part = {(uintptr_t)buffers[j], MESSAGE_SIZE, region->lkey};
                struct ibv_recv_wr receive = {.wr_id = j, .sg_list = &part, .num_sge = 1}, *bad;
                if (ibv_post_srq_recv(shared, &receive, &bad)) die("ibv_post_srq_recv");
            }
        }

        /* 2. Queue pairs that use it have no receives of their own (cap.max_recv_wr does not count). */
        struct ibv_qp_init_attr attributes = {
            .send_cq = cq,
            .recv_cq = cq,
            .srq = shared,
            .cap = {.max_send_wr = 2, .max_send_sge = 1},
            .qp_type = IBV_QPT_RC,
        };
        if (rdma_create_qp(ids[i], domain, &attributes)) die("rdma_create_qp");
        struct rdma_conn_param parameters = {
            .responder_resources = 1, .initiator_depth = 1, .rnr_retry_count = 7};
        if (rdma_accept(ids[i], &parameters)) die("rdma_accept");
    }

    /* 3. wr_id says which buffer, qp_num whose message: the two have nothing to do with each other. */
    for (int n = 0; n < CONNECTIONS; n++) {
        struct ibv_wc completion = next_completion(cq);
        int from = completion.qp_num == ids[1]->qp->qp_num;
        printf("connection %d: %s\n", from + 1, buffers[completion.wr_id]);
    }

    for (int i = 0; i < CONNECTIONS; i++) {
        rdma_disconnect(ids[i]);
        rdma_destroy_qp(ids[i]);
    }
    ibv_destroy_srq(shared);
    ibv_dereg_mr(region);
    ibv_destroy_cq(cq);
    ibv_dealloc_pd(domain);
    for (int i = 0; i < CONNECTIONS; i++) rdma_destroy_id(ids[i]);
    rdma_destroy_ep(listener);
    rdma_freeaddrinfo(address);
    return 0;
}

static int run_client(const char* host, const char* port) {
    static char message[MESSAGE_SIZE];
    struct rdma_addrinfo* address = look_up(host, port);
    struct rdma_cm_id* ids[CONNECTIONS];
    struct ibv_qp_init_attr attributes = {
        .cap = {.max_send_wr = 2, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1}, .sq_sig_all = 1};

    for (int i = 0; i < CONNECTIONS; i++) {
        struct ibv_qp_init_attr own = attributes;
        struct rdma_conn_param parameters = {
            .responder_resources = 1, .initiator_depth = 1, .retry_count = 7, .rnr_retry_count = 7};
        if (rdma_create_ep(&ids[i], address, NULL, &own)) die("rdma_create_ep");
        if (rdma_connect(ids[i], &parameters)) die("rdma_connect");
    }
    printf("connected %d times\n", CONNECTIONS);
    for (int i = CONNECTIONS - 1; i >= 0; i--) {
        struct ibv_mr* region = rdma_reg_msgs(ids[i], message, sizeof(message));
        struct ibv_wc completion;
        if (!region) die("rdma_reg_msgs");
        snprintf(message, sizeof(message), "hello by connection %d", i + 1);
        if (rdma_post_send(ids[i], NULL, message, sizeof(message), region, 0)) die("rdma_post_send");
        if (rdma_get_send_comp(ids[i], &completion) != 1 || completion.status != IBV_WC_SUCCESS)
            die("rdma_get_send_comp");
        rdma_dereg_mr(region);
    }
    for (int i = 0; i < CONNECTIONS; i++) {
        rdma_disconnect(ids[i]);
        rdma_destroy_ep(ids[i]);
    }
    rdma_freeaddrinfo(address);
    return 0;
}

int main(int argc, char** argv) {
    if (argc >= 2 && argc <= 3 && strcmp(argv[1], "server") == 0) return serve(argc == 3 ? argv[2] : "0");
    if (argc == 4 && strcmp(argv[1], "client") == 0) return run_client(argv[2], argv[3]);
    fprintf(stderr, "usage: shared_receive server [PORT] | shared_receive client HOST PORT\n");
    return 2;
}
