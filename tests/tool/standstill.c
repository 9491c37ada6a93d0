/* Programs that wait for ever, each for a reason of its own: standstill REASON. It says "waits" when it begins to. */
#include "strict_pair.h"

static void sleep_for_event(void) {
    struct ibv_cq* cq;
    void* cq_context;
    puts("waits");
    fflush(stdout);
    if (ibv_get_cq_event(channel, &cq, &cq_context)) die("ibv_get_cq_event");
    puts("an event");
}

static void poll_for_ever(struct ibv_cq* cq) {
    struct ibv_wc wc;
    puts("waits");
    fflush(stdout);
    while (ibv_poll_cq(cq, 1, &wc) == 0) {
    }
    printf("a completion: %s\n", ibv_wc_status_str(wc.status));
}

static void send_and_wait_until_it_has_come(void) {
    receive(1, 0, 64);
    send_it(2, 128, 64, mr->lkey, IBV_SEND_SIGNALED);
    take(send_cq);
    while (memory[0] == 0) usleep(10);
    usleep(10000); /* the completion follows the bytes */
}

int main(int argc, char** argv) {
    const char* reason = argc > 1 ? argv[1] : "";
    set_up(16);
    memory[128] = 1;
    if (!strcmp(reason, "no-receive")) {
        send_it(7, 128, 64, mr->lkey, IBV_SEND_SIGNALED);
        poll_for_ever(send_cq);
    } else if (!strcmp(reason, "before-arming")) {
        send_and_wait_until_it_has_come();
        ibv_req_notify_cq(receive_cq, 0);
        sleep_for_event();
    } else if (!strcmp(reason, "solicited")) {
        ibv_req_notify_cq(receive_cq, 1);
        send_and_wait_until_it_has_come();
        sleep_for_event();
    } else if (!strcmp(reason, "not-armed")) {
        send_and_wait_until_it_has_come();
        sleep_for_event();
    } else if (!strcmp(reason, "never-armed")) {
        receive(1, 0, 64);
        sleep_for_event();
    } else if (!strcmp(reason, "silent")) {
        receive(1, 0, 64);
        send_it(7, 128, 64, mr->lkey, 0);
        poll_for_ever(send_cq);
    } else if (!strcmp(reason, "nothing-comes")) { /* and nothing is wrong */
        send_and_wait_until_it_has_come();
        take(receive_cq);
        receive(1, 0, 64);
        ibv_req_notify_cq(receive_cq, 0);
        sleep_for_event();
    }
    return 2;
}
