/*
 * refused: what it looks like when the other side says no. The client asks for a connection that the server
 * rejects, then for one that it accepts, and reads there where it may not.
 *
 *     refused server [PORT]
 *     refused client HOST PORT
 *
 * Three lessons: a rejection is an event with a reason and private data; a refused access is a completion
 * with a status, and no call fails; and after it the queue pair is in the error state, where everything else
 * is flushed.
 *
 *     cc -o refused refused.c -lrdmacm -libverbs
 */
#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <netdb.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SIZE 64

/* What the server sends in its reply, in network byte order. */
struct memory {
    uint64_t address;
    uint64_t key;
};

static char buffer[SIZE];

static void die(const char* what) {
    perror(what);
    exit(1);
}

/* An endpoint for HOST (NULL: this host, passive) and PORT, with a queue pair on it. */
static struct rdma_cm_id* endpoint(const char* host, const char* port) {
    struct rdma_addrinfo hints = {.ai_flags = host ? 0 : RAI_PASSIVE, .ai_port_space = RDMA_PS_TCP}, *found;
    struct ibv_qp_init_attr attributes = {
        .cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
        .sq_sig_all = 1,
    };
    struct rdma_cm_id* id;
    int error = rdma_getaddrinfo(host, port, &hints, &found);

    if (error) {
        fprintf(stderr, "rdma_getaddrinfo: %s\n", gai_strerror(error));
        exit(1);
    }
    if (rdma_create_ep(&id, found, NULL, &attributes)) die("rdma_create_ep");
    rdma_freeaddrinfo(found);
    return id;
}

static int serve(const char* port) {
    struct rdma_cm_id *listener = endpoint(NULL, port), *id;
    static const char why[] = "come back with a ticket";

    if (rdma_listen(listener, 2)) die("rdma_listen");
    printf("listening on port %d\n", ntohs(rdma_get_src_port(listener)));
    fflush(stdout);

    /* The first is sent away. Private data may say why; the reason on the wire is 28, rejected by the
     * consumer. */
    if (rdma_get_request(listener, &id)) die("rdma_get_request");
    if (rdma_reject(id, why, sizeof(why))) die("rdma_reject");
    rdma_destroy_ep(id);
    printf("rejected one\n");

    /* The second is let in, and its region is for writing only. */
    if (rdma_get_request(listener, &id)) die("rdma_get_request");
    struct ibv_mr* region =
        ibv_reg_mr(id->pd, buffer, sizeof(buffer), IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    if (!region) die("ibv_reg_mr");
    struct memory offer = {htobe64((uintptr_t)buffer), htobe64(region->rkey)};
    struct rdma_conn_param parameters = {.private_data = &offer,
                                         .private_data_len = sizeof(offer),
                                         .responder_resources = 1,
                                         .initiator_depth = 1};
    struct ibv_wc completion;
    if (rdma_post_recvv(id, NULL, NULL, 0)) die("rdma_post_recv");
    if (rdma_accept(id, &parameters)) die("rdma_accept");

    /* The NAK that our adapter sends takes our queue pair to the error state, too: the receive comes back
     * flushed. */
    if (rdma_get_recv_comp(id, &completion) != 1) die("rdma_get_recv_comp");
    printf("our receive: %s\n", ibv_wc_status_str(completion.status));
    rdma_disconnect(id);
    ibv_dereg_mr(region);
    rdma_destroy_ep(id);
    rdma_destroy_ep(listener);
    return 0;
}

static int run_client(const char* host, const char* port) {
    struct rdma_conn_param parameters = {
        .responder_resources = 1, .initiator_depth = 1, .retry_count = 7, .rnr_retry_count = 7};
    struct rdma_cm_id* id = endpoint(host, port);

    /* 1. A synchronous id gives the rejection as ECONNREFUSED, and keeps the event. */
    if (rdma_connect(id, &parameters) == 0 || errno != ECONNREFUSED) die("rdma_connect");
    printf("%s, status %d: %s\n", rdma_event_str(id->event->event), id->event->status,
           (const char*)id->event->param.conn.private_data);
    rdma_destroy_ep(id);

    /* 2. A READ of a region that allows only WRITE: the call succeeds, the completion tells. */
    id = endpoint(host, port);
    struct ibv_mr* region = ibv_reg_mr(id->pd, buffer, sizeof(buffer), IBV_ACCESS_LOCAL_WRITE);
    struct ibv_wc completion;
    struct memory offer;
    if (!region) die("ibv_reg_mr");
    if (rdma_connect(id, &parameters)) die("rdma_connect");
    memcpy(&offer, id->event->param.conn.private_data, sizeof(offer));
    if (rdma_post_read(id, NULL, buffer, SIZE, region, 0, be64toh(offer.address), be64toh(offer.key)))
        die("rdma_post_read");
    if (rdma_get_send_comp(id, &completion) != 1) die("rdma_get_send_comp");
    printf("the READ: %s\n", ibv_wc_status_str(completion.status));

    /* 3. Nothing works on this queue pair any more. */
    if (rdma_post_sendv(id, NULL, NULL, 0, 0)) die("rdma_post_send");
    if (rdma_get_send_comp(id, &completion) != 1) die("rdma_get_send_comp");
    printf("the SEND behind it: %s\n", ibv_wc_status_str(completion.status));
    rdma_disconnect(id);
    ibv_dereg_mr(region);
    rdma_destroy_ep(id);
    return 0;
}

int main(int argc, char** argv) {
    if (argc >= 2 && argc <= 3 && strcmp(argv[1], "server") == 0) return serve(argc == 3 ? argv[2] : "0");
    if (argc == 4 && strcmp(argv[1], "client") == 0) return run_client(argv[2], argv[3]);
    fprintf(stderr, "usage: refused server [PORT] | refused client HOST PORT\n");
    return 2;
}
