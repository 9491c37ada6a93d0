/*
 * hello_server: waits for one connection, receives a greeting, answers it, and says goodbye.
 *
 *     hello_server [PORT]
 *
 * The other half is hello_client.c. Together they show every step of a connection as programs with an event
 * channel take it; both are plain rdma_cm and verbs, with nothing of Verbena's own in them.
 *
 *     cc -o hello_server hello_server.c -lrdmacm -libverbs
 */
#include <arpa/inet.h>
#include <rdma/rdma_cma.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MESSAGE_SIZE 64

static void die(const char* what) {
    perror(what);
    exit(1);
}

/* Takes the next event of the channel, which must be the expected one, and gives its id. */
static struct rdma_cm_id* expect(struct rdma_event_channel* channel, enum rdma_cm_event_type expected) {
    struct rdma_cm_event* event;
    struct rdma_cm_id* id;

    if (rdma_get_cm_event(channel, &event)) die("rdma_get_cm_event");
    if (event->event != expected) {
        fprintf(stderr, "%s (status %d) instead of %s\n", rdma_event_str(event->event), event->status,
                rdma_event_str(expected));
        exit(1);
    }
    id = event->id;
    /* Every event is acknowledged; rdma_destroy_id would wait for it for ever otherwise. */
    if (rdma_ack_cm_event(event)) die("rdma_ack_cm_event");
    return id;
}

/* Waits for one completion, and insists that it is a good one. */
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
    struct rdma_cm_id *listener, *id;
    struct sockaddr_in6 address = {.sin6_family = AF_INET6}; /* all addresses, IPv4 too */
    static char incoming[MESSAGE_SIZE], outgoing[MESSAGE_SIZE];

    /* 1. An event channel: connection events arrive here, like completions in a completion queue. */
    channel = rdma_create_event_channel();
    if (!channel) die("rdma_create_event_channel");

    /* 2. An id is to RDMA what a socket is to TCP. RDMA_PS_TCP means: a reliable connection. */
    if (rdma_create_id(channel, &listener, NULL, RDMA_PS_TCP)) die("rdma_create_id");

    /* 3. Bind and listen. Port 0 lets the library choose one; RDMA ports are not TCP's ports. */
    address.sin6_port = htons(argc > 1 ? atoi(argv[1]) : 0);
    if (rdma_bind_addr(listener, (struct sockaddr*)&address)) die("rdma_bind_addr");
    if (rdma_listen(listener, 1)) die("rdma_listen");
    printf("listening on port %d\n", ntohs(rdma_get_src_port(listener)));
    fflush(stdout);

    /* 4. A connection request brings an id of its own, like accept() brings a socket. */
    id = expect(channel, RDMA_CM_EVENT_CONNECT_REQUEST);

    /* 5. A queue pair is where work is posted. It belongs to a protection domain (whose memory may it touch?)
     * and reports to completion queues (what is done?). Only now do we know on which device: id->verbs. */
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

    /* 6. The adapter reads and writes memory by itself, but only memory that was registered. */
    struct ibv_mr* incoming_mr = ibv_reg_mr(domain, incoming, sizeof(incoming), IBV_ACCESS_LOCAL_WRITE);
    struct ibv_mr* outgoing_mr = ibv_reg_mr(domain, outgoing, sizeof(outgoing), 0);
    if (!incoming_mr || !outgoing_mr) die("ibv_reg_mr");

    /* 7. The receive is posted before the connection is accepted: a message that finds no receive is refused.
     */
    struct ibv_sge incoming_part = {(uintptr_t)incoming, sizeof(incoming), incoming_mr->lkey};
    struct ibv_recv_wr receive = {.wr_id = 1, .sg_list = &incoming_part, .num_sge = 1}, *bad_receive;
    if (ibv_post_recv(id->qp, &receive, &bad_receive)) die("ibv_post_recv");

    /* 8. Accept. ESTABLISHED follows when the client has confirmed. */
    struct rdma_conn_param parameters = {
        .responder_resources = 1, .initiator_depth = 1, .rnr_retry_count = 7};
    if (rdma_accept(id, &parameters)) die("rdma_accept");
    expect(channel, RDMA_CM_EVENT_ESTABLISHED);
    printf("connected\n");

    /* 9. The completion of the receive tells that the message is in memory. */
    wait_for_completion(cq);
    printf("received: %s\n", incoming);

    /* 10. The answer. IBV_SEND_SIGNALED asks for a completion: then the client's adapter has it. */
    snprintf(outgoing, sizeof(outgoing), "hello, client");
    struct ibv_sge outgoing_part = {(uintptr_t)outgoing, sizeof(outgoing), outgoing_mr->lkey};
    struct ibv_send_wr send = {.wr_id = 2,
                               .sg_list = &outgoing_part,
                               .num_sge = 1,
                               .opcode = IBV_WR_SEND,
                               .send_flags = IBV_SEND_SIGNALED},
                       *bad_send;
    if (ibv_post_send(id->qp, &send, &bad_send)) die("ibv_post_send");
    wait_for_completion(cq);

    /* 11. The client disconnects; disconnecting as well ends our half. */
    expect(channel, RDMA_CM_EVENT_DISCONNECTED);
    printf("disconnected\n");
    rdma_disconnect(id);

    /* 12. Everything is released in the opposite order of its making. */
    rdma_destroy_qp(id);
    ibv_dereg_mr(incoming_mr);
    ibv_dereg_mr(outgoing_mr);
    ibv_destroy_cq(cq);
    ibv_dealloc_pd(domain);
    rdma_destroy_id(id);
    rdma_destroy_id(listener);
    rdma_destroy_event_channel(channel);
    return 0;
}
