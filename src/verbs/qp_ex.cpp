// Extended queue pairs (ibv_create_qp_ex(3)). The ibv_wr_* interface is not supported yet.

#include <infiniband/verbs.h>

#include <cerrno>

#include "base/reason.h"
#include "verbs/qp.h"

namespace verbena::verbs {

ibv_qp* create_qp_ex(ibv_context* context, ibv_qp_init_attr_ex* attr) {
    Call call("ibv_create_qp_ex");
    constexpr std::uint32_t kKnown =
        IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    if (!(attr->comp_mask & IBV_QP_INIT_ATTR_PD) || !attr->pd)
        return fail_null(EINVAL, "comp_mask has no IBV_QP_INIT_ATTR_PD");
    if (attr->comp_mask & ~kKnown)
        return fail_null(EOPNOTSUPP, "comp_mask bits 0x%x are not supported", attr->comp_mask & ~kKnown);
    if ((attr->comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS) && attr->create_flags)
        return fail_null(EOPNOTSUPP, "create_flags 0x%x are not supported", attr->create_flags);
    if (attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS)
        return fail_null(EOPNOTSUPP, "the ibv_wr_* interface is not supported yet");
    if (attr->pd->context != context)
        return fail_null(EINVAL, "the protection domain belongs to another context");
    ibv_qp_init_attr basic{attr->qp_context, attr->send_cq, attr->recv_cq,   attr->srq,
                           attr->cap,        attr->qp_type, attr->sq_sig_all};
    ibv_qp* qp = create_queue_pair(attr->pd, basic);
    if (qp) attr->cap = basic.cap;
    return qp;
}

}  // namespace verbena::verbs

extern "C" {

struct ibv_qp_ex* ibv_qp_to_qp_ex(struct ibv_qp*) {
    return nullptr;  // as no queue pair is made with IBV_QP_INIT_ATTR_SEND_OPS_FLAGS
}

}  // extern "C"
