// Shared receive queues (IBA 10.2.9), and those of XRC (annex A14). Requests are posted in posting.cpp.

#include "verbs/srq.h"

#include <infiniband/verbs.h>
#include <pthread.h>

#include <cerrno>
#include <memory>
#include <new>

#include "base/call_fault.h"
#include "base/out_of_memory.h"
#include "base/reason.h"
#include "verbs/acknowledgements.h"
#include "verbs/limits.h"
#include "verbs/objects.h"
#include "verbs/process.h"
#include "verbs/xrc.h"

namespace verbena::verbs {
namespace {

int check_capacity(const ibv_srq_attr& attr) {
    if (attr.max_wr == 0 || attr.max_wr > static_cast<std::uint32_t>(kMaxSrqWr))
        return fail(EINVAL, "max_wr is %u; 1 to %d are possible", attr.max_wr, kMaxSrqWr);
    if (attr.max_sge > static_cast<std::uint32_t>(kMaxSge))
        return fail(EINVAL, "max_sge is %u; the device's limit is %d", attr.max_sge, kMaxSge);
    return 0;
}

int check_xrc(const ibv_context* context, const ibv_xrcd* xrcd, const ibv_cq* cq) {
    if (!xrcd || !cq) return fail(EINVAL, "an XRC queue needs an XRC domain and a completion queue");
    if (xrcd->context != context || cq->context != context)
        return fail(EINVAL, "the XRC domain and the completion queue must be of the same context");
    return 0;
}

void show(Srq& srq, std::uint32_t size) {
    Context& context = *srq.context;
    srq.record = context.process->show(context, {.kind = adapter::ObjectKind::shared_queue,
                                                 .number = srq.number,
                                                 .pd = Pd::of(srq.base()->pd)->number,
                                                 .cq = srq.cq && srq.cq->record ? srq.cq->record->number : 0,
                                                 .size = size});
    std::lock_guard lock(context.objects_lock);
    context.shared_queues.insert(&srq);
    context.make_room_for_events();
}

ibv_srq* make(Context* context, ibv_pd* pd_handle, void* srq_context, const ibv_srq_attr& attr,
              ibv_xrcd* xrcd, ibv_cq* cq) {
    auto made = std::make_unique<Srq>();
    Srq* srq = made.get();
    srq->shown.self = srq;
    srq->context = context;
    srq->xrcd = Xrcd::of(xrcd);
    srq->cq = cq ? Cq::of(cq) : nullptr;
    transport::SharedQueueSetup setup;
    setup.pd = Pd::of(pd_handle)->number;
    setup.listener = srq;
    setup.cq = cq ? srq->cq->queue.get() : nullptr;
    setup.xrc_domain = xrcd ? srq->xrcd->domain : 0;
    srq->queue = std::make_shared<transport::ReceiveQueue>(attr.max_wr, attr.max_sge, setup);
    srq->number = context->process->adapter().add_shared_queue(srq->queue);
    if (srq->number == 0) return fail_null(ENOMEM, "all numbers of shared receive queues are in use");
    static_cast<void>(made.release());  // it is known to others from now on
    ibv_srq* base = srq->base();
    base->context = pd_handle->context;
    base->srq_context = srq_context;
    base->pd = pd_handle;
    base->handle = srq->number;
    pthread_mutex_init(&base->mutex, nullptr);
    pthread_cond_init(&base->cond, nullptr);
    Pd::of(pd_handle)->enter();
    if (srq->cq) srq->cq->users++;
    if (srq->xrcd) srq->xrcd->users++;
    try {
        show(*srq, attr.max_wr);
    } catch (const std::bad_alloc&) {
        destroy_shared_queue(*srq);
        throw;
    }
    return base;
}

// `xrcd` and `cq`: of an XRC queue, otherwise nullptr.
ibv_srq* create(ibv_pd* pd, void* srq_context, const ibv_srq_attr& attr, ibv_xrcd* xrcd, ibv_cq* cq) {
    Context* context = Context::of(pd->context);
    if (!is_usable(*context) || check_capacity(attr) != 0) return nullptr;
    return unless_out_of_memory([&] { return make(context, pd, srq_context, attr, xrcd, cq); });
}

}  // namespace

void Srq::limit_reached(transport::ReceiveQueue&) {
    AsyncEvent event{};
    event.event.event_type = IBV_EVENT_SRQ_LIMIT_REACHED;
    event.event.element.srq = base();
    context->async_events.push(event);
}

ibv_srq* create_srq_ex(ibv_context* context, ibv_srq_init_attr_ex* attr) {
    Call call("ibv_create_srq_ex");
    if (const Fault fault{"ibv_create_srq_ex"}) return fault.null();
    constexpr std::uint32_t kKnown =
        IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
    if (attr->comp_mask & ~kKnown)
        return fail_null(EOPNOTSUPP, "comp_mask bits 0x%x are not supported", attr->comp_mask & ~kKnown);
    const ibv_srq_type type =
        attr->comp_mask & IBV_SRQ_INIT_ATTR_TYPE ? attr->srq_type : static_cast<ibv_srq_type>(IBV_SRQT_BASIC);
    if (type == IBV_SRQT_TM) return fail_null(EOPNOTSUPP, "tag matching is not supported");
    if (type != IBV_SRQT_BASIC && type != IBV_SRQT_XRC)
        return fail_null(EINVAL, "srq_type is %d, which does not exist", static_cast<int>(type));
    if (!(attr->comp_mask & IBV_SRQ_INIT_ATTR_PD) || !attr->pd)
        return fail_null(EINVAL, "comp_mask has no IBV_SRQ_INIT_ATTR_PD");
    if (attr->pd->context != context)
        return fail_null(EINVAL, "the protection domain belongs to another context");
    if (type == IBV_SRQT_BASIC) return create(attr->pd, attr->srq_context, attr->attr, nullptr, nullptr);
    ibv_xrcd* xrcd = attr->comp_mask & IBV_SRQ_INIT_ATTR_XRCD ? attr->xrcd : nullptr;
    ibv_cq* cq = attr->comp_mask & IBV_SRQ_INIT_ATTR_CQ ? attr->cq : nullptr;
    if (int error = check_xrc(context, xrcd, cq)) {
        errno = error;
        return nullptr;
    }
    return create(attr->pd, attr->srq_context, attr->attr, xrcd, cq);
}

int get_srq_num(ibv_srq* base, std::uint32_t* number) {
    Call call("ibv_get_srq_num");
    if (const Fault fault{"ibv_get_srq_num"}) return fault.error();
    *number = Srq::of(base)->number;
    return 0;
}

void destroy_shared_queue(Srq& srq) {
    ibv_srq* base = srq.base();
    Context* context = srq.context;
    {
        std::lock_guard lock(context->objects_lock);
        context->shared_queues.erase(&srq);
    }
    if (!context->process->forked()) {
        context->process->adapter().remove_shared_queue(srq.number);
        context->async_events.remove_if(
            [&](const AsyncEvent& event) { return is_event_of(event.event, base); });
        wait_for_acknowledgements(base->mutex, base->cond, "ibv_get_async_event", [&srq, base] {
            return srq.async_events_delivered - base->events_completed;
        });
    }
    pthread_mutex_destroy(&base->mutex);
    pthread_cond_destroy(&base->cond);
    Pd::of(base->pd)->leave();
    if (srq.cq) srq.cq->users--;
    if (srq.xrcd) srq.xrcd->users--;
    context->process->hide(srq.record);
    delete &srq;
}

}  // namespace verbena::verbs

using namespace verbena;
using namespace verbena::verbs;

extern "C" {

struct ibv_srq* ibv_create_srq(struct ibv_pd* pd, struct ibv_srq_init_attr* attr) {
    if (const Fault fault{"ibv_create_srq"}) return fault.null();
    Call call("ibv_create_srq");
    return create(pd, attr->srq_context, attr->attr, nullptr, nullptr);
}

int ibv_modify_srq(struct ibv_srq* base, struct ibv_srq_attr* attr, int mask) {
    if (const Fault fault{"ibv_modify_srq"}) return fault.error();
    Call call("ibv_modify_srq");
    Srq* srq = Srq::of(base);
    if (!is_usable(*srq->context)) return errno;
    if (mask & ~(IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT))
        return fail(EINVAL, "srq_attr_mask 0x%x has unknown bits", mask);
    const std::uint32_t capacity = mask & IBV_SRQ_MAX_WR ? attr->max_wr : srq->queue->capacity();
    // Nothing changes if anything is wrong.
    if ((mask & IBV_SRQ_MAX_WR) &&
        (attr->max_wr == 0 || attr->max_wr > static_cast<std::uint32_t>(kMaxSrqWr)))
        return fail(EINVAL, "max_wr is %u; 1 to %d are possible", attr->max_wr, kMaxSrqWr);
    if ((mask & IBV_SRQ_LIMIT) && attr->srq_limit > capacity)
        return fail(EINVAL, "srq_limit is %u; the queue takes %u requests", attr->srq_limit, capacity);
    if (mask & IBV_SRQ_MAX_WR)
        if (int error = unless_out_of_memory([&] { return srq->queue->resize(attr->max_wr); })) return error;
    if (mask & IBV_SRQ_LIMIT) srq->queue->arm_limit(attr->srq_limit);
    return 0;
}

int ibv_query_srq(struct ibv_srq* base, struct ibv_srq_attr* attr) {
    if (const Fault fault{"ibv_query_srq"}) return fault.error();
    Call call("ibv_query_srq");
    Srq* srq = Srq::of(base);
    if (srq->context->process->forked()) return srq->context->process->refuse();
    attr->max_wr = srq->queue->capacity();
    attr->max_sge = srq->queue->max_sge();
    attr->srq_limit = srq->queue->limit();
    return 0;
}

int ibv_destroy_srq(struct ibv_srq* base) {
    if (const Fault fault{"ibv_destroy_srq"}) return fault.error();
    Call call("ibv_destroy_srq");
    Srq* srq = Srq::of(base);
    if (std::uint32_t users = srq->users)
        return fail(EBUSY, "%u queue pairs still use the shared receive queue", users);
    destroy_shared_queue(*srq);
    return 0;
}

}  // extern "C"
