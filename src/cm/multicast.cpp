// Multicast groups: which MGID a group address has, and the event that tells the program. The IGMP or MLD
// join is made by the program's adapter on its own socket when it attaches its QP.

#include <cerrno>

#include "base/reason.h"
#include "cm/state.h"
#include "cm/text.h"

namespace verbena::cm {
namespace {

enum : std::uint16_t { kFullMember = 0, kSendOnlyFullMember = 1 };  // rdma_cma.h's join flags
constexpr std::uint8_t kMulticastHopLimit = 64;

bool same_group(const Endpoint& a, const Endpoint& b) { return a.address == b.address; }

}  // namespace

int Manager::State::join_multicast(Id& id, const Endpoint& group, std::uint16_t join_flags,
                                   std::uint64_t handle) {
    if (id.state != IdState::address_bound && id.state != IdState::address_resolved)
        return wrong_state(id, "bound or address resolved to join a group");
    if (id.qp_type != QpType::ud)
        return fail(EINVAL, "multicast is for datagrams (RDMA_PS_UDP, RDMA_PS_IPOIB)");
    if (join_flags != kFullMember && join_flags != kSendOnlyFullMember)
        return fail(EINVAL, "join flags %u are neither full member nor send-only", join_flags);
    if (group.is_any()) return fail(EINVAL, "the group address is zero");
    if (!group.address.is_multicast())
        return fail(EINVAL, "%s is no multicast address", verbena::to_string(group.address).c_str());

    Route route = id.route;
    if (!has_device(id)) {
        if (id.local.is_any())
            return fail(EINVAL, "id %u has no device yet: bind it to an address, or resolve the group's",
                        id.number);
        Gid source;
        if (int error = environment.find_route(id.local, group, route, source))
            return fail(error, "no way to the group %s", verbena::to_string(group.address).c_str());
        id.route = route;
    }
    if (route.source_gid.is_ipv4() != group.address.is_ipv4())
        return fail(EINVAL, "id %u is bound to %s and the group is %s: different address families", id.number,
                    verbena::to_string(route.source_gid).c_str(), verbena::to_string(group.address).c_str());
    // RoCE v2: the MGID is the group's address, IPv4 mapped as GIDs are.
    route.destination_gid = group.address;
    route.hop_limit = kMulticastHopLimit;
    if (id.traffic_class_set) route.traffic_class = id.traffic_class;
    if (!id.qkey) id.qkey = kDefaultQkey;
    id.groups.push_back({group, handle, 1});

    Event event;
    event.type = EventType::multicast_join;
    event.id = id.number;
    event.user_handle = id.user_handle;
    event.argument = handle;
    event.connection.qp_type = QpType::ud;
    event.connection.qp_number = wire::kMulticastQp;
    event.connection.qkey = id.qkey;
    event.ud_route = route;
    deliver(id, event);
    return 0;
}

int Manager::State::leave_multicast(Id& id, const Endpoint& group, std::uint64_t& events_delivered) {
    for (auto member = id.groups.begin(); member != id.groups.end(); ++member) {
        if (!same_group(member->group, group)) continue;
        events_delivered = member->events_delivered;
        id.groups.erase(member);
        return 0;
    }
    return fail(EADDRNOTAVAIL, "id %u is no member of %s", id.number,
                verbena::to_string(group.address).c_str());
}

}  // namespace verbena::cm
