#include "daemon/routes.h"

#include <sys/socket.h>

#include <cerrno>
#include <cstring>

#include "base/reason.h"

namespace verbena::daemon {
namespace {

cm::Route start_at(const Devices::Place& place) {
    cm::Route route;
    route.source_gid = place.device->gids[place.gid_index];
    route.device = place.device->index;
    route.interface_index = place.device->interface_index;
    route.gid_index = place.gid_index;
    route.path_mtu = static_cast<std::uint8_t>(place.device->active_mtu);
    return route;
}

bool wants_ipv4(const cm::Endpoint& endpoint) {
    return endpoint.family == AF_INET || endpoint.address.is_ipv4();
}

// All of 127.0.0.0/8 is one address as far as the device is concerned.
Gid loopback_gid(bool ipv4) {
    if (ipv4) return Gid::from_ipv4(0x7f000001);
    Gid gid;
    gid.bytes[15] = 1;
    return gid;
}

Gid loopback_gid(const cm::Endpoint& endpoint) { return loopback_gid(wants_ipv4(endpoint)); }

std::uint32_t scope_of(const cm::Endpoint& endpoint) {
    return endpoint.address.is_link_local() ? endpoint.scope_id : 0;
}

}  // namespace

int Routes::find_local(const cm::Endpoint& local, cm::Route& route) const {
    const auto named = [&] { return to_string(local.address); };  // takes as long as all the rest
    if (local.is_loopback()) {
        Devices::Place place = devices_.find(loopback_gid(local));
        if (!place.device)
            return fail(ENODEV, "%s: the loopback interface is down or lacks that address", named().c_str());
        route = start_at(place);
        return 0;
    }
    const std::uint32_t scope = scope_of(local);
    Devices::Place place = devices_.find(local.address, scope);
    if (!place.device) {
        if (devices_.is_own(local.address, scope))
            return fail(
                ENODEV,
                "%s is on an interface that is no RDMA device (down, or the address is not usable yet)",
                named().c_str());
        return fail(EADDRNOTAVAIL, "%s is no address of this host", named().c_str());
    }
    route = start_at(place);
    return 0;
}

int Routes::find_route(const cm::Endpoint& source, const cm::Endpoint& remote, cm::Route& route,
                       Gid& source_address) const {
    if (!source.is_any() && wants_ipv4(source) != wants_ipv4(remote))
        return fail(EINVAL, "%s and %s are of different address families", to_string(source.address).c_str(),
                    to_string(remote.address).c_str());
    if (remote.is_any() || remote.is_loopback()) return to_loopback(source, remote, route, source_address);
    if (devices_.is_own(remote.address, scope_of(remote)))
        return to_own(source, remote, route, source_address);
    if (remote.address.is_multicast() && !source.is_any())
        return to_group(source, remote, route, source_address);
    return to_network(source, remote, route, source_address);
}

// "Any" as a destination means this host, as it does for TCP.
int Routes::to_loopback(const cm::Endpoint& source, const cm::Endpoint& remote, cm::Route& route,
                        Gid& source_address) const {
    cm::Endpoint local = source;
    if (source.is_any()) {
        local = remote;
        local.address = remote.is_any() ? loopback_gid(remote) : remote.address;
    }
    if (int error = find_local(local, route)) return error;
    const bool ipv4 = wants_ipv4(remote);
    if (!devices_.find(loopback_gid(ipv4)).device)
        return fail(ENODEV, "the loopback interface is down or lacks the address");
    route.destination_gid = loopback_gid(ipv4);
    source_address = local.address;
    return 0;
}

int Routes::to_own(const cm::Endpoint& source, const cm::Endpoint& remote, cm::Route& route,
                   Gid& source_address) const {
    cm::Route far;
    if (int error = find_local(remote, far)) return error;
    const cm::Endpoint& local = source.is_any() ? remote : source;
    if (int error = find_local(local, route)) return error;
    route.destination_gid = far.source_gid;
    source_address = local.address;
    return 0;
}

// The device that has the source address: what a group reaches is a matter of the interface, not of routes.
int Routes::to_group(const cm::Endpoint& source, const cm::Endpoint& group, cm::Route& route,
                     Gid& source_address) const {
    if (int error = find_local(source, route)) return error;
    route.destination_gid = group.address;
    source_address = source.address;
    return 0;
}

int Routes::to_network(const cm::Endpoint& source, const cm::Endpoint& remote, cm::Route& route,
                       Gid& source_address) const {
    const auto named = [&] { return to_string(remote.address); };
    const std::uint32_t scope = scope_of(remote);
    if (remote.address.is_link_local() && scope == 0)
        return fail(EINVAL, "%s is link-local: the address must name its interface (sin6_scope_id)",
                    named().c_str());
    if (!source.is_any() && !source.is_loopback() && !devices_.is_own(source.address, scope_of(source)))
        return fail(EADDRNOTAVAIL, "%s is no address of this host", to_string(source.address).c_str());

    KernelRoute found;
    const Gid wanted = source.is_any() ? Gid{} : source.address;
    if (int error = kernel_.route(remote.address, wanted, scope, found))
        return fail(error, "no route to %s: %s", named().c_str(), std::strerror(error));
    if (!why_no_wire_.empty() && !remote.address.is_multicast())
        return fail(ENETUNREACH, "%s: %s", named().c_str(), why_no_wire_.c_str());

    source_address = source.is_any() ? found.source : source.address;
    // The kernel names no source where a route has no preferred one (IPv6, sometimes).
    const host::Device* device = devices_.by_interface(found.interface_index);
    for (std::uint16_t i = 0; source_address.is_zero() && device && i < device->gid_count; i++)
        if (device->gid_valid[i] && device->gids[i].is_ipv4() == remote.address.is_ipv4() &&
            (device->gids[i].is_link_local() == remote.address.is_link_local()))
            source_address = device->gids[i];

    Devices::Place place = devices_.find(source_address, found.interface_index);
    if (!place.device) place = devices_.find(source_address);  // the address of another interface, by choice
    if (!place.device) {
        const Interface* interface = devices_.interface(found.interface_index);
        return fail(ENODEV, "the route to %s leaves by %s with source %s, which is no RDMA device",
                    named().c_str(), interface ? interface->name.c_str() : "an unknown interface",
                    to_string(source_address).c_str());
    }
    route = start_at(place);
    route.destination_gid = remote.address;
    if (remote.address.is_link_local()) route.interface_index = scope;
    return 0;
}

}  // namespace verbena::daemon
