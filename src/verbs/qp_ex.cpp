// Extended queue pairs (ibv_create_qp_ex(3)); work_builder.h has their ibv_wr_* interface.

#include <infiniband/verbs.h>

#include <cerrno>

#include "base/call_fault.h"
#include "base/no_cancellation.h"
#include "base/out_of_memory.h"
#include "base/reason.h"
#include "verbs/objects.h"
#include "verbs/qp.h"
#include "verbs/work_builder.h"

namespace verbena::verbs {

ibv_qp* create_qp_ex(ibv_context* context, ibv_qp_init_attr_ex* attr) {
    Call call("ibv_create_qp_ex");
    const NoCancellation whole;
    if (const Fault fault{"ibv_create_qp_ex"}) return fault.null();
    constexpr std::uint32_t kExist = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_XRCD |
                                     IBV_QP_INIT_ATTR_CREATE_FLAGS | IBV_QP_INIT_ATTR_MAX_TSO_HEADER |
                                     IBV_QP_INIT_ATTR_IND_TABLE | IBV_QP_INIT_ATTR_RX_HASH |
                                     IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    constexpr std::uint32_t kKnown = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_XRCD |
                                     IBV_QP_INIT_ATTR_CREATE_FLAGS | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    if (attr->comp_mask & ~kExist)
        return fail_null(EINVAL, "comp_mask bits 0x%x do not exist", attr->comp_mask & ~kExist);
    if (attr->comp_mask & ~kKnown)
        return fail_null(EOPNOTSUPP, "comp_mask bits 0x%x are not supported", attr->comp_mask & ~kKnown);
    // Annex A14: the target has an XRC domain in its place.
    const bool target = attr->qp_type == IBV_QPT_XRC_RECV;
    if (!target && (!(attr->comp_mask & IBV_QP_INIT_ATTR_PD) || !attr->pd))
        return fail_null(EINVAL, "comp_mask has no IBV_QP_INIT_ATTR_PD");
    const std::uint32_t flags = attr->comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS ? attr->create_flags : 0;
    const std::uint32_t taken = attr->qp_type == IBV_QPT_UD ? IBV_QP_CREATE_BLOCK_SELF_MCAST_LB : 0;
    if (flags & ~taken) return fail_null(EOPNOTSUPP, "create_flags 0x%x are not supported", flags & ~taken);
    const bool with_builder = attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    if (with_builder && WorkBuilder::check_operations(attr->qp_type, attr->send_ops_flags) != 0)
        return nullptr;
    ibv_pd* pd = attr->comp_mask & IBV_QP_INIT_ATTR_PD ? attr->pd : nullptr;
    if (pd && pd->context != context)
        return fail_null(EINVAL, "the protection domain belongs to another context");
    const ibv_qp_init_attr basic{attr->qp_context, attr->send_cq, attr->recv_cq,   attr->srq,
                                 attr->cap,        attr->qp_type, attr->sq_sig_all};
    ibv_qp* qp = create_queue_pair(
        context, pd, attr->comp_mask & IBV_QP_INIT_ATTR_XRCD ? attr->xrcd : nullptr, basic, flags);
    if (!qp) return nullptr;
    QueuePair* const object = QueuePair::of(qp);
    attr->cap = object->created.cap;
    if (with_builder) {
        object->builder = unless_out_of_memory(
            [&] { return std::make_unique<WorkBuilder>(*object, attr->send_ops_flags); });
        if (!object->builder) {
            destroy_queue_pair(*object);
            errno = ENOMEM;
            return nullptr;
        }
        object->builder->install();
    }
    return qp;
}

}  // namespace verbena::verbs

using namespace verbena::verbs;

extern "C" {

struct ibv_qp_ex* ibv_qp_to_qp_ex(struct ibv_qp* qp) {
    QueuePair* object = QueuePair::of(qp);
    return object->builder ? &object->ex.base : nullptr;
}

}  // extern "C"
