// Contexts: opening and closing a device (ibv_open_device(3)).

#include <infiniband/verbs.h>
#include <pthread.h>

#include <cerrno>
#include <new>

#include "base/reason.h"
#include "host/client.h"
#include "verbs/objects.h"
#include "verbs/posting.h"
#include "verbs/process.h"
#include "verbs/qp.h"
#include "verbs/queries.h"
#include "verbs/slots.h"

namespace verbena::verbs {
namespace {

void fill_slots(Context& context) {
    verbs_context& slots = context.shown.base;
    slots.sz = sizeof context.shown;
    slots.query_port = query_port;
    slots.query_device_ex = query_device_ex;
    slots.create_qp_ex = create_qp_ex;
    ibv_context_ops& ops = context.base()->ops;
    ops.poll_cq = poll_cq;
    ops.req_notify_cq = request_notification;
    ops.post_send = post_send;
    ops.post_recv = post_receive;
    fill_unsupported(context.shown);
}

}  // namespace
}  // namespace verbena::verbs

using namespace verbena;
using namespace verbena::verbs;

extern "C" {

struct ibv_context* ibv_open_device(struct ibv_device* device) {
    Call call("ibv_open_device");
    Process* process = Process::open();
    if (!process) return nullptr;
    auto* context = new (std::nothrow) Context;
    if (!context) return fail_null(ENOMEM, "no memory");
    context->device = Device::of(device);
    context->process = process;
    context->generation = host::generation();
    ibv_context* base = context->base();
    base->device = device;
    base->cmd_fd = -1;
    base->async_fd = context->async_events.fd();
    base->num_comp_vectors = 1;
    pthread_mutex_init(&base->mutex, nullptr);
    base->abi_compat = __VERBS_ABI_IS_EXTENDED;
    if (base->async_fd < 0) {
        delete context;
        return fail_null(EMFILE, "no file descriptor for asynchronous events");
    }
    fill_slots(*context);
    process->add(context);
    return base;
}

int ibv_close_device(struct ibv_context* base) {
    Call call("ibv_close_device");
    Context* context = Context::of(base);
    context->process->remove(context);
    // What the program left behind must not answer packets or hold its memory open any longer.
    while (!context->queue_pairs.empty()) {
        QueuePair* qp = *context->queue_pairs.begin();
        qp->base()->events_completed = qp->async_events_delivered;
        destroy_queue_pair(*qp);
    }
    while (!context->regions.empty()) ibv_dereg_mr(&(*context->regions.begin())->base);
    pthread_mutex_destroy(&base->mutex);
    delete context;
    return 0;
}

}  // extern "C"
