// Addresses: binding to one, finding the way to another.
//
// The order of calls is enforced as in Linux: idle -bind-> address_bound -resolve_address-> address_resolved
// -resolve_route-> route_resolved. An id that fails to resolve is bound again, to what it was bound to, so
// that the call can be repeated.

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <string>

#include "base/reason.h"
#include "cm/state.h"
#include "cm/text.h"

namespace verbena::cm {
namespace {

constexpr std::uint16_t kAfIb = 27;  // AF_IB, where the C library's headers do not have it
constexpr std::uint16_t kFirstUnprivilegedPort = 1024;
constexpr std::uint32_t kLendable = 8;  // of the ephemeral ports one in so many

// AF_IB names InfiniBand ports. A RoCE device is none, so no address of that family leads anywhere; "any" of
// them can be bound to, as in Linux.
int no_infiniband(const Endpoint& endpoint) {
    return fail(ENODEV, "%s is an InfiniBand address (AF_IB), and all devices are RoCE; use an IP address",
                verbena::to_string(endpoint.address).c_str());
}

int check_family(const Endpoint& endpoint) {
    if (endpoint.family == kAfIb) return 0;
    if (endpoint.family != AF_INET && endpoint.family != AF_INET6)
        return fail(EAFNOSUPPORT, "address family %u is neither AF_INET nor AF_INET6", endpoint.family);
    if (endpoint.family == AF_INET && !endpoint.address.is_ipv4() && !endpoint.address.is_zero())
        return fail(EINVAL, "an AF_INET endpoint holds an IPv6 address");
    return 0;
}

Endpoint any_of(std::uint16_t family) {
    Endpoint endpoint;
    endpoint.family = family;
    if (family == AF_INET) endpoint.address = Gid::from_ipv4(0);
    return endpoint;
}

Gid loopback_of(std::uint16_t family) {
    if (family == AF_INET) return Gid::from_ipv4(0x7f000001);
    Gid loopback;
    loopback.bytes[15] = 1;
    return loopback;
}

}  // namespace

int Manager::State::bind(Id& id, const Endpoint& local, bool privileged) {
    if (int error = check_family(local)) return error;
    if (id.state != IdState::idle) return wrong_state(id, "idle to be bound");
    if (local.family == kAfIb && !local.is_any()) return no_infiniband(local);
    if (local.address.is_link_local() && local.scope_id == 0)
        return fail(EINVAL, "%s is link-local and needs a scope id (sin6_scope_id)",
                    to_string(local).c_str());

    Endpoint old_local = id.local;
    Route old_route = id.route;
    id.local = local;
    if (local.family == AF_INET && local.address.is_zero()) id.local.address = Gid::from_ipv4(0);
    // A wildcard or loopback address leaves the device open until a peer is known.
    int error = 0;
    if (!any_or_loopback(id.local)) {
        error = environment.find_local(id.local, id.route);
        if (error == ENODEV)
            fail(error, "%s is an address of this host, but its interface has no RDMA device",
                 to_string(local).c_str());
        else if (error)
            fail(error, "%s is not an address of this host", to_string(local).c_str());
    }
    // IPv4 sockets take IPv4 only; IPv6 ones take both unless told otherwise (net.ipv6.bindv6only is 0).
    if (!id.family_only_set) id.family_only = local.family == AF_INET;
    if (!error) error = bind_port(id, privileged);
    if (error) {
        id.local = old_local;
        id.route = old_route;
        return error;
    }
    id.state = IdState::address_bound;
    return 0;
}

int Manager::State::bind_port(Id& id, bool privileged) {
    PortClaim claim{id.local, id.remote, id.reuse_address, id.family_only, false};
    int error;
    if (id.local.port == 0) {
        error = ports.claim_any(id.port_space, id.number, claim, environment.ephemeral_ports(),
                                environment.random(), id.local.port);
    } else {
        if (id.local.port < kFirstUnprivilegedPort && !privileged)
            return fail(EACCES, "port %u is below 1024 and needs CAP_NET_BIND_SERVICE", id.local.port);
        error = ports.claim(id.port_space, id.number, claim);
    }
    id.has_port = error == 0;
    return error;
}

int Manager::State::lend_port(IdNumber holder, std::uint16_t& port) {
    const auto range = environment.ephemeral_ports();
    if (ports_lent >= (range.second - range.first) / kLendable)
        return fail(EADDRNOTAVAIL, "%u ports are lent already", ports_lent);
    PortClaim claim;
    claim.local.family = AF_INET6;  // any address, of both families
    if (int error = ports.claim_any(PortSpace::tcp, holder, claim, range, environment.random(), port))
        return error;
    ports_lent++;
    return 0;
}

int Manager::State::resolve_address(Id& id, const Endpoint* source, const Endpoint& remote, Duration timeout,
                                    bool privileged, Time now) {
    if (int error = check_family(remote)) return error;
    if (id.state != IdState::idle && id.state != IdState::address_bound)
        return wrong_state(id, "idle or bound to resolve an address");
    if (remote.family == kAfIb) return no_infiniband(remote);
    Endpoint old_remote = id.remote;
    id.remote = remote;
    if (id.state == IdState::idle) {
        Endpoint any = any_of(remote.family);
        if (remote.address.is_link_local()) any.scope_id = remote.scope_id;
        const Endpoint& local = source && source->family ? *source : any;
        if (local.family != remote.family) {
            id.remote = old_remote;
            return fail(EINVAL, "source and destination are of different address families");
        }
        if (int error = bind(id, local, privileged)) {
            id.remote = old_remote;
            return error;
        }
    }
    if (id.local.family != remote.family) {
        id.remote = old_remote;
        return fail(EINVAL, "the id is bound to an address of another family than %s",
                    to_string(remote).c_str());
    }
    if (remote.is_any()) id.remote.address = loopback_of(remote.family);
    if (PortClaim* claim = ports.find(id.port_space, id.local.port, id.number)) claim->remote = id.remote;

    Route route;
    route.device = kNoDevice;
    Gid source_address;
    int error = environment.find_route(id.local, id.remote, route, source_address);
    if (error) {
        const std::string why = last_reason();
        fail(error, "no way from %s to %s: %s", to_string(id.local).c_str(), to_string(id.remote).c_str(),
             why.c_str());
        // As in Linux: a missing route is the call's answer, a route without a device is an event.
        if (error != ENODEV) return error;
    }
    id.state = IdState::address_query;
    id.bound_address = id.local.address;
    id.bound_route = id.route;
    if (error) {
        address_resolved(id, error);
        return 0;
    }
    id.route = route;
    if (id.local.is_any()) set_local_address(id, source_address);
    if (id.remote.is_loopback() || id.remote.address.is_multicast()) {
        address_resolved(id, 0);  // nobody to ask
        return 0;
    }
    id.query_token = std::uint64_t{++last_token} << 32 | id.number;
    if (timeout >= 0) queries.set(id.number, now + timeout);
    error = environment.resolve_neighbor(route, id.query_token);
    if (error) end_query(id);
    return error;
}

void Manager::State::set_local_address(Id& id, const Gid& address) {
    id.local.address = address;
    if (PortClaim* claim = ports.find(id.port_space, id.local.port, id.number))
        claim->local.address = address;
}

// Without success: the source that was chosen for this peer is not kept for the next one.
void Manager::State::end_query(Id& id) {
    queries.cancel(id.number);
    id.query_token = 0;
    id.route = id.bound_route;
    set_local_address(id, id.bound_address);
    id.state = IdState::address_bound;
}

void Manager::State::address_resolved(Id& id, int error) {
    if (error) {
        end_query(id);
        deliver(id, EventType::addr_error, -error);
        return;
    }
    queries.cancel(id.number);
    id.query_token = 0;
    id.state = IdState::address_resolved;
    fill_route(id);  // what the route will be, unless an option changes it
    if (!id.address_told) deliver(id, EventType::addr_resolved, 0);
}

// What rdma_cm puts into the path record of a RoCE route.
void Manager::State::fill_route(Id& id) {
    id.route.flow_label = wire::flow_label_from_ports(id.local.port, id.remote.port);
    if (id.traffic_class_set) id.route.traffic_class = id.traffic_class;
    // The ACK timeout that the program asked for is two life times, one exponent more.
    if (id.ack_timeout_set && id.ack_timeout > 0)
        id.route.packet_life_time = static_cast<std::uint8_t>(id.ack_timeout - 1);
}

void Manager::State::settle_route(Id& id) {
    fill_route(id);
    id.path_count = 1;
    id.state = IdState::route_resolved;
}

int Manager::State::resolve_route(Id& id, bool told) {
    if (id.state != IdState::address_resolved)
        return wrong_state(id, "address resolved (RDMA_CM_EVENT_ADDR_RESOLVED) to resolve a route");
    settle_route(id);
    if (!told) deliver(id, EventType::route_resolved, 0);
    return 0;
}

}  // namespace verbena::cm
