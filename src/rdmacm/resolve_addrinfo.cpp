// rdma_resolve_addrinfo and rdma_query_addrinfo: rdma_getaddrinfo with an event (librdmacm of release 60).
//
// The resolver of the C library blocks, so the answer is there when the call returns; the event comes through
// the daemon, in order with the id's other events. The other source of answers, the subnet administrator of
// InfiniBand, does not exist on RoCE.
#include <rdma/rdma_cma.h>

#include <cerrno>

#include "base/call_fault.h"
#include "base/reason.h"
#include "rdmacm/daemon_call.h"
#include "rdmacm/id.h"
#include "rdmacm/newer_api.h"

namespace verbena::rdmacm {
namespace {

// 0, or -1 with errno and a reason. The id's answer is set.
int resolve(Id& id, const char* node, const char* service, const rdma_addrinfo* hints) {
    const int flags = hints ? hints->ai_flags : 0;
    if (flags & kAddrinfoSa && !(flags & kAddrinfoDns) && !service)
        return fail_minus_one(EINVAL, "RAI_SA without a service");
    rdma_addrinfo* answer = nullptr;
    // A resolver's code is no errno; rdma_getaddrinfo leaves that one, with the reason.
    if (rdma_getaddrinfo(node, service, hints, &answer) != 0) return -1;
    id.addrinfo.reset(answer);
    host::WriteEventRequest request;
    request.id = id.number;
    request.type = cm::EventType::internal;
    request.argument = kEventAddrinfoResolved;
    id.writes_events = true;
    if (ask(host::Command::write_event, request) == 0) return complete(id);
    id.addrinfo.reset();
    return -1;
}

}  // namespace
}  // namespace verbena::rdmacm

using namespace verbena;
using namespace verbena::rdmacm;

extern "C" {

int rdma_resolve_addrinfo(rdma_cm_id* public_id, const char* node, const char* service,
                          const rdma_addrinfo* hints) {
    if (const Fault fault{"rdma_resolve_addrinfo"}) return fault.minus_one();
    IdCall id("rdma_resolve_addrinfo", public_id);
    if (!id) return -1;
    {
        std::lock_guard lock(id->mutex);
        if (id->resolves_addrinfo)
            return fail_minus_one(EBUSY, "the answer before has not been fetched with rdma_query_addrinfo");
        id->resolves_addrinfo = true;
    }
    const int result = resolve(*id, node, service, hints);
    if (result != 0 && !id->addrinfo) id->resolves_addrinfo = false;
    return result;
}

int rdma_query_addrinfo(rdma_cm_id* public_id, rdma_addrinfo** info) {
    if (const Fault fault{"rdma_query_addrinfo"}) return fault.minus_one();
    IdCall id("rdma_query_addrinfo", public_id);
    if (!id) return -1;
    if (!info) return fail_minus_one(EINVAL, "info is NULL: nowhere to put the answer");
    std::lock_guard lock(id->mutex);
    if (!id->addrinfo) return fail_minus_one(ENOENT, "nothing has been resolved with rdma_resolve_addrinfo");
    *info = id->addrinfo.release();
    id->resolves_addrinfo = false;
    return 0;
}
}
