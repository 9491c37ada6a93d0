// Enhanced connection establishment (ibv_query_ece(3), ibv_set_ece(3); IBA volume 1, CM REQ's vendor field):
// options of a vendor that both ends of a connection agree on. Verbena has none, which is an answer: what one
// end offers, the other end accepts none of.

#include <infiniband/verbs.h>

#include <cerrno>

#include "base/call_fault.h"
#include "base/reason.h"
#include "verbs/limits.h"
#include "verbs/objects.h"
#include "verbs/process.h"

using namespace verbena;
using namespace verbena::verbs;

extern "C" {

int ibv_query_ece(struct ibv_qp* qp, struct ibv_ece* ece) {
    if (const Fault fault{"ibv_query_ece"}) return fault.error();
    Call call("ibv_query_ece", "QP", qp->qp_num);
    Process* process = QueuePair::of(qp)->context->process;
    if (process->forked()) return process->refuse();
    *ece = {kVendorId, 0, 0};
    return 0;
}

int ibv_set_ece(struct ibv_qp* qp, struct ibv_ece* ece) {
    if (const Fault fault{"ibv_set_ece"}) return fault.error();
    Call call("ibv_set_ece", "QP", qp->qp_num);
    if (!is_usable(*QueuePair::of(qp)->context)) return errno;
    if (!ece->vendor_id) return fail(EOPNOTSUPP, "vendor_id is 0, which stands for an end without ECE");
    if (ece->comp_mask) return fail(EINVAL, "comp_mask 0x%x; no bit is defined", ece->comp_mask);
    if (ece->vendor_id != kVendorId)
        return fail(EOPNOTSUPP, "vendor_id 0x%06x; the device's is 0x%06x", ece->vendor_id, kVendorId);
    ece->options = 0;  // what is accepted of the wanted ones
    return 0;
}

}  // extern "C"
