// Contexts: opening and closing a device (ibv_open_device(3)).

#include <infiniband/verbs.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>

#include "base/call_fault.h"
#include "base/no_cancellation.h"
#include "base/out_of_memory.h"
#include "base/reason.h"
#include "host/client.h"
#include "verbs/buf.h"
#include "verbs/cq.h"
#include "verbs/dm.h"
#include "verbs/domains.h"
#include "verbs/import.h"
#include "verbs/last_thread.h"
#include "verbs/mr.h"
#include "verbs/mw.h"
#include "verbs/objects.h"
#include "verbs/posting.h"
#include "verbs/process.h"
#include "verbs/qp.h"
#include "verbs/queries.h"
#include "verbs/slots.h"
#include "verbs/srq.h"
#include "verbs/xrc.h"

namespace verbena::verbs {
namespace {

void fill_slots(Context& context) {
    verbs_context& slots = context.shown.base;
    slots.sz = sizeof context.shown;
    slots.query_port = query_port;
    slots.query_device_ex = query_device_ex;
    slots.create_qp_ex = create_qp_ex;
    slots.create_srq_ex = create_srq_ex;
    slots.get_srq_num = get_srq_num;
    slots.open_qp = open_qp;
    slots.modify_qp_rate_limit = modify_qp_rate_limit;
    slots.open_xrcd = open_xrcd;
    slots.close_xrcd = close_xrcd;
    slots.create_cq_ex = create_cq_ex;
    slots.modify_cq = modify_cq;
    slots.query_rt_values = query_rt_values;
    slots.alloc_td = alloc_td;
    slots.dealloc_td = dealloc_td;
    slots.alloc_parent_domain = alloc_parent_domain;
    slots.alloc_null_mr = alloc_null_mr;
    slots.advise_mr = advise_mr;
    slots.alloc_dm = alloc_dm;
    slots.free_dm = free_dm;
    slots.reg_dm_mr = reg_dm_mr;
    context.shown.reg_mr_ex = reg_mr_ex;
    ibv_context_ops& ops = context.base()->ops;
    ops.poll_cq = poll_cq;
    ops.req_notify_cq = request_notification;
    ops.post_send = post_send;
    ops.alloc_mw = alloc_mw;
    ops.dealloc_mw = dealloc_mw;
    ops.bind_mw = bind_mw;
    ops.post_recv = post_receive;
    ops.post_srq_recv = post_shared_receive;
    context.shown.alloc_buf = alloc_buf;
    context.shown.free_buf = free_buf;
    fill_unsupported(context.shown);
}

// What the program left behind must not answer packets or hold its memory open any longer.
void end_queues(Context& context) {
    while (!context.queue_pairs.empty()) {
        QueuePair* qp = *context.queue_pairs.begin();
        qp->base()->events_completed = qp->async_events_delivered;
        destroy_queue_pair(*qp);
    }
    while (!context.shared_queues.empty()) {
        Srq* srq = *context.shared_queues.begin();
        srq->base()->events_completed = srq->async_events_delivered;
        destroy_shared_queue(*srq);
    }
    while (!context.xrc_domains.empty()) leave_domain(**context.xrc_domains.begin());
    // A plan of faults may let this fail: it stays, then.
    while (!context.windows.empty() && dealloc_mw(&(*context.windows.begin())->base) == 0) {
    }
}

void end_regions(Context& context) {
    while (!context.regions.empty()) {
        Region* region = *context.regions.begin();
        // Its keys may have gone with an import of it.
        if (region->kind != RegionKind::imported && !context.process->forked())
            context.process->adapter().regions().remove(region->base.lkey);
        forget(region);
    }
}

// Of a context that nobody has seen yet.
struct Discard {
    void operator()(Context* context) const {
        if (context->base()->cmd_fd >= 0) close(context->base()->cmd_fd);
        pthread_mutex_destroy(&context->base()->mutex);
        delete context;
    }
};

ibv_context* open(ibv_device* device) {
    Process* process = Process::open();
    if (!process) return nullptr;
    // Asynchronous events of the device need the helper, whether or not there will be a queue pair.
    if (int error = process->engine().start()) {
        errno = error;
        return nullptr;
    }
    own_thread_runs();
    std::unique_ptr<Context, Discard> context(new Context);
    context->device = Device::of(device);
    context->process = process;
    ibv_context* base = context->base();
    base->device = device;
    base->cmd_fd = -1;
    base->async_fd = context->async_events.fd();
    // As many as adapters have, whose vectors programs spread over; here they are all alike.
    static const int kProcessors = std::max(1, static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN)));
    base->num_comp_vectors = kProcessors;
    pthread_mutex_init(&base->mutex, nullptr);
    base->abi_compat = __VERBS_ABI_IS_EXTENDED;
    base->cmd_fd = make_command_file(context->device->index, context->device->node_guid);
    if (base->cmd_fd < 0) return nullptr;
    context->command_file = FileIdentity::of(base->cmd_fd);
    if (base->async_fd < 0) return fail_null(EMFILE, "no file descriptor for asynchronous events");
    fill_slots(*context);
    context->make_room_for_events();
    if (!process->add(context.get())) return fail_null(ENODEV, "the device is gone");
    context->record = process->show({.kind = adapter::ObjectKind::context, .device = context->device->index});
    return context.release()->base();
}

void end(Context& context) {
    while (!context.device_memories.empty() && free_dm(&(*context.device_memories.begin())->base) == 0) {
    }
    pthread_mutex_destroy(&context.base()->mutex);
    delete &context;
}

// What one of its contexts has made may be in use by what another has: regions by windows and queue pairs,
// device memory by regions.
void end_file(Context& of_file) {
    const auto each = [&of_file](void (*what)(Context&)) {
        for (Context *context = of_file.next_of_file, *next; context != &of_file; context = next) {
            next = context->next_of_file;
            what(*context);
        }
        what(of_file);
    };
    each([](Context& context) { context.process->remove(&context); });
    each(end_queues);
    each(end_regions);
    each(end);
}

}  // namespace
}  // namespace verbena::verbs

using namespace verbena;
using namespace verbena::verbs;

extern "C" {

struct ibv_context* ibv_open_device(struct ibv_device* device) {
    if (const Fault fault{"ibv_open_device"}) return fault.null();
    Call call("ibv_open_device");
    const NoCancellation whole;
    return unless_out_of_memory([&] { return verbs::open(device); });
}

int ibv_close_device(struct ibv_context* base) {
    if (const Fault fault{"ibv_close_device"}) return fault.minus_one();
    Call call("ibv_close_device");
    const NoCancellation whole;
    Context* context = Context::of(base);
    context->process->hide(context->record);
    if (context->files.is_of_now() && context->command_file.is(base->cmd_fd)) close(base->cmd_fd);
    if (leave_file(*context)) end_file(*context);
    return 0;
}

}  // extern "C"
