/*
 * hello_client: connects to hello_server, sends a greeting, receives the answer, disconnects.
 *
 *     hello_client HOST PORT
 *
 * What the two have in common is explained in hello_server.c; here are the steps of the side that connects.
 *
 *     cc -o hello_client hello_client.c -lrdmacm -libverbs
 */
#include <netdb.h>
#include <rdma/rdma_cma.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MESSAGE_SIZE 64
#define TIMEOUT_MS 2000

static void die(const char* what) {
    perror(what);
    exit(1);
}

static void expect(struct rdma_event_channel* channel, enum rdma_cm_event_type expected) {
    struct rdma_cm_event* event;

    if (rdma_get_cm_event(channel, &event)) die("rdma_get_cm_event");
    if (event->event != expected) {
        /* For example RDMA_CM_EVENT_REJECTED with status 8: nothing listens on that port. */
        fprintf(stderr, "%s (status %d) instead of %s\n", rdma_event_str(event->event), event->status,
                rdma_event_str(expected));
        exit(1);
    }
    if (rdma_ack_cm_event(event)) die("rdma_ack_cm_event");
}

static struct ibv_wc wait_for_completion(struct ibv_cq* cq) {
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

int main(int argc, char** argv) {
    struct rdma_event_channel* channel;
    struct rdma_cm_id* id;
    struct addrinfo* server;
    static char incoming[MESSAGE_SIZE], outgoing[MESSAGE_SIZE];

    if (argc != 3) {
        fprintf(stderr, "usage: hello_client HOST PORT\n");
        return 2;
    }
    if (getaddrinfo(argv[1], argv[2], NULL, &server)) {
        fprintf(stderr, "no such host: %s\n", argv[1]);
        return 1;
    }

    /* 1. Event channel and id, as in the server. */
    channel = rdma_create_event_channel();
    if (!channel) die("rdma_create_event_channel");
    if (rdma_create_id(channel, &id, NULL, RDMA_PS_TCP)) die("rdma_create_id");

    /* 2. Which of our devices leads to that address? Afterwards the id belongs to that device: id->verbs. */
    if (rdma_resolve_addr(id, NULL, server->ai_addr, TIMEOUT_MS)) die("rdma_resolve_addr");
    expect(channel, RDMA_CM_EVENT_ADDR_RESOLVED);
    freeaddrinfo(server);

    /* 3. And which way from there? */
    if (rdma_resolve_route(id, TIMEOUT_MS)) die("rdma_resolve_route");
    expect(channel, RDMA_CM_EVENT_ROUTE_RESOLVED);

    /* 4. Queue pair and memory, as in the server. */
    struct ibv_pd* domain = ibv_alloc_pd(id->verbs);
    struct ibv_cq* cq = ibv_create_cq(id->verbs, 4, NULL, NULL, 0);
    if (!domain || !cq) die("ibv_alloc_pd, ibv_create_cq");
    struct ibv_qp_init_attr attributes = {
        .send_cq = cq,
        .recv_cq = cq,
        .cap = {.max_send_wr = 2, .max_recv_wr = 2, .max_send_sge = 1, .max_recv_sge = 1},
        .qp_type = IBV_QPT_RC,
    };
    if (rdma_create_qp(id, domain, &attributes)) die("rdma_create_qp");
    struct ibv_mr* incoming_mr = ibv_reg_mr(domain, incoming, sizeof(incoming), IBV_ACCESS_LOCAL_WRITE);
    struct ibv_mr* outgoing_mr = ibv_reg_mr(domain, outgoing, sizeof(outgoing), 0);
    if (!incoming_mr || !outgoing_mr) die("ibv_reg_mr");

    /* 5. Ready for the answer before anything is asked. */
    struct ibv_sge incoming_part = {(uintptr_t)incoming, sizeof(incoming), incoming_mr->lkey};
    struct ibv_recv_wr receive = {.wr_id = 1, .sg_list = &incoming_part, .num_sge = 1}, *bad_receive;
    if (ibv_post_recv(id->qp, &receive, &bad_receive)) die("ibv_post_recv");

    /* 6. Connect. The library moves the queue pair through its states while the handshake goes on. */
    struct rdma_conn_param parameters = {
        .responder_resources = 1, .initiator_depth = 1, .retry_count = 7, .rnr_retry_count = 7};
    if (rdma_connect(id, &parameters)) die("rdma_connect");
    expect(channel, RDMA_CM_EVENT_ESTABLISHED);
    printf("connected\n");

    /* 7. Send, and wait for both completions: ours (the server's adapter has the message) and the answer's.
     * The order in which they come is not ours to choose. */
    snprintf(outgoing, sizeof(outgoing), "hello, server");
    struct ibv_sge outgoing_part = {(uintptr_t)outgoing, sizeof(outgoing), outgoing_mr->lkey};
    struct ibv_send_wr send = {.wr_id = 2,
                               .sg_list = &outgoing_part,
                               .num_sge = 1,
                               .opcode = IBV_WR_SEND,
                               .send_flags = IBV_SEND_SIGNALED},
                       *bad_send;
    if (ibv_post_send(id->qp, &send, &bad_send)) die("ibv_post_send");
    wait_for_completion(cq);
    wait_for_completion(cq);
    printf("received: %s\n", incoming);

    /* 8. Disconnect, and wait until the server knows it. */
    if (rdma_disconnect(id)) die("rdma_disconnect");
    expect(channel, RDMA_CM_EVENT_DISCONNECTED);
    printf("disconnected\n");

    rdma_destroy_qp(id);
    ibv_dereg_mr(incoming_mr);
    ibv_dereg_mr(outgoing_mr);
    ibv_destroy_cq(cq);
    ibv_dealloc_pd(domain);
    rdma_destroy_id(id);
    rdma_destroy_event_channel(channel);
    return 0;
}
