// rdma_create_srq(_ex) and rdma_destroy_srq: a shared receive queue as an id's own.
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>

#include <cerrno>
#include <cstddef>
#include <cstring>

#include "base/call_fault.h"
#include "base/reason.h"
#include "rdmacm/device.h"
#include "rdmacm/id.h"
#include "rdmacm/process.h"
#include "rdmacm/qp.h"

using namespace verbena;
using namespace verbena::rdmacm;

namespace {

bool is_xrc(const ibv_srq_init_attr_ex& attributes) {
    return attributes.comp_mask & IBV_SRQ_INIT_ATTR_TYPE && attributes.srq_type == IBV_SRQT_XRC;
}

// An XRC queue needs a domain and a completion queue; the id lends what the program does not bring (no bit,
// or NULL).
// `made`: the completion queue is new.
int add_xrc_parts(Id& id, ibv_srq_init_attr_ex& attributes, bool& made) {
    if (!(attributes.comp_mask & IBV_SRQ_INIT_ATTR_XRCD) || !attributes.xrcd) {
        attributes.xrcd = process().devices->xrcd(*id.device);
        if (!attributes.xrcd) return -1;
        attributes.comp_mask |= IBV_SRQ_INIT_ATTR_XRCD;
    }
    if (!(attributes.comp_mask & IBV_SRQ_INIT_ATTR_CQ) || !attributes.cq) {
        if (create_cqs(id, 0, attributes.attr.max_wr) != 0) return -1;
        made = true;
        attributes.cq = id.recv_cq;
        attributes.comp_mask |= IBV_SRQ_INIT_ATTR_CQ;
    }
    return 0;
}

}  // namespace

extern "C" {

int rdma_create_srq_ex(rdma_cm_id* public_id, ibv_srq_init_attr_ex* attributes) {
    if (const Fault fault{"rdma_create_srq_ex"}) return fault.minus_one();
    IdCall id("rdma_create_srq_ex", public_id);
    if (!id) return -1;
    if (!attributes) return fail_minus_one(EINVAL, "the attributes are NULL");
    if (id->srq) return fail_minus_one(EINVAL, "the id has a shared receive queue already");
    if (!id->verbs)
        return fail_minus_one(EINVAL, "the id has no device yet; bind it to an address or resolve one first");
    if (!(attributes->comp_mask & IBV_SRQ_INIT_ATTR_PD) || !attributes->pd) {
        attributes->pd = id->pd;
        attributes->comp_mask |= IBV_SRQ_INIT_ATTR_PD;
    }
    if (attributes->pd->context != id->verbs)
        return fail_minus_one(EINVAL, "the protection domain is of another device than the id");
    bool made_cq = false;
    if (is_xrc(*attributes) && add_xrc_parts(*id, *attributes, made_cq) != 0) return -1;
    ibv_srq* srq = ibv_create_srq_ex(id->verbs, attributes);
    if (!srq) {
        int error = errno;
        destroy_cqs(*id, {.send = false, .receive = made_cq});
        errno = error;
        return -1;
    }
    id->pd = attributes->pd;
    id->srq = srq;
    return 0;
}

int rdma_create_srq(rdma_cm_id* id, ibv_pd* pd, ibv_srq_init_attr* attributes) {
    if (const Fault fault{"rdma_create_srq"}) return fault.minus_one();
    IdCall call("rdma_create_srq", id);
    if (!call) return -1;
    if (!attributes) return fail_minus_one(EINVAL, "the attributes are NULL");
    ibv_srq_init_attr_ex extended{};
    extended.srq_context = attributes->srq_context;
    extended.attr = attributes->attr;
    if (pd || call->pd) {
        extended.comp_mask = IBV_SRQ_INIT_ATTR_PD;
        extended.pd = pd ? pd : call->pd;
    }
    if (call->qp_type == IBV_QPT_XRC_RECV) {
        extended.comp_mask |= IBV_SRQ_INIT_ATTR_TYPE;
        extended.srq_type = IBV_SRQT_XRC;
    }
    int result = rdma_create_srq_ex(id, &extended);
    if (result == 0) attributes->attr = extended.attr;
    return result;
}

void rdma_destroy_srq(rdma_cm_id* public_id) {
    IdCall id("rdma_destroy_srq", public_id, IdCall::Daemon::may_be_gone);
    if (!id || !id->srq) return;
    ibv_destroy_srq(id->srq);
    id->srq = nullptr;
    if (!id->qp) destroy_cqs(*id);
}
}
