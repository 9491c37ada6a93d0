// rdma_create_qp, rdma_create_qp_ex, rdma_destroy_qp, rdma_init_qp_attr, and the transitions that the library
// makes by itself while a connection comes up.
#include "rdmacm/qp.h"

#include <rdma/rdma_cma.h>

#include <cerrno>
#include <cstring>

#include "base/call_fault.h"
#include "base/reason.h"
#include "rdmacm/address.h"
#include "rdmacm/daemon_call.h"
#include "rdmacm/device.h"
#include "rdmacm/id.h"
#include "rdmacm/process.h"
#include "verbs/private.h"

namespace verbena::rdmacm {
namespace {

// ibv_modify_qp in this library's convention.
int modify(ibv_qp* qp, ibv_qp_attr& attributes, int mask) {
    int error = ibv_modify_qp(qp, &attributes, mask);
    if (error == 0) return 0;
    errno = error;
    return -1;
}

int ask_transition(const Id& id, std::uint8_t state, cm::QpTransition& next) {
    host::InitQpRequest request;
    request.id = id.number;
    request.qp_state = state;
    return ask(host::Command::init_qp_attributes, request, next);
}

// The mask.
int to_attributes(const cm::QpTransition& next, ibv_qp_attr& attributes) {
    attributes = {};
    attributes.qp_state = static_cast<ibv_qp_state>(next.state);
    attributes.path_mtu = static_cast<ibv_mtu>(next.path_mtu);
    attributes.qkey = next.qkey;
    attributes.rq_psn = next.receive_psn;
    attributes.sq_psn = next.send_psn;
    attributes.dest_qp_num = next.destination_qp;
    attributes.qp_access_flags = next.access;
    attributes.port_num = next.port;
    attributes.max_rd_atomic = next.max_rd_atomic;
    attributes.max_dest_rd_atomic = next.max_dest_rd_atomic;
    attributes.min_rnr_timer = next.min_rnr_timer;
    attributes.timeout = next.timeout;
    attributes.retry_cnt = next.retry_count;
    attributes.rnr_retry = next.rnr_retry;
    if (next.mask & IBV_QP_AV) attributes.ah_attr = address_vector(next.route);
    return static_cast<int>(next.mask);
}

// As the id's last event told it; where none did, the daemon is asked.
int next_transition(Id& id, ibv_qp_state state, cm::QpTransition& next) {
    {
        std::lock_guard lock(id.mutex);
        for (const cm::QpTransition& told : id.transitions)
            if (told.mask != 0 && told.state == state) next = told;
    }
    return next.mask != 0 ? 0 : ask_transition(id, static_cast<std::uint8_t>(state), next);
}

int move_to(Id& id, ibv_qp* qp, ibv_qp_state state) {
    cm::QpTransition next;
    if (next_transition(id, state, next) != 0) return -1;
    ibv_qp_attr attributes{};
    const int mask = to_attributes(next, attributes);
    if (state == IBV_QPS_RTR && mask & IBV_QP_MAX_DEST_RD_ATOMIC &&
        id.responder_resources != RDMA_MAX_RESP_RES)
        attributes.max_dest_rd_atomic = id.responder_resources;
    if (state == IBV_QPS_RTS && mask & IBV_QP_MAX_QP_RD_ATOMIC && id.initiator_depth != RDMA_MAX_INIT_DEPTH)
        attributes.max_rd_atomic = id.initiator_depth;
    return modify(qp, attributes, mask);
}

// A datagram queue pair is ready to send at once.
int start_datagram_qp(Id& id, ibv_qp* qp) {
    if (move_to(id, qp, IBV_QPS_INIT) != 0) return -1;
    ibv_qp_attr attributes{};
    attributes.qp_state = IBV_QPS_RTR;
    if (modify(qp, attributes, IBV_QP_STATE) != 0) return -1;
    attributes.qp_state = IBV_QPS_RTS;
    attributes.sq_psn = 0;
    return modify(qp, attributes, IBV_QP_STATE | IBV_QP_SQ_PSN);
}

int create_cq(Id& id, std::uint32_t entries, ibv_comp_channel*& channel, ibv_cq*& cq) {
    channel = ibv_create_comp_channel(id.verbs);
    if (!channel) return -1;
    cq = ibv_create_cq(id.verbs, static_cast<int>(entries), static_cast<rdma_cm_id*>(&id), channel, 0);
    if (cq) return 0;
    int error = errno;
    ibv_destroy_comp_channel(channel);
    channel = nullptr;
    errno = error;
    return -1;
}

// XRC queue pairs belong to a domain: the program's own, or one that the ids of a device share.
int add_xrc_domain(Id& id, ibv_qp_init_attr_ex& attributes) {
    if (attributes.qp_type != IBV_QPT_XRC_RECV) return 0;
    if (attributes.comp_mask & IBV_QP_INIT_ATTR_XRCD && attributes.xrcd) return 0;
    ibv_xrcd* domain = process().devices->xrcd(*id.device);
    if (!domain) return -1;
    attributes.xrcd = domain;
    attributes.comp_mask |= IBV_QP_INIT_ATTR_XRCD;
    return 0;
}

}  // namespace

int init_attributes(Id& id, ibv_qp_attr& attributes, int& mask) {
    cm::QpTransition next;
    if (ask_transition(id, static_cast<std::uint8_t>(attributes.qp_state), next) != 0) return -1;
    mask = to_attributes(next, attributes);
    return 0;
}

PinnedQp::PinnedQp(Id& id) : id_(id) {
    std::lock_guard lock(id.mutex);
    qp_ = id.qp;
    if (qp_) id.qp_pins++;
}

PinnedQp::~PinnedQp() {
    if (!qp_) return;
    std::lock_guard lock(id_.mutex);
    if (--id_.qp_pins == 0) id_.unpinned.notify_all();
}

int connect_qp(Id& id) {
    PinnedQp qp(id);
    if (!qp) return 0;
    // Beyond INIT: by a call that found no memory later, and is repeated.
    if (qp.get()->state == IBV_QPS_RTS) return 0;
    if (qp.get()->state != IBV_QPS_RTR) {
        // INIT once more: the conversation has told what the peer may do, and that is in INIT's access flags.
        if (move_to(id, qp.get(), IBV_QPS_INIT) != 0) return -1;
        if (move_to(id, qp.get(), IBV_QPS_RTR) != 0) return -1;
    }
    return move_to(id, qp.get(), IBV_QPS_RTS);
}

int fail_qp(Id& id) {
    PinnedQp qp(id);
    if (!qp || !verbena_has_qp(id.verbs, qp.get())) return 0;
    // Data that has arrived completes and is acknowledged before anything is flushed (as moving to the error
    // state sees to): the disconnect request that follows travels on another socket and would overtake the
    // acknowledgements.
    verbena_owe_nothing(id.verbs, qp.get());
    ibv_qp_attr attributes{};
    attributes.qp_state = IBV_QPS_ERR;
    return modify(qp.get(), attributes, IBV_QP_STATE);
}

int create_cqs(Id& id, std::uint32_t send_entries, std::uint32_t receive_entries) {
    if (receive_entries && create_cq(id, receive_entries, id.recv_cq_channel, id.recv_cq) != 0) return -1;
    if (send_entries && create_cq(id, send_entries, id.send_cq_channel, id.send_cq) != 0) {
        int error = errno;
        destroy_cqs(id, {.send = false, .receive = receive_entries != 0});
        errno = error;
        return -1;
    }
    return 0;
}

void destroy_cqs(Id& id, WhichCqs which) {
    if (which.send && id.send_cq && id.send_cq != id.recv_cq) ibv_destroy_cq(id.send_cq);
    if (which.receive && id.recv_cq) ibv_destroy_cq(id.recv_cq);
    if (which.send && id.send_cq_channel && id.send_cq_channel != id.recv_cq_channel)
        ibv_destroy_comp_channel(id.send_cq_channel);
    if (which.receive && id.recv_cq_channel) ibv_destroy_comp_channel(id.recv_cq_channel);
    if (which.send) {
        id.send_cq = nullptr;
        id.send_cq_channel = nullptr;
    }
    if (which.receive) {
        id.recv_cq = nullptr;
        id.recv_cq_channel = nullptr;
    }
}

}  // namespace verbena::rdmacm

using namespace verbena;
using namespace verbena::rdmacm;

extern "C" {

int rdma_create_qp_ex(rdma_cm_id* public_id, ibv_qp_init_attr_ex* attributes) {
    if (const Fault fault{"rdma_create_qp_ex"}) return fault.minus_one();
    IdCall id("rdma_create_qp_ex", public_id);
    if (!id) return -1;
    if (!attributes) return fail_minus_one(EINVAL, "the attributes are NULL");
    if (id->qp) return fail_minus_one(EINVAL, "the id has a queue pair (0x%06x) already", id->qp->qp_num);
    if (!id->verbs)
        return fail_minus_one(EINVAL, "the id has no device yet; bind it to an address or resolve one first");
    if (!(attributes->comp_mask & IBV_QP_INIT_ATTR_PD) || !attributes->pd) {
        attributes->comp_mask |= IBV_QP_INIT_ATTR_PD;
        attributes->pd = id->pd;
    }
    if (attributes->pd->context != id->verbs)
        return fail_minus_one(EINVAL, "the protection domain is of device %s, the id of device %s",
                              ibv_get_device_name(attributes->pd->context->device),
                              ibv_get_device_name(id->verbs->device));
    if ((id->send_cq && attributes->send_cq && id->send_cq != attributes->send_cq) ||
        (id->recv_cq && attributes->recv_cq && id->recv_cq != attributes->recv_cq))
        return fail_minus_one(EINVAL, "the id has completion queues already, and others are given");
    if (add_xrc_domain(*id, *attributes) != 0) return -1;

    const std::uint32_t send_entries = !attributes->send_cq && !id->send_cq ? attributes->cap.max_send_wr : 0;
    const std::uint32_t receive_entries =
        !attributes->recv_cq && !id->recv_cq ? attributes->cap.max_recv_wr : 0;
    if (create_cqs(*id, send_entries, receive_entries) != 0) return -1;
    if (!attributes->send_cq) attributes->send_cq = id->send_cq;
    if (!attributes->recv_cq) attributes->recv_cq = id->recv_cq;
    if (id->srq && !attributes->srq) attributes->srq = id->srq;

    ibv_qp* qp = ibv_create_qp_ex(id->verbs, attributes);
    int result = -1;
    if (qp) result = is_datagram(*id) ? start_datagram_qp(*id, qp) : move_to(*id, qp, IBV_QPS_INIT);
    if (result == 0) {
        std::lock_guard lock(id->mutex);
        id->qp = qp;
        id->pd = qp->pd;
    }
    if (result != 0) {
        int error = errno;
        if (qp) ibv_destroy_qp(qp);
        destroy_cqs(*id, {.send = send_entries != 0, .receive = receive_entries != 0});
        errno = error;
    }
    return result;
}

int rdma_create_qp(rdma_cm_id* id, ibv_pd* pd, ibv_qp_init_attr* attributes) {
    if (const Fault fault{"rdma_create_qp"}) return fault.minus_one();
    IdCall call("rdma_create_qp", id);
    if (!call) return -1;
    if (!attributes) return fail_minus_one(EINVAL, "the attributes are NULL");
    ibv_qp_init_attr_ex extended{};
    // The extended structure begins with the members of the plain one (verbs.h keeps it so).
    static_assert(offsetof(ibv_qp_init_attr_ex, sq_sig_all) == offsetof(ibv_qp_init_attr, sq_sig_all));
    std::memcpy(&extended, attributes, sizeof *attributes);
    if (pd || call->pd) {
        extended.comp_mask = IBV_QP_INIT_ATTR_PD;
        extended.pd = pd ? pd : call->pd;
    }
    int result = rdma_create_qp_ex(id, &extended);
    if (result == 0) std::memcpy(attributes, &extended, sizeof *attributes);
    return result;
}

void rdma_destroy_qp(rdma_cm_id* public_id) {
    IdCall id("rdma_destroy_qp", public_id, IdCall::Daemon::may_be_gone);
    if (!id) return;
    ibv_qp* qp;
    {
        std::unique_lock lock(id->mutex);
        id->unpinned.wait(lock, [&id] { return id->qp_pins == 0; });
        qp = id->qp;
        id->qp = nullptr;
    }
    if (qp) ibv_destroy_qp(qp);
    // A shared receive queue of the id keeps its completion queue.
    if (!(id->qp_type == IBV_QPT_XRC_RECV && id->srq)) destroy_cqs(*id);
}

int rdma_init_qp_attr(rdma_cm_id* public_id, ibv_qp_attr* qp_attr, int* qp_attr_mask) {
    if (const Fault fault{"rdma_init_qp_attr"}) return fault.minus_one();
    IdCall id("rdma_init_qp_attr", public_id);
    if (!id) return -1;
    if (!qp_attr || !qp_attr_mask)
        return fail_minus_one(EINVAL, "%s is NULL", qp_attr ? "qp_attr_mask" : "qp_attr");
    return init_attributes(*id, *qp_attr, *qp_attr_mask);
}
}
