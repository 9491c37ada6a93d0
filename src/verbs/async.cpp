// Asynchronous events of a context (ibv_get_async_event(3)).

#include <infiniband/verbs.h>
#include <pthread.h>

#include <cerrno>

#include "base/call_fault.h"
#include "base/reason.h"
#include "verbs/objects.h"
#include "verbs/process.h"
#include "verbs/qp.h"
#include "verbs/srq.h"

namespace verbena::verbs {
namespace {

enum class Subject { none, cq, qp, srq };

Subject subject_of(ibv_event_type type) {
    switch (type) {
        case IBV_EVENT_CQ_ERR:
            return Subject::cq;
        case IBV_EVENT_QP_FATAL:
        case IBV_EVENT_QP_REQ_ERR:
        case IBV_EVENT_QP_ACCESS_ERR:
        case IBV_EVENT_COMM_EST:
        case IBV_EVENT_SQ_DRAINED:
        case IBV_EVENT_PATH_MIG:
        case IBV_EVENT_PATH_MIG_ERR:
        case IBV_EVENT_QP_LAST_WQE_REACHED:
            return Subject::qp;
        case IBV_EVENT_SRQ_ERR:
        case IBV_EVENT_SRQ_LIMIT_REACHED:
            return Subject::srq;
        default:
            return Subject::none;
    }
}

// The object's destruction waits until the event is acknowledged.
void count_delivery(const ibv_async_event& event) {
    switch (subject_of(event.event_type)) {
        case Subject::cq:
            pthread_mutex_lock(&event.element.cq->mutex);
            Cq::of(event.element.cq)->async_events_delivered++;
            pthread_mutex_unlock(&event.element.cq->mutex);
            break;
        case Subject::qp:
            pthread_mutex_lock(&event.element.qp->mutex);
            QueuePair::of(event.element.qp)->async_events_delivered++;
            pthread_mutex_unlock(&event.element.qp->mutex);
            break;
        case Subject::srq:
            pthread_mutex_lock(&event.element.srq->mutex);
            Srq::of(event.element.srq)->async_events_delivered++;
            pthread_mutex_unlock(&event.element.srq->mutex);
            break;
        case Subject::none:
            break;
    }
}

}  // namespace

bool is_event_of(const ibv_async_event& event, const ibv_qp* qp) {
    return subject_of(event.event_type) == Subject::qp && event.element.qp == qp;
}

bool is_event_of(const ibv_async_event& event, const ibv_srq* srq) {
    return subject_of(event.event_type) == Subject::srq && event.element.srq == srq;
}

}  // namespace verbena::verbs

using namespace verbena;
using namespace verbena::verbs;

extern "C" {

int ibv_get_async_event(struct ibv_context* handle, struct ibv_async_event* out) {
    if (const Fault fault{"ibv_get_async_event"}) return fault.minus_one();
    Context* context = Context::of(handle);
    if (context->process->forked()) {
        Call call("ibv_get_async_event");
        context->process->refuse();
        return -1;
    }
    AsyncEvent event;
    int error =
        context->async_events.take(event, [](const AsyncEvent& taken) { count_delivery(taken.event); });
    if (error) {
        errno = error;
        return -1;
    }
    *out = event.event;
    return 0;
}

void ibv_ack_async_event(struct ibv_async_event* event) {
    auto acknowledge = [](pthread_mutex_t& mutex, pthread_cond_t& cond, std::uint32_t& completed) {
        pthread_mutex_lock(&mutex);
        completed++;
        pthread_cond_signal(&cond);
        pthread_mutex_unlock(&mutex);
    };
    switch (subject_of(event->event_type)) {
        case Subject::cq:
            acknowledge(event->element.cq->mutex, event->element.cq->cond,
                        event->element.cq->async_events_completed);
            break;
        case Subject::qp:
            acknowledge(event->element.qp->mutex, event->element.qp->cond,
                        event->element.qp->events_completed);
            break;
        case Subject::srq:
            acknowledge(event->element.srq->mutex, event->element.srq->cond,
                        event->element.srq->events_completed);
            break;
        case Subject::none:
            break;
    }
}

}  // extern "C"
