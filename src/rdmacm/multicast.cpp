// rdma_join_multicast(_ex) and rdma_leave_multicast. The daemon maps the address to a group and answers with
// an event; the queue pair is attached here, when the program reads that event.
#include "rdmacm/multicast.h"

#include <infiniband/ib.h>
#include <netinet/in.h>
#include <rdma/rdma_cma.h>

#include <atomic>
#include <cerrno>
#include <cstring>

#include "base/call_fault.h"
#include "base/out_of_memory.h"
#include "base/reason.h"
#include "rdmacm/address.h"
#include "rdmacm/channel.h"
#include "rdmacm/daemon_call.h"
#include "rdmacm/id.h"

namespace verbena::rdmacm {
namespace {

std::uint64_t next_handle() {
    static std::atomic<std::uint64_t> counter{0};
    return ++counter;
}

// A group's address; in AF_IB it is an MGID as it is, which RoCE v2 takes for an IP address.
int to_group(const sockaddr* address, cm::Endpoint& group) {
    if (!address || address->sa_family != kFamilyIb) return to_endpoint(address, group);
    sockaddr_ib ib;
    std::memcpy(&ib, address, sizeof ib);
    group = {};
    std::memcpy(group.address.bytes.data(), &ib.sib_addr, group.address.bytes.size());
    group.family = group.address.is_ipv4() ? AF_INET : AF_INET6;
    return 0;
}

// Takes the join from the id's list.
std::shared_ptr<Group> remove_group(Id& id, const Gid& address) {
    std::lock_guard lock(id.mutex);
    for (auto entry = id.groups.begin(); entry != id.groups.end(); ++entry) {
        if ((*entry)->address != address) continue;
        auto group = *entry;
        id.groups.erase(entry);
        return group;
    }
    return nullptr;
}

std::shared_ptr<Group> add_group(Id& id, const host::MulticastRequest& request, void* context) {
    auto group = std::make_shared<Group>();
    group->handle = request.handle;
    group->context = context;
    group->attach = request.join_flags != RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER;
    group->address = request.group.address;
    std::lock_guard lock(id.mutex);
    id.groups.push_back(group);
    return group;
}

int join(Id& id, const sockaddr* address, unsigned flags, void* context) {
    host::MulticastRequest request;
    request.id = id.number;
    request.join_flags = static_cast<std::uint16_t>(flags);
    request.handle = next_handle();
    if (to_group(address, request.group) != 0) return -1;
    const auto group = unless_out_of_memory([&] { return add_group(id, request, context); });
    if (!group) return -1;
    if (ask(host::Command::join_multicast, request) != 0) {
        int error = errno;
        {
            std::lock_guard lock(id.mutex);
            id.groups.remove(group);
        }
        errno = error;
        return -1;
    }
    return complete(id);
}

}  // namespace

std::shared_ptr<Group> find_group(Id& id, std::uint64_t handle) {
    std::lock_guard lock(id.mutex);
    for (const auto& group : id.groups)
        if (group->handle == handle) return group;
    return nullptr;
}

int attach_group(Id& id, Group& group, const cm::Event& event) {
    std::lock_guard lock(id.mutex);
    group.mgid = to_gid(event.ud_route.destination_gid);
    if (!group.attach || !id.qp) return 0;
    if (int error = ibv_attach_mcast(id.qp, &group.mgid, group.mlid)) return error;
    group.attached = true;
    return 0;
}

}  // namespace verbena::rdmacm

using namespace verbena;
using namespace verbena::rdmacm;

extern "C" {

int rdma_join_multicast(rdma_cm_id* public_id, sockaddr* addr, void* context) {
    if (const Fault fault{"rdma_join_multicast"}) return fault.minus_one();
    IdCall id("rdma_join_multicast", public_id);
    return id ? join(*id, addr, RDMA_MC_JOIN_FLAG_FULLMEMBER, context) : -1;
}

int rdma_join_multicast_ex(rdma_cm_id* public_id, rdma_cm_join_mc_attr_ex* attributes, void* context) {
    if (const Fault fault{"rdma_join_multicast_ex"}) return fault.minus_one();
    IdCall id("rdma_join_multicast_ex", public_id);
    if (!id) return -1;
    if (!attributes) return fail_minus_one(EINVAL, "mc_join_attr is NULL");
    if (attributes->comp_mask >= RDMA_CM_JOIN_MC_ATTR_RESERVED)
        return fail_minus_one(EOPNOTSUPP, "comp_mask %#x has bits above JOIN_FLAGS", attributes->comp_mask);
    if (attributes->comp_mask != (RDMA_CM_JOIN_MC_ATTR_ADDRESS | RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS))
        return fail_minus_one(EINVAL, "comp_mask %#x lacks ADDRESS or JOIN_FLAGS", attributes->comp_mask);
    if (attributes->join_flags >= RDMA_MC_JOIN_FLAG_RESERVED)
        return fail_minus_one(EINVAL, "join_flags %u is neither FULLMEMBER nor SENDONLY_FULLMEMBER",
                              attributes->join_flags);
    return join(*id, attributes->addr, attributes->join_flags, context);
}

int rdma_leave_multicast(rdma_cm_id* public_id, sockaddr* addr) {
    if (const Fault fault{"rdma_leave_multicast"}) return fault.minus_one();
    IdCall id("rdma_leave_multicast", public_id);
    if (!id) return -1;
    host::MulticastRequest request;
    request.id = id->number;
    if (to_group(addr, request.group) != 0) return -1;
    auto group = remove_group(*id, request.group.address);
    if (id->synchronous) drop_event(*id);  // of the join: it would be waited for below
    if (!group) return fail_minus_one(EADDRNOTAVAIL, "the id is not in that group");
    request.handle = group->handle;
    {
        std::lock_guard lock(id->mutex);
        if (group->attached && id->qp) ibv_detach_mcast(id->qp, &group->mgid, group->mlid);
    }
    host::EventsReply events;
    if (ask(host::Command::leave_multicast, request, events) != 0) return -1;
    {
        std::lock_guard lock(id->home->mutex);
        std::unique_lock counters(id->mutex);
        const std::uint64_t taken = group->taken;
        counters.unlock();
        if (events.events_delivered > taken) {
            const std::size_t dropped =
                extract_join_events(*id->home, id->number, group->handle, events.events_delivered - taken)
                    .size();
            counters.lock();  // else they would be looked for when the id goes
            id->taken += dropped;
            id->acknowledged += dropped;
        }
    }
    std::unique_lock lock(id->mutex);
    id->all_acknowledged.wait(lock, [&group] { return group->acknowledged == group->taken; });
    return 0;
}
}
