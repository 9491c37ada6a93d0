/*
 * multicast: one program sends a datagram to a group, and everybody who has joined receives it.
 *
 *     multicast receive GROUP LOCAL_ADDRESS
 *     multicast send GROUP LOCAL_ADDRESS
 *
 * GROUP is an IP multicast address, 239.1.2.3 say; the local address tells which device. Datagrams have no
 * connection: whoever sends needs an address handle, the group's number (always 0xffffff) and the group's
 * Q_Key, and all three come with the event of the join.
 *
 *     cc -o multicast multicast.c -lrdmacm -libverbs
 */
#include <netdb.h>
#include <rdma/rdma_cma.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MESSAGE_SIZE 64
#define GRH_SIZE 40 /* in front of every datagram that is received: the global route header */
#define TIMEOUT_MS 2000

static void die(const char* what) {
    perror(what);
    exit(1);
}

static struct addrinfo* look_up(const char* address) {
    struct addrinfo* found;

    if (getaddrinfo(address, NULL, NULL, &found)) {
        fprintf(stderr, "no such address: %s\n", address);
        exit(1);
    }
    return found;
}

/* The next event of the channel, which must be the expected one and is to be acknowledged. */
static struct rdma_cm_event* expect(struct rdma_event_channel* channel, enum rdma_cm_event_type expected) {
    struct rdma_cm_event* event;

    if (rdma_get_cm_event(channel, &event)) die("rdma_get_cm_event");
    if (event->event != expected) {
        fprintf(stderr, "%s (status %d) instead of %s\n", rdma_event_str(event->event), event->status,
                rdma_event_str(expected));
        exit(1);
    }
    return event;
}

static void wait_for_completion(struct ibv_cq* cq) {
    struct ibv_wc completion;
    int found;

    do found = ibv_poll_cq(cq, 1, &completion);
    while (found == 0);
    if (found < 0 || completion.status != IBV_WC_SUCCESS) {
        fprintf(stderr, "completion: %s\n", found < 0 ? "none" : ibv_wc_status_str(completion.status));
        exit(1);
    }
}

int main(int argc, char** argv) {
    static char buffer[GRH_SIZE + MESSAGE_SIZE];
    struct rdma_event_channel* channel;
    struct rdma_cm_event* event;
    struct rdma_cm_id* id;

    if (argc != 4 || (strcmp(argv[1], "receive") != 0 && strcmp(argv[1], "send") != 0)) {
        fprintf(stderr, "usage: multicast receive|send GROUP LOCAL_ADDRESS\n");
        return 2;
    }
    int sends = strcmp(argv[1], "send") == 0;
    struct addrinfo *group = look_up(argv[2]), *local = look_up(argv[3]);

    /* 1. An id of the datagram port space, on the device that the group is reached by. */
    channel = rdma_create_event_channel();
    if (!channel) die("rdma_create_event_channel");
    if (rdma_create_id(channel, &id, NULL, RDMA_PS_UDP)) die("rdma_create_id");
    if (rdma_resolve_addr(id, local->ai_addr, group->ai_addr, TIMEOUT_MS)) die("rdma_resolve_addr");
    rdma_ack_cm_event(expect(channel, RDMA_CM_EVENT_ADDR_RESOLVED));

    /* 2. A UD queue pair: it sends to anybody and receives from anybody. */
    struct ibv_pd* domain = ibv_alloc_pd(id->verbs);
    struct ibv_cq* cq = ibv_create_cq(id->verbs, 4, NULL, NULL, 0);
    if (!domain || !cq) die("ibv_alloc_pd, ibv_create_cq");
    struct ibv_qp_init_attr attributes = {
        .send_cq = cq,
        .recv_cq = cq,
        .cap = {.max_send_wr = 2, .max_recv_wr = 2, .max_send_sge = 1, .max_recv_sge = 1},
        .qp_type = IBV_QPT_UD,
    };
    if (rdma_create_qp(id, domain, &attributes)) die("rdma_create_qp");
    struct ibv_mr* region = ibv_reg_mr(domain, buffer, sizeof(buffer), IBV_ACCESS_LOCAL_WRITE);
    if (!region) die("ibv_reg_mr");

    /* 3. A receive for datagrams has 40 bytes more than the message: for the header of the network. */
    struct ibv_sge part = {(uintptr_t)buffer, sizeof(buffer), region->lkey};
    struct ibv_recv_wr receive = {.wr_id = 1, .sg_list = &part, .num_sge = 1}, *bad_receive;
    if (!sends && ibv_post_recv(id->qp, &receive, &bad_receive)) die("ibv_post_recv");

    /* 4. Join. No message of the connection manager goes over the wire: over RoCE a group is an IP group, and
     * the kernel tells the network (IGMP). The event brings what a sender has to know. */
    if (rdma_join_multicast(id, group->ai_addr, NULL)) die("rdma_join_multicast");
    event = expect(channel, RDMA_CM_EVENT_MULTICAST_JOIN);
    struct ibv_ah* address = ibv_create_ah(domain, &event->param.ud.ah_attr);
    uint32_t number = event->param.ud.qp_num, key = event->param.ud.qkey;
    if (!address) die("ibv_create_ah");
    rdma_ack_cm_event(event);
    printf("joined\n");
    fflush(stdout);

    if (sends) {
        /* 5. Nobody acknowledges a datagram: its completion says that it has left, not that it arrived. */
        snprintf(buffer, MESSAGE_SIZE, "hello, group");
        part.length = MESSAGE_SIZE;
        struct ibv_send_wr send = {.wr_id = 2,
                                   .sg_list = &part,
                                   .num_sge = 1,
                                   .opcode = IBV_WR_SEND,
                                   .send_flags = IBV_SEND_SIGNALED,
                                   .wr.ud = {.ah = address, .remote_qpn = number, .remote_qkey = key}},
                           *bad_send;
        if (ibv_post_send(id->qp, &send, &bad_send)) die("ibv_post_send");
        wait_for_completion(cq);
        printf("sent\n");
    } else {
        wait_for_completion(cq);
        printf("received: %s\n", buffer + GRH_SIZE);
    }

    /* 6. Leave, and release everything. */
    rdma_leave_multicast(id, group->ai_addr);
    ibv_destroy_ah(address);
    rdma_destroy_qp(id);
    ibv_dereg_mr(region);
    ibv_destroy_cq(cq);
    ibv_dealloc_pd(domain);
    rdma_destroy_id(id);
    rdma_destroy_event_channel(channel);
    freeaddrinfo(group);
    freeaddrinfo(local);
    return 0;
}
