// Completion queues (IBA 11.2.8): creation, resizing, destruction. Polling is in post.cpp, events in
// channel.cpp.

#include <infiniband/verbs.h>
#include <pthread.h>

#include <cerrno>
#include <new>

#include "base/reason.h"
#include "verbs/limits.h"
#include "verbs/objects.h"
#include "verbs/process.h"

namespace verbena::verbs {
namespace {

// What is queued is taken back. What the program took must be acknowledged (ibv_get_cq_event(3)): waits for
// it.
void forget_events(Cq& cq) {
    ibv_cq* handle = cq.base();
    if (cq.channel)
        cq.channel->events.remove_if([&cq](const CompletionEvent& event) { return event.cq == &cq; });
    Context::of(handle->context)->async_events.remove_if([handle](const AsyncEvent& event) {
        return event.event.event_type == IBV_EVENT_CQ_ERR && event.event.element.cq == handle;
    });
    pthread_mutex_lock(&handle->mutex);
    while (handle->comp_events_completed != cq.events_delivered ||
           handle->async_events_completed != cq.async_events_delivered)
        pthread_cond_wait(&handle->cond, &handle->mutex);
    pthread_mutex_unlock(&handle->mutex);
}

}  // namespace
}  // namespace verbena::verbs

using namespace verbena;
using namespace verbena::verbs;

extern "C" {

struct ibv_cq* ibv_create_cq(struct ibv_context* context, int cqe, void* cq_context,
                             struct ibv_comp_channel* channel, int comp_vector) {
    Call call("ibv_create_cq");
    Process* process = Context::of(context)->process;
    if (!process->usable()) {
        process->refuse();
        return nullptr;
    }
    if (cqe < 1 || cqe > kMaxCqe) return fail_null(EINVAL, "cqe is %d; 1 to %d are possible", cqe, kMaxCqe);
    if (comp_vector < 0 || comp_vector >= context->num_comp_vectors)
        return fail_null(EINVAL, "comp_vector is %d; the device has %d", comp_vector,
                         context->num_comp_vectors);
    if (channel && channel->context != context)
        return fail_null(EINVAL, "the completion channel belongs to another context");
    auto* cq = new (std::nothrow) Cq;
    if (!cq) return fail_null(ENOMEM, "no memory");
    cq->queue = std::make_unique<completion::CompletionQueue>(static_cast<std::uint32_t>(cqe), cq);
    cq->shown.self = cq;
    ibv_cq* base = cq->base();
    base->context = context;
    base->channel = channel;
    base->cq_context = cq_context;
    base->cqe = cqe;
    pthread_mutex_init(&base->mutex, nullptr);
    pthread_cond_init(&base->cond, nullptr);
    if (channel) {
        cq->channel = Channel::of(channel);
        cq->channel->cqs++;
    }
    return base;
}

int ibv_resize_cq(struct ibv_cq* handle, int cqe) {
    Call call("ibv_resize_cq");
    if (cqe < 1 || cqe > kMaxCqe) return fail(EINVAL, "cqe is %d; 1 to %d are possible", cqe, kMaxCqe);
    Cq* cq = Cq::of(handle);
    if (int error = cq->queue->resize(static_cast<std::uint32_t>(cqe)))
        return fail(error, "%u completions wait; %d places are too few", cq->queue->waiting(), cqe);
    handle->cqe = cqe;
    return 0;
}

int ibv_destroy_cq(struct ibv_cq* handle) {
    Call call("ibv_destroy_cq");
    Cq* cq = Cq::of(handle);
    if (std::uint32_t users = cq->users) return fail(EBUSY, "%u queue pairs still use it", users);
    if (cq->channel) cq->channel->cqs--;
    if (!Context::of(handle->context)->process->forked()) forget_events(*cq);
    pthread_mutex_destroy(&handle->mutex);
    pthread_cond_destroy(&handle->cond);
    delete cq;
    return 0;
}

}  // extern "C"
