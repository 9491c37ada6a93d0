/* A program with two connected RC queue pairs in one process: does to itself what its words say, one line of output per
 * word, so that what a plan of faults does can be seen. What a program under test would do about it is the recipes of
 * docs/faults.md.
 *
 *   send         posts a receive and a SEND, waits: "send STATUS" and, if it arrived, "received STATUS"
 *   send*N       N of them, one after another
 *   many=N       N SENDs posted at once; then N lines in the order of completion, the receiver's last
 *   write, read  RDMA WRITE or READ, checked
 *   register     ibv_reg_mr until it works: "register after N failures (ERROR)"
 *   alone        (in front) opens the device and nothing else
 *   event        waits for an asynchronous event: its name
 *   port         the port's state
 */
#include <errno.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static void die(const char* what) {
    fprintf(stderr, "%s: %s\n", what, strerror(errno));
    exit(3);
}

static struct ibv_context* context;
static struct ibv_pd* pd;
static struct ibv_mr* mr;
static struct ibv_cq *send_cq, *receive_cq;
static struct ibv_qp *left, *right;
static char memory[1 << 16];

static struct ibv_qp* make(void) {
    struct ibv_qp_init_attr init = {.send_cq = send_cq, .recv_cq = receive_cq, .qp_type = IBV_QPT_RC,
                                    .cap = {.max_send_wr = 64, .max_recv_wr = 64, .max_send_sge = 1, .max_recv_sge = 1}};
    struct ibv_qp* qp = ibv_create_qp(pd, &init);
    if (!qp) die("ibv_create_qp");
    return qp;
}

static void join(struct ibv_qp* qp, struct ibv_qp* to, union ibv_gid gid, int index) {
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1,
                               .qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ};
    if (ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS)) die("INIT");
    memset(&attr, 0, sizeof attr);
    attr.qp_state = IBV_QPS_RTR;
    attr.path_mtu = IBV_MTU_1024;
    attr.dest_qp_num = to->qp_num;
    attr.max_dest_rd_atomic = 4;
    attr.min_rnr_timer = 1;
    attr.ah_attr.is_global = 1;
    attr.ah_attr.port_num = 1;
    attr.ah_attr.grh.dgid = gid;
    attr.ah_attr.grh.sgid_index = index;
    attr.ah_attr.grh.hop_limit = 64;
    if (ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                                     IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER))
        die("RTR");
    memset(&attr, 0, sizeof attr);
    attr.qp_state = IBV_QPS_RTS;
    attr.timeout = 12; /* 17 ms */
    attr.retry_cnt = 3;
    attr.rnr_retry = 3;
    attr.max_rd_atomic = 4;
    if (ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                                     IBV_QP_MAX_QP_RD_ATOMIC))
        die("RTS");
}

static void open_device(void) {
    int count = 0;
    struct ibv_device** list = ibv_get_device_list(&count);
    for (int i = 0; i < count && !context; i++)
        if (!strcmp(ibv_get_device_name(list[i]), "verbena_lo")) context = ibv_open_device(list[i]);
    if (!context) die("ibv_open_device");
    ibv_free_device_list(list);
}

static void open_pair(void) {
    pd = ibv_alloc_pd(context);
    send_cq = ibv_create_cq(context, 256, NULL, NULL, 0);
    receive_cq = ibv_create_cq(context, 256, NULL, NULL, 0);
    if (!pd || !send_cq || !receive_cq) die("ibv_create_cq");
    int failures = 0, error = 0;
    const int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
    while (!(mr = ibv_reg_mr(pd, memory, sizeof memory, access)) && failures < 5) failures++, error = errno;
    if (!mr) die("ibv_reg_mr");
    if (failures) printf("registered after %d failures: %s\n", failures, strerror(error));
    left = make();
    right = make();
    union ibv_gid gid, zero = {{0}};
    int index = 0;
    while (ibv_query_gid(context, 1, index, &gid) == 0 && !memcmp(&gid, &zero, sizeof gid)) index++;
    join(left, right, gid, index);
    join(right, left, gid, index);
}

static int wait_for(struct ibv_cq* cq, struct ibv_wc* wc, double seconds) {
    struct timespec begin, now;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    for (;;) {
        int n = ibv_poll_cq(cq, 1, wc);
        if (n) return n;
        clock_gettime(CLOCK_MONOTONIC, &now);
        if ((now.tv_sec - begin.tv_sec) + (now.tv_nsec - begin.tv_nsec) / 1e9 > seconds) return 0;
    }
}

static void post_receive(void) {
    struct ibv_sge sge = {(uintptr_t)memory + 32768, 4096, mr->lkey};
    struct ibv_recv_wr wr = {.wr_id = 1, .sg_list = &sge, .num_sge = 1}, *bad;
    int error = ibv_post_recv(right, &wr, &bad);
    if (error) printf("post_recv: %s\n", strerror(error));
}

static int post(enum ibv_wr_opcode opcode, uint64_t id) {
    struct ibv_sge sge = {(uintptr_t)memory, 8, mr->lkey};
    struct ibv_send_wr wr = {.wr_id = id, .sg_list = &sge, .num_sge = 1, .opcode = opcode, .send_flags = IBV_SEND_SIGNALED},
                       *bad;
    wr.wr.rdma.remote_addr = (uintptr_t)memory + 32768;
    wr.wr.rdma.rkey = mr->rkey;
    int error = ibv_post_send(left, &wr, &bad);
    if (error) printf("post_send: %s\n", strerror(error));
    return error;
}

static void tell(const char* what, struct ibv_cq* cq, double seconds) {
    struct ibv_wc wc;
    int n = wait_for(cq, &wc, seconds);
    if (n > 0)
        printf("%s %s\n", what, ibv_wc_status_str(wc.status));
    else
        printf("%s %s\n", what, n ? "poll failed" : "nothing");
}

static void one_send(int number) {
    snprintf(memory, 8, "%d", number);
    post_receive();
    if (post(IBV_WR_SEND, (uint64_t)number)) return;
    tell("send", send_cq, 20);
    struct ibv_wc wc;
    if (wait_for(receive_cq, &wc, 0.05) > 0)
        printf("received %s %s\n", ibv_wc_status_str(wc.status), wc.status ? "" : memory + 32768);
}

int main(int argc, char** argv) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    open_device();
    const int alone = argc > 1 && !strcmp(argv[1], "alone"); /* no queue pairs: what fails at once must not meet them */
    if (!alone) open_pair();
    for (int i = 1 + alone; i < argc; i++) {
        const char* word = argv[i];
        if (!strncmp(word, "send", 4)) {
            int n = word[4] == '*' ? atoi(word + 5) : 1;
            for (int k = 1; k <= n; k++) one_send(k);
        } else if (!strncmp(word, "many=", 5)) {
            int n = atoi(word + 5);
            for (int k = 0; k < n; k++) post_receive();
            for (int k = 0; k < n; k++) post(IBV_WR_SEND, (uint64_t)k);
            for (int k = 0; k < n; k++) tell("send", send_cq, 20);
            for (int k = 0; k < n; k++) tell("received", receive_cq, 1);
        } else if (!strcmp(word, "write") || !strcmp(word, "read")) {
            post(word[0] == 'w' ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ, 7);
            tell(word, send_cq, 20);
        } else if (!strcmp(word, "event")) {
            struct ibv_async_event event;
            if (ibv_get_async_event(context, &event)) die("ibv_get_async_event");
            printf("event %s\n", ibv_event_type_str(event.event_type));
            ibv_ack_async_event(&event);
        } else if (!strcmp(word, "port")) {
            struct ibv_port_attr port;
            printf("port %s\n", ibv_query_port(context, 1, &port) ? "unknown" : ibv_port_state_str(port.state));
        } else if (!strcmp(word, "pause")) {
            printf("ready\n");
            getchar();
        }
    }
    return 0;
}
