// The extended posting interface (ibv_wr_post(3)): ibv_wr_start, builders, ibv_wr_complete. Requests are
// gathered in a batch of the queue pair and posted together; if one is bad, none of the batch is sent.

#include <infiniband/verbs.h>
#include <pthread.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <vector>

#include "adapter/clock.h"
#include "base/reason.h"
#include "verbs/limits.h"
#include "verbs/objects.h"
#include "verbs/posting.h"
#include "verbs/process.h"
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
    ibv_qp* qp = create_queue_pair(attr->pd, basic, 0, false);
    if (qp) attr->cap = basic.cap;
    return qp;
}

void prepare_posting(QueuePair&, std::uint64_t) {}

}  // namespace verbena::verbs

extern "C" {

struct ibv_qp_ex* ibv_qp_to_qp_ex(struct ibv_qp*) {
    return nullptr;  // as no queue pair is made with IBV_QP_INIT_ATTR_SEND_OPS_FLAGS
}

}  // extern "C"
