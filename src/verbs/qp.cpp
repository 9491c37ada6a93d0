// Queue pairs: creation, destruction, their asynchronous events. States and attributes are in
// qp_attributes.cpp.

#include "verbs/qp.h"

#include <infiniband/verbs.h>
#include <pthread.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <memory_resource>
#include <new>

#include "adapter/clock.h"
#include "base/call_fault.h"
#include "base/dense_memory.h"
#include "base/no_cancellation.h"
#include "base/out_of_memory.h"
#include "base/reason.h"
#include "host/client.h"
#include "verbs/acknowledgements.h"
#include "verbs/limits.h"
#include "verbs/multicast.h"
#include "verbs/objects.h"
#include "verbs/process.h"
#include "verbs/queries.h"
#include "verbs/xrc.h"

namespace verbena::verbs {
namespace {

int check_capabilities(const ibv_qp_cap& cap, bool shared_receives) {
    auto check = [](const char* what, std::uint32_t asked, int limit) {
        if (asked <= static_cast<std::uint32_t>(limit)) return 0;
        return fail(EINVAL, "cap.%s is %u; the device's limit is %d", what, asked, limit);
    };
    if (int error = check("max_send_wr", cap.max_send_wr, kMaxQpWr)) return error;
    if (int error = check("max_send_sge", cap.max_send_sge, kMaxSge)) return error;
    if (!shared_receives) {
        if (int error = check("max_recv_wr", cap.max_recv_wr, kMaxQpWr)) return error;
        if (int error = check("max_recv_sge", cap.max_recv_sge, kMaxSge)) return error;
    }
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

bool is_xrc(ibv_qp_type type) { return type == IBV_QPT_XRC_SEND || type == IBV_QPT_XRC_RECV; }

// Annex A14: the initiator has no receive queue, the target neither queue.
int check_xrc_setup(const ibv_context* context, const ibv_pd* pd, const ibv_xrcd* xrcd,
                    const ibv_qp_init_attr& attr) {
    if (attr.qp_type == IBV_QPT_XRC_RECV) {
        if (!xrcd) return fail(EINVAL, "an XRC_RECV queue pair needs an XRC domain");
        if (xrcd->context != context) return fail(EINVAL, "the XRC domain belongs to another context");
        return 0;
    }
    if (!pd) return fail(EINVAL, "an XRC_SEND queue pair needs a protection domain");
    if (!attr.send_cq) return fail(EINVAL, "an XRC_SEND queue pair needs a send_cq");
    if (attr.send_cq->context != pd->context)
        return fail(EINVAL, "the completion queue and the protection domain belong to different contexts");
    return check_capabilities(attr.cap, true);
}

int check_setup(const ibv_context* context, const ibv_pd* pd, const ibv_xrcd* xrcd,
                const ibv_qp_init_attr& attr) {
    if (is_xrc(attr.qp_type)) return check_xrc_setup(context, pd, xrcd, attr);
    if (!pd) return fail(EINVAL, "a queue pair needs a protection domain");
    if (!attr.send_cq || !attr.recv_cq) return fail(EINVAL, "a queue pair needs a send_cq and a recv_cq");
    if (attr.send_cq->context != pd->context || attr.recv_cq->context != pd->context)
        return fail(EINVAL, "the completion queues and the protection domain belong to different contexts");
    if (attr.srq && attr.srq->context != pd->context)
        return fail(EINVAL, "the SRQ belongs to another context");
    if (attr.srq && Srq::of(attr.srq)->xrcd)
        return fail(EINVAL, "the SRQ is an XRC one, of which XRC queue pairs take receives");
    return check_capabilities(attr.cap, attr.srq != nullptr);
}

// What the queue pair really gets: nothing of what its type lacks, and as many bytes inline as the elements
// of a request take, which programs count on that ask for none.
void settle(ibv_qp_init_attr& attr) {
    constexpr auto kMost = static_cast<std::uint32_t>(kMaxInline);
    const std::uint32_t free = std::min<std::uint32_t>(attr.cap.max_send_sge * sizeof(ibv_sge), kMost);
    attr.cap.max_inline_data = std::max(attr.cap.max_inline_data, free);
    if (attr.srq || is_xrc(attr.qp_type)) attr.cap.max_recv_wr = attr.cap.max_recv_sge = 0;
    if (is_xrc(attr.qp_type)) {
        attr.recv_cq = nullptr;
        attr.srq = nullptr;  // the requests that arrive name it
    }
    if (attr.qp_type != IBV_QPT_XRC_RECV) return;
    attr.send_cq = nullptr;
    attr.cap = {};
}

transport::QpSetup transport_setup(const Pd* pd, const Xrcd* xrcd, const ibv_qp_init_attr& attr,
                                   transport::QpListener* listener, Context& context) {
    transport::QpSetup setup;
    setup.service = static_cast<transport::Service>(attr.qp_type);
    if (pd) setup.pd = pd->number;
    if (xrcd) setup.xrc_domain = xrcd->domain;
    setup.capabilities = {attr.cap.max_send_wr, attr.cap.max_recv_wr, attr.cap.max_send_sge,
                          attr.cap.max_recv_sge, attr.cap.max_inline_data};
    setup.signal_all = attr.sq_sig_all;
    if (attr.send_cq) setup.send_cq = Cq::of(attr.send_cq)->queue.get();
    if (attr.recv_cq) setup.receive_cq = Cq::of(attr.recv_cq)->queue.get();
    setup.shared_receive_queue = attr.srq != nullptr;
    if (attr.srq)
        setup.receive_queue = Srq::of(attr.srq)->queue;
    else if (!is_xrc(attr.qp_type))
        setup.receive_queue = std::allocate_shared<transport::ReceiveQueue>(
            std::pmr::polymorphic_allocator<>(&dense_memory()), attr.cap.max_recv_wr, attr.cap.max_recv_sge);
    setup.regions = &context.process->adapter().regions();
    setup.listener = listener;
    const auto number_of = [](ibv_cq* cq) {
        const adapter::ObjectRecord* record = cq ? Cq::of(cq)->record : nullptr;
        return record ? record->number : 0;
    };
    setup.device = context.device->index;
    setup.send_cq_number = number_of(attr.send_cq);
    setup.receive_cq_number = number_of(attr.recv_cq);
    host::Device device;
    if (find_device(context, device)) setup.port_mtu = 128u << device.active_mtu;
    return setup;
}

ibv_qp* make(Context& context, ibv_pd* pd, ibv_xrcd* xrcd, const ibv_qp_init_attr& attr,
             std::uint32_t flags) {
    auto qp = std::make_unique<QueuePair>();
    qp->context = &context;
    qp->created = attr;
    transport::QpListener* listener = qp.get();
    if (xrcd) {
        qp->xrcd = Xrcd::of(xrcd);
        qp->target = std::make_shared<XrcTarget>(qp->xrcd->domain);
        listener = qp->target.get();
    }
    transport::QpSetup wanted = transport_setup(pd ? Pd::of(pd) : nullptr, qp->xrcd, attr, listener, context);
    wanted.block_own_multicast = flags & IBV_QP_CREATE_BLOCK_SELF_MCAST_LB;
    qp->qp = context.process->create_qp(wanted);
    if (!qp->qp) return nullptr;
    QueuePair& made = *qp.release();  // it is known to others from now on
    show_or_destroy(made, pd);
    return made.base();
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

ibv_qp* create_queue_pair(ibv_context* handle, ibv_pd* pd, ibv_xrcd* xrcd, const ibv_qp_init_attr& wanted,
                          std::uint32_t flags) {
    ibv_qp_init_attr attr = wanted;
    Context* context = Context::of(handle);
    if (!is_usable(*context)) return nullptr;
    if (!is_qp_type(attr.qp_type))
        return fail_null(EINVAL, "qp_type is %d, which does not exist", attr.qp_type);
    if (attr.qp_type != IBV_QPT_XRC_RECV) xrcd = nullptr;  // the others have none, whatever is given
    if (check_setup(handle, pd, xrcd, attr) != 0) return nullptr;
    if (attr.qp_type == IBV_QPT_RAW_PACKET || attr.qp_type == IBV_QPT_DRIVER)
        return fail_null(EOPNOTSUPP, "queue pairs of type %d are not supported", attr.qp_type);
    settle(attr);
    return unless_out_of_memory([&] { return make(*context, pd, xrcd, attr, flags); });
}

namespace {

// Once, where it has the same one on both sides.
void for_each_queue(const ibv_qp& qp, auto&& visit) {
    if (qp.send_cq) visit(*Cq::of(qp.send_cq));
    if (qp.recv_cq && qp.recv_cq != qp.send_cq) visit(*Cq::of(qp.recv_cq));
}

void show(QueuePair& qp, ibv_pd* pd) {
    const ibv_qp_init_attr& attr = qp.created;
    const transport::QpSetup& setup = qp.qp->setup();
    qp.own_receives = setup.own_receives();
    ibv_qp* base = qp.base();
    base->context = qp.context->base();
    base->qp_context = attr.qp_context;
    base->pd = pd;
    base->send_cq = attr.send_cq;
    base->recv_cq = attr.recv_cq;
    base->srq = attr.srq;
    base->qp_num = base->handle = qp.qp->number();
    base->state = IBV_QPS_RESET;
    base->qp_type = attr.qp_type;
    pthread_mutex_init(&base->mutex, nullptr);
    pthread_cond_init(&base->cond, nullptr);

    if (pd) Pd::of(pd)->enter();
    for_each_queue(*base, [](Cq& cq) { cq.users++; });
    if (attr.srq) Srq::of(attr.srq)->users++;
    if (qp.xrcd) qp.xrcd->users++;
    {
        std::lock_guard lock(qp.context->objects_lock);
        qp.context->queue_pairs.insert(&qp);
        qp.context->make_room_for_events();
    }
    if (qp.target) XrcTarget::enroll(qp);
    qp.context->process->engine().start();
}

}  // namespace

void show_or_destroy(QueuePair& qp, ibv_pd* pd) {
    try {
        show(qp, pd);
    } catch (const std::bad_alloc&) {
        destroy_queue_pair(qp);
        throw;
    }
}

void destroy_queue_pair(QueuePair& qp) {
    ibv_qp* base = qp.base();
    Context* context = qp.context;
    {
        // Who finds it in the set, holding the lock, may use it.
        std::lock_guard lock(context->objects_lock);
        context->queue_pairs.erase(&qp);
    }
    detach_all(qp);
    const bool last = !qp.target || XrcTarget::leave(qp);
    if (last && !context->process->forked()) {
        adapter::Adapter& adapter = context->process->adapter();
        adapter.destroy_qp(qp.qp, adapter::now());
        // Its last acknowledgement may have come to our own queue where packets are not steered: it is passed
        // on before the process ends.
        adapter.settle(adapter::now());
        context->process->engine().posted();
    }
    if (!context->process->forked()) {
        context->async_events.remove_if(
            [&](const AsyncEvent& event) { return is_event_of(event.event, base); });
        // Asynchronous events that the program took must be acknowledged first (ibv_ack_async_event(3)).
        wait_for_acknowledgements(base->mutex, base->cond, "ibv_get_async_event",
                                  [&qp, base] { return qp.async_events_delivered - base->events_completed; });
    }
    pthread_mutex_destroy(&base->mutex);
    pthread_cond_destroy(&base->cond);
    if (base->pd) Pd::of(base->pd)->leave();
    for_each_queue(*base, [](Cq& cq) { cq.users--; });
    if (base->srq) Srq::of(base->srq)->users--;
    if (qp.xrcd) qp.xrcd->users--;
    delete &qp;
}

}  // namespace verbena::verbs

using namespace verbena;
using namespace verbena::verbs;

extern "C" {

struct ibv_qp* ibv_create_qp(struct ibv_pd* pd, struct ibv_qp_init_attr* attr) {
    if (const Fault fault{"ibv_create_qp"}) return fault.null();
    Call call("ibv_create_qp");
    const NoCancellation whole;
    if (!pd) return fail_null(EINVAL, "the protection domain is NULL");
    ibv_qp* const qp = create_queue_pair(pd->context, pd, nullptr, *attr);
    if (qp) attr->cap = QueuePair::of(qp)->created.cap;
    return qp;
}

int ibv_destroy_qp(struct ibv_qp* qp) {
    if (const Fault fault{"ibv_destroy_qp"}) return fault.error();
    Call call("ibv_destroy_qp", "QP", qp->qp_num);
    const NoCancellation whole;
    if (int error = check_detached(*QueuePair::of(qp))) return error;
    destroy_queue_pair(*QueuePair::of(qp));
    return 0;
}

}  // extern "C"
