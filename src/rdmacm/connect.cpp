// Connections: rdma_connect, rdma_accept, rdma_reject, rdma_disconnect, rdma_establish, rdma_notify, and ECE.
#include <rdma/rdma_cma.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/call_fault.h"
#include "base/reason.h"
#include "rdmacm/daemon_call.h"
#include "rdmacm/device.h"
#include "rdmacm/id.h"
#include "rdmacm/qp.h"

namespace verbena::rdmacm {
namespace {

constexpr std::uint8_t kForEver = 7;  // retry counts are three bits; RNR: 7 never gives up (IBA 9.7.5.2.8)
constexpr std::uint8_t kReasonConsumer = 28;      // REJ, consumer reject (IBA 12.6.7.2)
constexpr std::uint8_t kReasonVendorOption = 35;  // REJ, vendor option not supported

// Only connections limit READs and atomics; 0xff stands for the device's limit.
int check_limits(const Id& id, const rdma_conn_param* given) {
    if (id.ps != RDMA_PS_TCP || !given || !id.device) return 0;
    if (given->responder_resources != RDMA_MAX_RESP_RES &&
        given->responder_resources > id.device->max_responder_resources)
        return fail_minus_one(EINVAL, "responder_resources %u is above the device's %u",
                              given->responder_resources, id.device->max_responder_resources);
    if (given->initiator_depth != RDMA_MAX_INIT_DEPTH &&
        given->initiator_depth > id.device->max_initiator_depth)
        return fail_minus_one(EINVAL, "initiator_depth %u is above the device's %u", given->initiator_depth,
                              id.device->max_initiator_depth);
    return 0;
}

int check_named_qp(const Id& id, const rdma_conn_param* given) {
    if (id.ps != RDMA_PS_TCP || id.qp || given) return 0;
    return fail_minus_one(EINVAL, "the id has no queue pair and conn_param, which could name one, is NULL");
}

int append_private_data(cm::ConnectParameters& parameters, const void* data, std::size_t length) {
    std::size_t used = parameters.private_data_length;
    if (used + length > parameters.private_data.size())
        return fail_minus_one(EINVAL, "%zu bytes of private data; no message carries more than %zu",
                              used + length, parameters.private_data.size());
    if (length > 0) std::memcpy(parameters.private_data.data() + used, data, length);
    parameters.private_data_length = static_cast<std::uint8_t>(used + length);
    return 0;
}

// What goes into the REQ or REP, apart from the limits (which connect and accept choose differently). A
// missing rdma_conn_param means: retry as often as there is.
int build_parameters(Id& id, const rdma_conn_param* given, cm::ConnectParameters& out) {
    out.responder_resources = id.responder_resources;
    out.initiator_depth = id.initiator_depth;
    out.qp_type = static_cast<cm::QpType>(id.qp_type);
    out.retry_count = given ? std::min(given->retry_count, kForEver) : kForEver;
    out.rnr_retry_count = given ? std::min(given->rnr_retry_count, kForEver) : kForEver;
    out.flow_control = given ? given->flow_control : 0;
    out.qp_number = id.qp ? id.qp->qp_num : given ? given->qp_num : 0;
    out.srq = id.qp ? id.qp->srq != nullptr : given ? given->srq : 0;
    if (!id.qp) {  // our devices have no options to establish; a program's own queue pair may
        out.ece_vendor_id = id.local_ece.vendor_id;
        out.ece_attribute_mod = id.local_ece.options;
    }
    if (append_private_data(out, id.connect_data.data(), id.connect_data.size()) != 0) return -1;
    if (!given || !given->private_data) return 0;
    return append_private_data(out, given->private_data, given->private_data_len);
}

int reject(Id& id, const void* private_data, std::uint8_t length, std::uint8_t reason) {
    host::RejectRequest request;
    request.id = id.number;
    request.reason = reason;
    if (!private_data) length = 0;
    if (length > request.private_data.size())
        return fail_minus_one(EINVAL, "%u bytes of private data; no message carries more than %zu", length,
                              request.private_data.size());
    if (length) std::memcpy(request.private_data.data(), private_data, length);
    request.private_data_length = length;
    forget_told(id);
    return ask(host::Command::reject, request);
}

int reject(const char* name, rdma_cm_id* public_id, const void* private_data, std::uint8_t length,
           std::uint8_t reason) {
    IdCall id(name, public_id);
    return id ? reject(*id, private_data, length, reason) : -1;
}

// More private data than any message carries: as the daemon does with what is too much for a REP.
int refuse_peer(Id& id) {
    const int error = errno;
    reject(id, nullptr, 0, kReasonConsumer);
    errno = error;
    return -1;
}

}  // namespace
}  // namespace verbena::rdmacm

using namespace verbena;
using namespace verbena::rdmacm;

extern "C" {

int rdma_connect(rdma_cm_id* public_id, rdma_conn_param* given) {
    if (const Fault fault{"rdma_connect"}) return fault.minus_one();
    IdCall id("rdma_connect", public_id);
    if (!id) return -1;
    if (check_named_qp(*id, given) != 0) return -1;
    if (check_limits(*id, given) != 0) return -1;
    if (id->device) {
        id->responder_resources = given && given->responder_resources != RDMA_MAX_RESP_RES
                                      ? given->responder_resources
                                      : id->device->max_responder_resources;
        id->initiator_depth = given && given->initiator_depth != RDMA_MAX_INIT_DEPTH
                                  ? given->initiator_depth
                                  : id->device->max_initiator_depth;
    }
    host::ConnectRequest request;
    request.id = id->number;
    if (build_parameters(*id, given, request.parameters) != 0) return -1;
    // Right after ROUTE_RESOLVED the daemon has nothing against it but what is an event.
    const bool told = id->may_connect && id->qp_type == IBV_QPT_RC && !id->synchronous &&
                      request.parameters.private_data_length <= cm::kReqUserData;
    forget_told(*id);
    if (tell_or_ask(told, host::Command::connect, request) != 0) return -1;
    id->connect_data.clear();  // it goes into the first request only
    return complete(*id);
}

int rdma_accept(rdma_cm_id* public_id, rdma_conn_param* given) {
    if (const Fault fault{"rdma_accept"}) return fault.minus_one();
    IdCall id("rdma_accept", public_id);
    if (!id) return -1;
    if (check_named_qp(*id, given) != 0) return -1;
    if (check_limits(*id, given) != 0) return -1;
    // What the peer asked for, unless the program says otherwise; never more than the device can.
    if (given && given->initiator_depth != RDMA_MAX_INIT_DEPTH)
        id->initiator_depth = given->initiator_depth;
    else if (id->device)
        id->initiator_depth = std::min(id->initiator_depth, id->device->max_initiator_depth);
    if (given && given->responder_resources != RDMA_MAX_RESP_RES)
        id->responder_resources = given->responder_resources;
    else if (id->device)
        id->responder_resources = std::min(id->responder_resources, id->device->max_responder_resources);

    host::AcceptRequest request;
    request.id = id->number;
    request.has_parameters = 1;
    request.user_handle = handle_of(*id);
    if (build_parameters(*id, given, request.parameters) != 0) return refuse_peer(*id);
    // The peer may send as soon as it has our reply: the queue pair is ready before the reply leaves.
    if (!is_datagram(*id) && connect_qp(*id) != 0) return -1;
    // Of a request that was the id's last event, nothing speaks against that but the peer's end.
    const bool told = id->may_accept.exchange(false) && id->qp_type == IBV_QPT_RC && !id->synchronous &&
                      request.parameters.private_data_length <= cm::kRepUserData;
    id->accepts = told;
    if (tell_or_ask(told, host::Command::accept, request) != 0) {
        int error = errno;
        if (!is_datagram(*id) && error != ENOMEM) fail_qp(*id);  // or it may be tried again
        errno = error;
        return -1;
    }
    if (is_datagram(*id)) {
        // The answer to a datagram look-up is the end of it: no event follows.
        if (id->synchronous) drop_event(*id);
        return 0;
    }
    return complete(*id);
}

int rdma_establish(rdma_cm_id* public_id) {
    if (const Fault fault{"rdma_establish"}) return fault.minus_one();
    IdCall id("rdma_establish", public_id);
    if (!id) return -1;
    if (id->qp)
        return fail_minus_one(
            EINVAL, "the id has a queue pair (0x%06x), so the library establishes by itself", id->qp->qp_num);
    host::AcceptRequest request;
    request.id = id->number;
    request.user_handle = handle_of(*id);
    return ask(host::Command::accept, request);
}

int rdma_reject(rdma_cm_id* id, const void* private_data, uint8_t private_data_len) {
    if (const Fault fault{"rdma_reject"}) return fault.minus_one();
    return reject("rdma_reject", id, private_data, private_data_len, kReasonConsumer);
}

int rdma_reject_ece(rdma_cm_id* id, const void* private_data, uint8_t private_data_len) {
    if (const Fault fault{"rdma_reject_ece"}) return fault.minus_one();
    return reject("rdma_reject_ece", id, private_data, private_data_len, kReasonVendorOption);
}

int rdma_disconnect(rdma_cm_id* public_id) {
    if (const Fault fault{"rdma_disconnect"}) return fault.minus_one();
    IdCall id("rdma_disconnect", public_id);
    if (!id) return -1;
    if (fail_qp(*id) != 0) return -1;
    forget_told(*id);
    const host::IdRequest request{id->number};
    // Of an id that has had a connection the daemon would answer 0 whatever has become of that, or the device
    // is gone, which is an event.
    const bool told = id->was_connected && !id->synchronous;
    if (tell_or_ask(told, host::Command::disconnect, request) != 0) return -1;
    id->disconnects = true;
    return complete(*id);
}

int rdma_notify(rdma_cm_id* public_id, ibv_event_type event) {
    if (const Fault fault{"rdma_notify"}) return fault.minus_one();
    IdCall id("rdma_notify", public_id);
    if (!id) return -1;
    host::NotifyRequest request;
    request.id = id->number;
    request.event = static_cast<std::int32_t>(event);
    return ask(host::Command::notify, request);
}

int rdma_set_local_ece(rdma_cm_id* public_id, ibv_ece* ece) {
    if (const Fault fault{"rdma_set_local_ece"}) return fault.minus_one();
    IdCall id("rdma_set_local_ece", public_id);
    if (!id) return -1;
    if (!ece || !ece->vendor_id || ece->comp_mask || id->qp)
        return fail_minus_one(EINVAL, "%s",
                              !ece              ? "ece is NULL"
                              : !ece->vendor_id ? "ece->vendor_id is 0"
                              : ece->comp_mask  ? "ece->comp_mask has no bits yet"
                                                : "the id has a queue pair, whose options count");
    id->local_ece = *ece;
    return 0;
}

int rdma_get_remote_ece(rdma_cm_id* public_id, ibv_ece* ece) {
    if (const Fault fault{"rdma_get_remote_ece"}) return fault.minus_one();
    IdCall id("rdma_get_remote_ece", public_id);
    if (!id) return -1;
    if (!ece || id->qp)
        return fail_minus_one(EINVAL, "%s",
                              ece ? "the id has a queue pair, whose options count" : "ece is NULL");
    *ece = id->remote_ece;
    return 0;
}
}
