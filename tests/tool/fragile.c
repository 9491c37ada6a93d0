/* fragile SOUND|HANG|CRASH|LEAK: what a program may do when a call fails. */
#include <infiniband/verbs.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static char memory[64];

int main(int count, char** words) {
    const char* way = count > 1 ? words[1] : "SOUND";
    struct ibv_device** list = ibv_get_device_list(NULL);
    if (!list || !list[0]) return 3;
    struct ibv_context* context = ibv_open_device(list[0]);
    ibv_free_device_list(list);
    if (!context) return 3;
    int result = 1;
    struct ibv_pd* pd = ibv_alloc_pd(context);
    if (!pd) goto no_pd;
    struct ibv_mr* mr = ibv_reg_mr(pd, memory, sizeof memory, IBV_ACCESS_LOCAL_WRITE);
    if (!mr && strcmp(way, "HANG") == 0) pause();
    if (!mr) goto no_mr;
    struct ibv_comp_channel* channel = ibv_create_comp_channel(context);
    if (!channel) goto no_channel;
    struct ibv_cq* cq = ibv_create_cq(context, 8, NULL, channel, 0);
    if (!cq && strcmp(way, "LEAK") == 0) return 0;
    if (strcmp(way, "CRASH") == 0) printf("%d places\n", cq->cqe);
    if (!cq) goto no_cq;
    result = 0;
    if (ibv_destroy_cq(cq)) result = 1;
no_cq:
    ibv_destroy_comp_channel(channel);
no_channel:
    ibv_dereg_mr(mr);
no_mr:
    ibv_dealloc_pd(pd);
no_pd:
    ibv_close_device(context);
    return result;
}
