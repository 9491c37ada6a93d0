// rdma_create_ep, rdma_destroy_ep, rdma_get_request: ids whose calls wait for their own event.
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>

#include <cerrno>
#include <cstring>

#include "base/call_fault.h"
#include "base/out_of_memory.h"
#include "base/reason.h"
#include "rdmacm/id.h"

namespace verbena::rdmacm {
namespace {

constexpr int kResolveTimeoutMs = 2000;

// A passive endpoint binds; its children get queue pairs like the one described.
int prepare_passive(Id& id, const rdma_addrinfo& info, ibv_pd* pd, ibv_qp_init_attr* qp) {
    if (rdma_bind_addr(&id, info.ai_src_addr) != 0) return -1;
    if (pd) id.pd = pd;
    if (qp) {
        qp->qp_type = id.qp_type;
        id.child_qp = std::make_unique<ibv_qp_init_attr>(*qp);
    }
    return 0;
}

int prepare_active(Id& id, const rdma_addrinfo& info, ibv_pd* pd, ibv_qp_init_attr* qp) {
    if (rdma_resolve_addr(&id, info.ai_src_addr, info.ai_dst_addr, kResolveTimeoutMs) != 0) return -1;
    int routed = info.ai_route_len ? rdma_set_option(&id, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, info.ai_route,
                                                     info.ai_route_len)
                                   : rdma_resolve_route(&id, kResolveTimeoutMs);
    if (routed == 0 && info.ai_route_len) routed = complete(id);
    if (routed != 0) return -1;
    if (qp) {
        qp->qp_type = id.qp_type;
        if (rdma_create_qp(&id, pd, qp) != 0) return -1;
    }
    const auto* data = static_cast<const std::uint8_t*>(info.ai_connect);
    if (info.ai_connect_len) id.connect_data.assign(data, data + info.ai_connect_len);
    return 0;
}

}  // namespace
}  // namespace verbena::rdmacm

using namespace verbena;
using namespace verbena::rdmacm;

extern "C" {

int rdma_create_ep(rdma_cm_id** id, rdma_addrinfo* res, ibv_pd* pd, ibv_qp_init_attr* qp_init_attr) {
    if (const Fault fault{"rdma_create_ep"}) return fault.minus_one();
    Call call("rdma_create_ep");
    if (!id || !res) return fail_minus_one(EINVAL, "%s is NULL", id ? "res" : "id");
    auto created = create_id(nullptr, nullptr, static_cast<rdma_port_space>(res->ai_port_space),
                             static_cast<ibv_qp_type>(res->ai_qp_type));
    if (!created) return -1;
    const int result = minus_one_if_out_of_memory([&] {
        return res->ai_flags & RAI_PASSIVE ? prepare_passive(*created, *res, pd, qp_init_attr)
                                           : prepare_active(*created, *res, pd, qp_init_attr);
    });
    if (result != 0) {
        int error = errno;
        rdma_destroy_ep(created.get());
        errno = error;
        return -1;
    }
    *id = created.get();
    return 0;
}

void rdma_destroy_ep(rdma_cm_id* public_id) {
    IdCall id("rdma_destroy_ep", public_id, IdCall::Daemon::may_be_gone);
    if (!id) return;
    if (id->qp) rdma_destroy_qp(public_id);
    if (id->srq) rdma_destroy_srq(public_id);
    rdma_destroy_id(public_id);
}

int rdma_get_request(rdma_cm_id* listen, rdma_cm_id** id) {
    if (const Fault fault{"rdma_get_request"}) return fault.minus_one();
    IdCall listener("rdma_get_request", listen);
    if (!listener) return -1;
    if (!id) return fail_minus_one(EINVAL, "id is NULL: nowhere to put the new id");
    if (!listener->synchronous)
        return fail_minus_one(EINVAL,
                              "the id has an event channel: its requests come from rdma_get_cm_event");
    if (!listener->listens) return fail_minus_one(EINVAL, "the id does not listen: no request would come");
    drop_event(*listener);
    rdma_cm_event* event = nullptr;
    if (rdma_get_cm_event(listen->channel, &event) != 0) return -1;
    if (event->status != 0 || event->event != RDMA_CM_EVENT_CONNECT_REQUEST) {
        int status = event->status;
        const char* name = rdma_event_str(event->event);
        rdma_ack_cm_event(event);
        return fail_minus_one(status < 0 ? -status : EINVAL, "%s, status %d, instead of a request", name,
                              status);
    }
    rdma_cm_id* child = event->id;
    if (listener->child_qp) {
        ibv_qp_init_attr attributes = *listener->child_qp;
        // The listener's own domain is used where the program gave one, or where both are of one device.
        ibv_pd* domain = listen->pd && listen->pd->context == child->verbs ? listen->pd : nullptr;
        if (rdma_create_qp(child, domain, &attributes) != 0) {
            int error = errno;
            rdma_ack_cm_event(event);
            rdma_destroy_id(child);
            errno = error;
            return -1;
        }
    }
    child->event = event;
    *id = child;
    return 0;
}
}
