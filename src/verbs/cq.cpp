// Completion queues (IBA 11.2.8): creation, resizing, destruction. Polling is in posting.cpp, events in
// channel.cpp.

#include "verbs/cq.h"

#include <infiniband/verbs.h>
#include <pthread.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <memory>

#include "base/call_fault.h"
#include "base/no_cancellation.h"
#include "base/out_of_memory.h"
#include "base/reason.h"
#include "verbs/acknowledgements.h"
#include "verbs/limits.h"
#include "verbs/objects.h"
#include "verbs/process.h"

namespace verbena::verbs {
namespace {

// As adapters: a power of two, and never tiny. Programs have come to need it: perftest's XRC latency over
// events lets three completions wait in a queue of two. kMaxCqe is a power of two itself.
std::uint32_t rounded(std::int64_t cqe) {
    constexpr std::uint32_t kFewest = 4;
    static_assert(std::has_single_bit(static_cast<unsigned>(kMaxCqe)));
    return std::max(kFewest, std::bit_ceil(static_cast<std::uint32_t>(cqe)));
}

// No event is queued any more, and what is queued is taken back. What the program took must be acknowledged
// (ibv_get_cq_event(3)): waits for it.
void forget_events(Cq& cq) {
    ibv_cq* handle = cq.base();
    cq.queue->fall_silent();  // first: the time of an event that is held may come while we wait
    if (cq.channel)
        cq.channel->events.remove_if([&cq](const CompletionEvent& event) { return event.cq == &cq; });
    Context::of(handle->context)->async_events.remove_if([handle](const AsyncEvent& event) {
        return event.event.event_type == IBV_EVENT_CQ_ERR && event.event.element.cq == handle;
    });
    wait_for_acknowledgements(handle->mutex, handle->cond, "ibv_get_cq_event or ibv_get_async_event",
                              [&cq, handle] {
                                  return (cq.events_delivered - handle->comp_events_completed) +
                                         (cq.async_events_delivered - handle->async_events_completed);
                              });
}

}  // namespace

Cq* create_completion_queue(ibv_context* context, const CqSetup& setup) {
    if (!is_usable(*Context::of(context))) return nullptr;
    if (setup.cqe < 1 || setup.cqe > kMaxCqe)
        return fail_null(EINVAL, "cqe is %lld; 1 to %d are possible", static_cast<long long>(setup.cqe),
                         kMaxCqe);
    if (setup.comp_vector < 0 || setup.comp_vector >= context->num_comp_vectors)
        return fail_null(EINVAL, "comp_vector is %lld; the device has %d",
                         static_cast<long long>(setup.comp_vector), context->num_comp_vectors);
    if (setup.channel && setup.channel->context != context)
        return fail_null(EINVAL, "the completion channel belongs to another context");
    const std::uint32_t places = rounded(setup.cqe);
    Cq* cq = unless_out_of_memory([&] {
        auto made = std::make_unique<Cq>();
        made->queue = std::make_unique<completion::CompletionQueue>(places, made.get(), setup.ignore_overrun);
        if (setup.channel) Channel::of(setup.channel)->make_room_for_another();
        return made.release();
    });
    if (!cq) return nullptr;
    cq->shown.self = cq;
    ibv_cq* base = cq->base();
    base->context = context;
    base->channel = setup.channel;
    base->cq_context = setup.cq_context;
    base->cqe = static_cast<int>(places);
    pthread_mutex_init(&base->mutex, nullptr);
    pthread_cond_init(&base->cond, nullptr);
    if (setup.channel) {
        cq->channel = Channel::of(setup.channel);
        cq->channel->cqs++;
    }
    Context& owner = *Context::of(context);
    cq->record = owner.process->show(owner, {.kind = adapter::ObjectKind::completion_queue, .size = places});
    return cq;
}

}  // namespace verbena::verbs

using namespace verbena;
using namespace verbena::verbs;

extern "C" {

struct ibv_cq* ibv_create_cq(struct ibv_context* context, int cqe, void* cq_context,
                             struct ibv_comp_channel* channel, int comp_vector) {
    if (const Fault fault{"ibv_create_cq"}) return fault.null();
    Call call("ibv_create_cq");
    const NoCancellation whole;
    Cq* cq = create_completion_queue(context, {cqe, cq_context, channel, comp_vector});
    return cq ? cq->base() : nullptr;
}

int ibv_resize_cq(struct ibv_cq* handle, int cqe) {
    if (const Fault fault{"ibv_resize_cq"}) return fault.error();
    Call call("ibv_resize_cq");
    if (cqe < 1 || cqe > kMaxCqe) return fail(EINVAL, "cqe is %d; 1 to %d are possible", cqe, kMaxCqe);
    if (!is_usable(*Context::of(handle->context))) return errno;
    Cq* cq = Cq::of(handle);
    const std::uint32_t places = rounded(cqe);
    if (int error = unless_out_of_memory([&] { return cq->queue->resize(places); })) return error;
    handle->cqe = static_cast<int>(places);
    if (cq->record) cq->record->size = places;
    return 0;
}

int ibv_destroy_cq(struct ibv_cq* handle) {
    if (const Fault fault{"ibv_destroy_cq"}) return fault.error();
    Call call("ibv_destroy_cq");
    const NoCancellation whole;
    Cq* cq = Cq::of(handle);
    if (std::uint32_t users = cq->users)
        return fail(EBUSY, "%u queue pairs still use the completion queue", users);
    if (cq->domain) cq->domain->leave();
    Context::of(handle->context)->process->hide(cq->record);
    if (!Context::of(handle->context)->process->forked()) forget_events(*cq);
    pthread_mutex_destroy(&handle->mutex);
    pthread_cond_destroy(&handle->cond);
    if (cq->channel) cq->channel->cqs--;  // it may go from now on
    delete cq;
    return 0;
}

}  // extern "C"
