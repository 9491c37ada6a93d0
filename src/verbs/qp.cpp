// Queue pairs: creation, destruction, their asynchronous events. States and attributes are in
// qp_attributes.cpp.

#include "verbs/qp.h"

#include <infiniband/verbs.h>
#include <pthread.h>

#include <cerrno>
#include <new>

#include "adapter/clock.h"
#include "base/reason.h"
#include "host/client.h"
#include "verbs/limits.h"
#include "verbs/objects.h"
#include "verbs/process.h"

namespace verbena::verbs {
namespace {

int check_capabilities(const ibv_qp_cap& cap) {
    auto check = [](const char* what, std::uint32_t asked, int limit) {
        if (asked <= static_cast<std::uint32_t>(limit)) return 0;
        return fail(EINVAL, "cap.%s is %u; the device's limit is %d", what, asked, limit);
    };
    if (int error = check("max_send_wr", cap.max_send_wr, kMaxQpWr)) return error;
    if (int error = check("max_recv_wr", cap.max_recv_wr, kMaxQpWr)) return error;
    if (int error = check("max_send_sge", cap.max_send_sge, kMaxSge)) return error;
    if (int error = check("max_recv_sge", cap.max_recv_sge, kMaxSge)) return error;
    return check("max_inline_data", cap.max_inline_data, kMaxInline);
}

bool is_qp_type(int type) {
    switch (type) {
        case IBV_QPT_RC:
        case IBV_QPT_UC:
        case IBV_QPT_UD:
        case IBV_QPT_RAW_PACKET:
        case IBV_QPT_XRC_SEND:
        case IBV_QPT_XRC_RECV:
        case IBV_QPT_DRIVER:
            return true;
        default:
            return false;
    }
}

int check_setup(ibv_pd* pd, const ibv_qp_init_attr& attr) {
    if (!attr.send_cq || !attr.recv_cq) return fail(EINVAL, "a queue pair needs a send_cq and a recv_cq");
    if (attr.send_cq->context != pd->context || attr.recv_cq->context != pd->context)
        return fail(EINVAL, "the completion queues and the protection domain belong to different contexts");
    if (attr.srq && attr.srq->context != pd->context)
        return fail(EINVAL, "the SRQ belongs to another context");
    return check_capabilities(attr.cap);
}

transport::QpSetup transport_setup(Pd& pd, const ibv_qp_init_attr& attr, QueuePair* listener,
                                   Context& context) {
    transport::QpSetup setup;
    setup.service = static_cast<transport::Service>(attr.qp_type);
    setup.pd = pd.number;
    setup.capabilities = {attr.cap.max_send_wr, attr.cap.max_recv_wr, attr.cap.max_send_sge,
                          attr.cap.max_recv_sge, attr.cap.max_inline_data};
    setup.signal_all = attr.sq_sig_all;
    setup.send_cq = Cq::of(attr.send_cq)->queue.get();
    setup.receive_cq = Cq::of(attr.recv_cq)->queue.get();
    setup.receive_queue =
        std::make_shared<transport::ReceiveQueue>(attr.cap.max_recv_wr, attr.cap.max_recv_sge);
    setup.regions = &context.process->adapter().regions();
    setup.listener = listener;
    return setup;
}

ibv_event_type public_event(transport::QpEvent event) { return static_cast<ibv_event_type>(event); }

static_assert(static_cast<int>(transport::QpEvent::fatal) == IBV_EVENT_QP_FATAL);
static_assert(static_cast<int>(transport::QpEvent::request_error) == IBV_EVENT_QP_REQ_ERR);
static_assert(static_cast<int>(transport::QpEvent::access_error) == IBV_EVENT_QP_ACCESS_ERR);
static_assert(static_cast<int>(transport::QpEvent::communication_established) == IBV_EVENT_COMM_EST);
static_assert(static_cast<int>(transport::QpEvent::send_queue_drained) == IBV_EVENT_SQ_DRAINED);
static_assert(static_cast<int>(transport::QpEvent::last_wqe_reached) == IBV_EVENT_QP_LAST_WQE_REACHED);

}  // namespace

void QueuePair::qp_event(transport::QueuePair&, transport::QpEvent event) {
    if (event == transport::QpEvent::communication_established) {
        // The connection manager takes the first packet for the RTU that may still be on its way
        // (IBA 12.9.7.2).
        host::QpRequest request{base()->qp_num};
        host::tell(host::Command::communication_established,
                   {reinterpret_cast<const std::uint8_t*>(&request), sizeof request});
    }
    AsyncEvent asynchronous{};
    asynchronous.event.event_type = public_event(event);
    asynchronous.event.element.qp = base();
    context->async_events.push(asynchronous);
}

ibv_qp* create_queue_pair(ibv_pd* pd_handle, ibv_qp_init_attr& attr) {
    Pd* pd = Pd::of(pd_handle);
    Context* context = Context::of(pd_handle->context);
    if (!context->process->usable()) {
        context->process->refuse();
        return nullptr;
    }
    if (int error = check_setup(pd_handle, attr)) {
        errno = error;
        return nullptr;
    }
    if (!is_qp_type(attr.qp_type))
        return fail_null(EINVAL, "qp_type is %d, which does not exist", attr.qp_type);
    if (attr.qp_type != IBV_QPT_RC)
        return fail_null(EOPNOTSUPP, "queue pairs of type %d are not supported yet", attr.qp_type);
    if (attr.srq) return fail_null(EOPNOTSUPP, "shared receive queues are not supported yet");

    auto* qp = new (std::nothrow) QueuePair;
    if (!qp) return fail_null(ENOMEM, "no memory");
    qp->context = context;
    qp->qp = context->process->adapter().create_qp(transport_setup(*pd, attr, qp, *context));
    if (!qp->qp) {
        delete qp;
        return nullptr;
    }
    qp->shown.self = qp;
    ibv_qp* base = qp->base();
    base->context = pd_handle->context;
    base->qp_context = attr.qp_context;
    base->pd = pd_handle;
    base->send_cq = attr.send_cq;
    base->recv_cq = attr.recv_cq;
    base->srq = attr.srq;
    base->qp_num = base->handle = qp->qp->number();
    base->state = IBV_QPS_RESET;
    base->qp_type = attr.qp_type;
    pthread_mutex_init(&base->mutex, nullptr);
    pthread_cond_init(&base->cond, nullptr);
    qp->created = attr;

    pd->users++;
    Cq::of(attr.send_cq)->users++;
    Cq::of(attr.recv_cq)->users++;
    {
        std::lock_guard lock(context->objects_lock);
        context->queue_pairs.insert(qp);
    }
    context->process->engine().start();
    return base;
}

void destroy_queue_pair(QueuePair& qp) {
    ibv_qp* base = qp.base();
    Context* context = qp.context;
    {
        // Who finds it in the set, holding the lock, may use it.
        std::lock_guard lock(context->objects_lock);
        context->queue_pairs.erase(&qp);
    }
    if (!context->process->forked()) {
        adapter::Adapter& adapter = context->process->adapter();
        adapter.destroy_qp(qp.qp, adapter::now());
        // Its last acknowledgement may have come to our own queue where packets are not steered: it is passed
        // on before the process ends.
        adapter.settle(adapter::now());
    }
    if (!context->process->forked()) {
        context->async_events.remove_if(
            [&](const AsyncEvent& event) { return is_event_of(event.event, base); });
        // Asynchronous events that the program took must be acknowledged first (ibv_ack_async_event(3)).
        pthread_mutex_lock(&base->mutex);
        while (base->events_completed != qp.async_events_delivered)
            pthread_cond_wait(&base->cond, &base->mutex);
        pthread_mutex_unlock(&base->mutex);
    }
    pthread_mutex_destroy(&base->mutex);
    pthread_cond_destroy(&base->cond);
    Pd::of(base->pd)->users--;
    Cq::of(base->send_cq)->users--;
    Cq::of(base->recv_cq)->users--;
    delete &qp;
}

}  // namespace verbena::verbs

using namespace verbena;
using namespace verbena::verbs;

extern "C" {

struct ibv_qp* ibv_create_qp(struct ibv_pd* pd, struct ibv_qp_init_attr* attr) {
    Call call("ibv_create_qp");
    return create_queue_pair(pd, *attr);
}

int ibv_destroy_qp(struct ibv_qp* qp) {
    Call call("ibv_destroy_qp", "QP", qp->qp_num);
    destroy_queue_pair(*QueuePair::of(qp));
    return 0;
}

}  // extern "C"
