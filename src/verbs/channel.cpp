// Completion channels and completion events (ibv_get_cq_event(3)).

#include <infiniband/verbs.h>
#include <pthread.h>

#include <cassert>
#include <cerrno>
#include <new>

#include "adapter/engine.h"
#include "base/call_fault.h"
#include "base/no_cancellation.h"
#include "base/out_of_memory.h"
#include "base/reason.h"
#include "verbs/objects.h"
#include "verbs/posting.h"
#include "verbs/process.h"

namespace verbena::verbs {

void Cq::completion_event(completion::CompletionQueue&) {
    if (channel) channel->events.push({this});
}

void Cq::overrun(completion::CompletionQueue&) {
    log(LogLevel::warn,
        "the completion queue of %u places has overrun: it is lost, and so are its queue pairs "
        "(IBV_EVENT_CQ_ERR); make it larger, or poll more often",
        queue->capacity());
    AsyncEvent event{};
    event.event.event_type = IBV_EVENT_CQ_ERR;
    event.event.element.cq = base();
    Context::of(shown.base.context)->async_events.push(event);
}

namespace {

class Sleeping {
   public:
    explicit Sleeping(Channel& channel) : sleepers_(channel.sleepers) { sleepers_++; }
    ~Sleeping() { sleepers_--; }
    Sleeping(const Sleeping&) = delete;
    Sleeping& operator=(const Sleeping&) = delete;

   private:
    std::atomic<unsigned>& sleepers_;
};

void deliver(const CompletionEvent& event) {
    event.cq->poller.store(this_thread(), std::memory_order_relaxed);
    event.cq->poller_at_work.store(true, std::memory_order_relaxed);  // the thread is going to poll
    pthread_mutex_lock(&event.cq->base()->mutex);
    event.cq->events_delivered++;
    pthread_mutex_unlock(&event.cq->base()->mutex);
}

}  // namespace
}  // namespace verbena::verbs

using namespace verbena;
using namespace verbena::verbs;

extern "C" {

struct ibv_comp_channel* ibv_create_comp_channel(struct ibv_context* context) {
    if (const Fault fault{"ibv_create_comp_channel"}) return fault.null();
    Call call("ibv_create_comp_channel");
    const NoCancellation whole;
    if (!is_usable(*Context::of(context))) return nullptr;
    Channel* const channel = unless_out_of_memory([] { return new Channel; });
    if (!channel) return nullptr;
    if (channel->events.fd() < 0) {
        delete channel;
        return fail_null(EMFILE, "no file descriptor for the channel");
    }
    channel->base.context = context;
    channel->base.fd = channel->events.fd();
    return &channel->base;
}

int ibv_destroy_comp_channel(struct ibv_comp_channel* handle) {
    if (const Fault fault{"ibv_destroy_comp_channel"}) return fault.error();
    Call call("ibv_destroy_comp_channel");
    const NoCancellation whole;
    Channel* channel = Channel::of(handle);
    if (std::uint32_t cqs = channel->cqs)
        return fail(EBUSY, "%u completion queues still use the channel", cqs);
    delete channel;
    return 0;
}

int ibv_get_cq_event(struct ibv_comp_channel* handle, struct ibv_cq** cq, void** cq_context) {
    if (const Fault fault{"ibv_get_cq_event"}) return fault.minus_one();
    Channel* channel = Channel::of(handle);
    Process* process = Context::of(handle->context)->process;
    if (process->forked()) {
        Call call("ibv_get_cq_event");
        process->refuse();
        return -1;
    }
    channel->reader.store(this_thread(), std::memory_order_relaxed);
    CompletionEvent event{};
    int error = 0;
    if (!channel->events.take_at_once(event, deliver)) {
        const EventQueue<CompletionEvent>::Expecting expecting(channel->events);
        const Sleeping sleeping(*channel);
        if (process->usable() &&
            process->engine().wait_readable(channel->events.awaited()) == adapter::Engine::Wait::interrupted)
            error = EINTR;
        else
            error = channel->events.take(event, deliver);
    }
    if (error) {
        errno = error;
        return -1;
    }
    assert(event.cq);
    ibv_cq* base = event.cq->base();
    *cq = base;
    *cq_context = base->cq_context;
    return 0;
}

void ibv_ack_cq_events(struct ibv_cq* cq, unsigned int nevents) {
    pthread_mutex_lock(&cq->mutex);
    cq->comp_events_completed += nevents;
    pthread_cond_signal(&cq->cond);
    pthread_mutex_unlock(&cq->mutex);
}

}  // extern "C"
