/*
 * one_sided: the client writes into the server's memory and reads it back, while the server's program does
 * nothing.
 *
 *     one_sided server [PORT]
 *     one_sided client HOST PORT
 *
 * The server tells where its memory is (address and rkey) in the private data of the connection's reply. Here
 * the ids are synchronous (made by rdma_create_ep): each call waits for its own event, which makes a program
 * short.
 *
 *     cc -o one_sided one_sided.c -lrdmacm -libverbs
 */
#include <arpa/inet.h>
#include <endian.h>
#include <netdb.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BUFFER_SIZE 4096

/* What the server sends in its reply, in network byte order. */
struct memory {
    uint64_t address;
    uint32_t key;
    uint32_t size;
};

static char buffer[BUFFER_SIZE];

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

static void wait_for_send(struct rdma_cm_id* id, const char* what) {
    struct ibv_wc completion;

    if (rdma_get_send_comp(id, &completion) != 1 || completion.status != IBV_WC_SUCCESS) {
        fprintf(stderr, "%s: %s\n", what, ibv_wc_status_str(completion.status));
        exit(1);
    }
}

static int serve(const char* port) {
    struct rdma_cm_id *listener = endpoint(NULL, port), *id;

    if (rdma_listen(listener, 1)) die("rdma_listen");
    printf("listening on port %d\n", ntohs(rdma_get_src_port(listener)));
    fflush(stdout);
    if (rdma_get_request(listener, &id)) die("rdma_get_request");

    /* The peer may write and read here, and only here: the rkey opens this region and no other. */
    struct ibv_mr* region =
        ibv_reg_mr(id->pd, buffer, sizeof(buffer),
                   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
    if (!region) die("ibv_reg_mr");
    struct memory offer = {htobe64((uintptr_t)buffer), htonl(region->rkey), htonl(sizeof(buffer))};
    struct rdma_conn_param parameters = {.private_data = &offer,
                                         .private_data_len = sizeof(offer),
                                         .responder_resources = 1,
                                         .initiator_depth = 1};

    /* A message of no bytes is the only thing that this program takes part in: "done". */
    if (rdma_post_recvv(id, NULL, NULL, 0)) die("rdma_post_recv");
    if (rdma_accept(id, &parameters)) die("rdma_accept");
    struct ibv_wc completion;
    if (rdma_get_recv_comp(id, &completion) != 1 || completion.status != IBV_WC_SUCCESS)
        die("rdma_get_recv_comp");
    printf("the client wrote: %s\n", buffer);

    rdma_disconnect(id);
    ibv_dereg_mr(region);
    rdma_destroy_ep(id);
    rdma_destroy_ep(listener);
    return 0;
}

static int run_client(const char* host, const char* port) {
    struct rdma_cm_id* id = endpoint(host, port);
    struct ibv_mr* region = ibv_reg_mr(id->pd, buffer, sizeof(buffer), IBV_ACCESS_LOCAL_WRITE);
    struct rdma_conn_param parameters = {
        .responder_resources = 1, .initiator_depth = 1, .retry_count = 7, .rnr_retry_count = 7};
    struct memory offer;

    if (!region) die("ibv_reg_mr");
    if (rdma_connect(id, &parameters)) die("rdma_connect");
    /* A synchronous id keeps the event that ended the last call. */
    memcpy(&offer, id->event->param.conn.private_data, sizeof(offer));
    uint64_t address = be64toh(offer.address);
    uint32_t key = ntohl(offer.key);

    /* WRITE: from our memory into the server's. */
    snprintf(buffer, sizeof(buffer), "hello from the other side");
    size_t length = strlen(buffer) + 1;
    if (rdma_post_write(id, NULL, buffer, length, region, 0, address, key)) die("rdma_post_write");
    wait_for_send(id, "WRITE");

    /* READ: from the server's memory into ours. */
    memset(buffer, 0, sizeof(buffer));
    if (rdma_post_read(id, NULL, buffer, length, region, 0, address, key)) die("rdma_post_read");
    wait_for_send(id, "READ");
    printf("read back: %s\n", buffer);

    if (rdma_post_sendv(id, NULL, NULL, 0, 0)) die("rdma_post_send");
    wait_for_send(id, "SEND");
    rdma_disconnect(id);
    ibv_dereg_mr(region);
    rdma_destroy_ep(id);
    return 0;
}

int main(int argc, char** argv) {
    if (argc >= 2 && argc <= 3 && strcmp(argv[1], "server") == 0) return serve(argc == 3 ? argv[2] : "0");
    if (argc == 4 && strcmp(argv[1], "client") == 0) return run_client(argv[2], argv[3]);
    fprintf(stderr, "usage: one_sided server [PORT] | one_sided client HOST PORT\n");
    return 2;
}
