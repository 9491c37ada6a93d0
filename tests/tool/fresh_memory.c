/* Two processes whose buffers come straight from malloc(): a client writes into them, reads from them, sends and counts,
 * and every byte that came is looked at. What is sent is set only in part, as structures with padding are. So a memory
 * checker has something to say if it does not know that a byte came by RDMA, or minds one that left unset.
 *
 *   fresh_memory           exit status 0 when all bytes were right
 *   fresh_memory early     looks at a byte of the receive buffer before anything was sent
 *   fresh_memory freed     also WRITEs from memory that it has given back
 *   fresh_memory kept      its client ends without destroying anything
 */
#include <errno.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { kSmall = 41, kSet = 10, kLarge = 300000 };

struct peer { /* in the private data of the server's answer */
    uint64_t target, source, counter;
    uint32_t target_key, source_key, counter_key; /* and four bytes that nobody sets */
};

static void check(int bad, const char* what) {
    if (!bad) return;
    fprintf(stderr, "%s: %s\n", what, strerror(errno));
    _exit(3);
}

static void* buffer(size_t size) {
    void* memory = malloc(size);
    check(!memory, "malloc");
    return memory;
}

static unsigned char byte_at(size_t i) { return (unsigned char)(i * 7 + 1); }

static unsigned char* filled(size_t size) {
    unsigned char* memory = buffer(size);
    for (size_t i = 0; i < size; i++) memory[i] = byte_at(i);
    return memory;
}

static void look_at(const unsigned char* memory, size_t size, const char* what) {
    for (size_t i = 0; i < size; i++)
        if (memory[i] != byte_at(i)) {
            fprintf(stderr, "%s: byte %zu is %d\n", what, i, memory[i]);
            _exit(4);
        }
}

static void wait_for_send(struct rdma_cm_id* id) {
    struct ibv_wc wc;
    check(rdma_get_send_comp(id, &wc) != 1, "rdma_get_send_comp");
    if (wc.status) fprintf(stderr, "%s\n", ibv_wc_status_str(wc.status)), _exit(5);
}

static void wait_for_receive(struct rdma_cm_id* id) {
    struct ibv_wc wc;
    check(rdma_get_recv_comp(id, &wc) != 1, "rdma_get_recv_comp");
    if (wc.status) fprintf(stderr, "%s\n", ibv_wc_status_str(wc.status)), _exit(6);
}

static struct rdma_cm_id* endpoint(const char* service, int flags) {
    struct rdma_addrinfo hints = {.ai_flags = flags, .ai_port_space = RDMA_PS_TCP}, *info;
    struct ibv_qp_init_attr init = {.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
                                    .sq_sig_all = 1};
    struct rdma_cm_id* id;
    check(rdma_getaddrinfo("127.0.0.1", service, &hints, &info), "rdma_getaddrinfo");
    check(rdma_create_ep(&id, info, NULL, &init), "rdma_create_ep");
    rdma_freeaddrinfo(info);
    return id;
}

static struct ibv_mr* region(struct rdma_cm_id* id, void* memory, size_t size, int access) {
    struct ibv_mr* mr = ibv_reg_mr(id->pd, memory, size, access);
    check(!mr, "ibv_reg_mr");
    return mr;
}

static void close_endpoint(struct rdma_cm_id* id, struct ibv_mr** regions, void** memory, int count) {
    for (int i = 0; i < count; i++) {
        check(rdma_dereg_mr(regions[i]), "rdma_dereg_mr");
        free(memory[i]);
    }
    rdma_destroy_ep(id);
}

/* A SEND of 41 bytes, one of many packets, and a WRITE whose immediate data say that all are there. */
static void serve(struct rdma_cm_id* listener, int early) {
    struct rdma_cm_id* id;
    check(rdma_get_request(listener, &id), "rdma_get_request");
    unsigned char *small = buffer(kSmall), *large = buffer(kLarge), *target = buffer(kLarge), *source = filled(kLarge);
    uint64_t* counter = buffer(sizeof *counter);
    *counter = 41;
    const int all = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
    void* memory[] = {small, large, target, source, counter};
    struct ibv_mr* mr[] = {region(id, small, kSmall, IBV_ACCESS_LOCAL_WRITE),
                           region(id, large, kLarge, IBV_ACCESS_LOCAL_WRITE), region(id, target, kLarge, all),
                           region(id, source, kLarge, IBV_ACCESS_REMOTE_READ),
                           region(id, counter, sizeof *counter, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_ATOMIC)};
    check(rdma_post_recv(id, NULL, small, kSmall, mr[0]), "rdma_post_recv");
    check(rdma_post_recv(id, NULL, large, kLarge, mr[1]), "rdma_post_recv");
    check(rdma_post_recv(id, NULL, small, 0, mr[0]), "rdma_post_recv");
    if (early) look_at(small, 1, "too early");
    struct peer* told = buffer(sizeof *told);
    told->target = (uintptr_t)target, told->source = (uintptr_t)source, told->counter = (uintptr_t)counter;
    told->target_key = mr[2]->rkey, told->source_key = mr[3]->rkey, told->counter_key = mr[4]->rkey;
    struct rdma_conn_param param = {.private_data = told, .private_data_len = sizeof *told, .responder_resources = 4,
                                    .initiator_depth = 4, .rnr_retry_count = 7};
    check(rdma_accept(id, &param), "rdma_accept");
    free(told);
    wait_for_receive(id);
    look_at(small, kSet, "small SEND");
    wait_for_receive(id);
    look_at(large, kLarge, "large SEND");
    wait_for_receive(id);
    look_at(target, kLarge, "WRITE");
    check(rdma_disconnect(id), "rdma_disconnect");
    check(*counter != 42, "counter");
    close_endpoint(id, mr, memory, 5);
}

static void post(struct rdma_cm_id* id, struct ibv_send_wr* wr, void* memory, uint32_t size, struct ibv_mr* mr) {
    struct ibv_sge sge = {(uintptr_t)memory, size, mr->lkey};
    struct ibv_send_wr* bad;
    wr->sg_list = &sge;
    wr->num_sge = 1;
    errno = ibv_post_send(id->qp, wr, &bad);
    check(errno, "ibv_post_send");
    wait_for_send(id);
}

static void call(const char* service, int freed, int kept) {
    struct rdma_cm_id* id = endpoint(service, 0);
    unsigned char *small = buffer(kSmall), *large = filled(kLarge), *read = buffer(kLarge);
    for (int i = 0; i < kSet; i++) small[i] = byte_at((size_t)i);
    uint64_t* old = buffer(sizeof *old);
    void* memory[] = {small, large, read, old};
    struct ibv_mr* mr[] = {region(id, small, kSmall, 0), region(id, large, kLarge, 0),
                           region(id, read, kLarge, IBV_ACCESS_LOCAL_WRITE),
                           region(id, old, sizeof *old, IBV_ACCESS_LOCAL_WRITE)};
    struct rdma_conn_param param = {.responder_resources = 4, .initiator_depth = 4, .retry_count = 7, .rnr_retry_count = 7};
    check(rdma_connect(id, &param), "rdma_connect");
    const struct peer* peer = id->event->param.conn.private_data;

    struct ibv_send_wr send = {.opcode = IBV_WR_SEND};
    post(id, &send, small, kSmall, mr[0]);
    post(id, &send, large, kLarge, mr[1]);
    struct ibv_send_wr get = {.opcode = IBV_WR_RDMA_READ, .wr.rdma = {peer->source, peer->source_key}};
    post(id, &get, read, 8, mr[2]);
    look_at(read, 8, "small READ");
    post(id, &get, read, kLarge, mr[2]);
    look_at(read, kLarge, "large READ");
    struct ibv_send_wr add = {.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD,
                              .wr.atomic = {.remote_addr = peer->counter, .compare_add = 1, .rkey = peer->counter_key}};
    post(id, &add, old, sizeof *old, mr[3]);
    check(*old != 41, "fetch and add");
    struct ibv_send_wr put = {.opcode = IBV_WR_RDMA_WRITE, .wr.rdma = {peer->target, peer->target_key}};
    if (freed) {
        unsigned char* gone = filled(8);
        struct ibv_mr* gone_mr = region(id, gone, 8, 0);
        free(gone);
        post(id, &put, gone, 8, gone_mr);
        check(rdma_dereg_mr(gone_mr), "rdma_dereg_mr");
    }
    post(id, &put, large, 8, mr[1]);
    post(id, &put, large, kLarge, mr[1]);
    put.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
    post(id, &put, large, kSmall, mr[1]);
    if (kept) exit(0);
    check(rdma_disconnect(id), "rdma_disconnect");
    close_endpoint(id, mr, memory, 4);
}

int main(int argc, char** argv) {
    const char* mode = argc > 1 ? argv[1] : "";
    const int early = !strcmp(mode, "early"), freed = !strcmp(mode, "freed"), kept = !strcmp(mode, "kept");
    int pipes[2];
    check(pipe(pipes), "pipe");
    const pid_t child = fork(); /* before either knows of RDMA */
    check(child < 0, "fork");
    char service[8] = "";
    if (child == 0) {
        close(pipes[1]);
        check(read(pipes[0], service, sizeof service) <= 0, "read");
        call(service, freed, kept);
        return 0;
    }
    struct rdma_cm_id* listener = endpoint(NULL, RAI_PASSIVE);
    check(rdma_listen(listener, 1), "rdma_listen");
    snprintf(service, sizeof service, "%d", ntohs(rdma_get_src_port(listener)));
    check(write(pipes[1], service, sizeof service) != sizeof service, "write");
    serve(listener, early);
    rdma_destroy_ep(listener);
    int status = 0;
    check(waitpid(child, &status, 0) != child, "waitpid");
    return WIFEXITED(status) ? WEXITSTATUS(status) : 7;
}
