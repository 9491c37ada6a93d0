// rdma_set_option, rdma_event_str, rdma_write_cm_event.
#include <rdma/rdma_cma.h>

#include <cerrno>
#include <cstring>
#include <iterator>

#include "base/call_fault.h"
#include "base/reason.h"
#include "rdmacm/daemon_call.h"
#include "rdmacm/id.h"
#include "rdmacm/newer_api.h"

using namespace verbena;
using namespace verbena::rdmacm;

extern "C" {

int rdma_set_option(rdma_cm_id* public_id, int level, int optname, void* optval, size_t optlen) {
    if (const Fault fault{"rdma_set_option"}) return fault.minus_one();
    IdCall id("rdma_set_option", public_id);
    if (!id) return -1;
    host::OptionRequest request;
    if (!optval || optlen > request.value.size())
        return fail_minus_one(EINVAL, "level %d, option %d: %zu bytes at %p; a value has at most %zu bytes",
                              level, optname, optlen, optval, request.value.size());
    request.id = id->number;
    request.level = level;
    request.option = optname;
    request.length = static_cast<std::uint32_t>(optlen);
    std::memcpy(request.value.data(), optval, optlen);
    always_ask(*id);
    return ask(host::Command::set_option, request);
}

const char* rdma_event_str(rdma_cm_event_type event) {
    static constexpr const char* kNames[] = {
        "RDMA_CM_EVENT_ADDR_RESOLVED",  "RDMA_CM_EVENT_ADDR_ERROR",        "RDMA_CM_EVENT_ROUTE_RESOLVED",
        "RDMA_CM_EVENT_ROUTE_ERROR",    "RDMA_CM_EVENT_CONNECT_REQUEST",   "RDMA_CM_EVENT_CONNECT_RESPONSE",
        "RDMA_CM_EVENT_CONNECT_ERROR",  "RDMA_CM_EVENT_UNREACHABLE",       "RDMA_CM_EVENT_REJECTED",
        "RDMA_CM_EVENT_ESTABLISHED",    "RDMA_CM_EVENT_DISCONNECTED",      "RDMA_CM_EVENT_DEVICE_REMOVAL",
        "RDMA_CM_EVENT_MULTICAST_JOIN", "RDMA_CM_EVENT_MULTICAST_ERROR",   "RDMA_CM_EVENT_ADDR_CHANGE",
        "RDMA_CM_EVENT_TIMEWAIT_EXIT",  "RDMA_CM_EVENT_ADDRINFO_RESOLVED", "RDMA_CM_EVENT_ADDRINFO_ERROR",
        "RDMA_CM_EVENT_USER",           "RDMA_CM_EVENT_INTERNAL",
    };
    static_assert(std::size(kNames) == kEventInternal + 1);
    unsigned index = raw(event);
    return index < std::size(kNames) ? kNames[index] : "UNKNOWN EVENT";
}

int rdma_write_cm_event(rdma_cm_id* public_id, rdma_cm_event_type event, int status, uint64_t arg) {
    if (const Fault fault{"rdma_write_cm_event"}) return fault.minus_one();
    IdCall id("rdma_write_cm_event", public_id);
    if (!id) return -1;
    if (raw(event) != kEventUser)
        return fail_minus_one(EINVAL, "event %u; programs may write RDMA_CM_EVENT_USER only", raw(event));
    host::WriteEventRequest request;
    request.id = id->number;
    request.status = status;
    request.type = cm::EventType::user;
    request.argument = arg;
    id->writes_events = true;
    return ask(host::Command::write_event, request);
}
}
