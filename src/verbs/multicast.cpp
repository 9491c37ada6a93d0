// Multicast groups (IBA 10.5, 11.3): ibv_attach_mcast(3), ibv_detach_mcast(3). With RoCE v2 a group is an IP
// group: the MGID is its address, IPv4 ones mapped (annex A17.4.5.1). There is no LID; the argument is
// ignored. Attaching joins the IP group on the device's interface, so that neither subnet manager nor rdma_cm
// is needed.
#include "verbs/multicast.h"

#include <infiniband/verbs.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/call_fault.h"
#include "base/no_cancellation.h"
#include "base/out_of_memory.h"
#include "base/reason.h"
#include "verbs/objects.h"
#include "verbs/process.h"
#include "verbs/queries.h"

namespace verbena::verbs {
namespace {

Gid group_of(const union ibv_gid& gid) {
    Gid group;
    std::memcpy(group.bytes.data(), gid.raw, sizeof gid.raw);
    return group;
}

int attach(QueuePair& qp, const Gid& group) {
    const ibv_qp* base = qp.base();
    if (!is_usable(*qp.context)) return errno;
    if (base->qp_type != IBV_QPT_UD)
        return fail(EINVAL, "QP 0x%06x is no UD QP; only those receive multicast", base->qp_num);
    if (!group.is_multicast())
        return fail(EINVAL, "%s is no multicast GID (ff00::/8, or an IPv4 group as ::ffff:a.b.c.d)",
                    to_string(group).c_str());
    host::Device device;
    if (int error = require_device(*qp.context, device)) return error;
    std::lock_guard lock(qp.context->objects_lock);
    const Attachment wanted{group, device.interface_index};
    if (std::ranges::find(qp.groups, wanted) != qp.groups.end()) return 0;
    qp.groups.reserve(qp.groups.size() + 1);
    if (int error = qp.context->process->adapter().attach(*qp.qp, group, wanted.interface_index))
        return error;
    qp.groups.push_back(wanted);
    return 0;
}

int detach(QueuePair& qp, const Gid& group) {
    if (!qp.context->process->usable()) return qp.context->process->refuse();
    std::lock_guard lock(qp.context->objects_lock);
    const auto found = std::ranges::find(qp.groups, group, &Attachment::group);
    if (found == qp.groups.end())
        return fail(EINVAL, "QP 0x%06x is not attached to group %s", qp.base()->qp_num,
                    to_string(group).c_str());
    const Attachment gone = *found;
    qp.groups.erase(found);
    return qp.context->process->adapter().detach(*qp.qp, gone.group, gone.interface_index);
}

}  // namespace

int check_detached(QueuePair& qp) {
    std::lock_guard lock(qp.context->objects_lock);
    if (qp.groups.empty() || !qp.context->process->usable()) return 0;
    return fail(EBUSY, "QP 0x%06x is attached to %zu multicast groups, %s among them; detach it first",
                qp.base()->qp_num, qp.groups.size(), to_string(qp.groups.front().group).c_str());
}

void detach_all(QueuePair& qp) {
    if (!qp.context->process->usable()) return;
    for (const Attachment& each : qp.groups)
        qp.context->process->adapter().detach(*qp.qp, each.group, each.interface_index);
    qp.groups.clear();
}

}  // namespace verbena::verbs

using namespace verbena;
using namespace verbena::verbs;

extern "C" {

int ibv_attach_mcast(struct ibv_qp* qp, const union ibv_gid* gid, uint16_t) {
    if (const Fault fault{"ibv_attach_mcast"}) return fault.error();
    Call call("ibv_attach_mcast", "QP", qp->qp_num);
    const NoCancellation whole;
    return unless_out_of_memory([&] { return attach(*QueuePair::of(qp), group_of(*gid)); });
}

int ibv_detach_mcast(struct ibv_qp* qp, const union ibv_gid* gid, uint16_t) {
    if (const Fault fault{"ibv_detach_mcast"}) return fault.error();
    Call call("ibv_detach_mcast", "QP", qp->qp_num);
    const NoCancellation whole;
    return detach(*QueuePair::of(qp), group_of(*gid));
}

}  // extern "C"
