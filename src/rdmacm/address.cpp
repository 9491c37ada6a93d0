// Address conversion and the public fields of an id that follow from its route.
#include "rdmacm/address.h"

#include <arpa/inet.h>
#include <endian.h>
#include <infiniband/ib.h>
#include <netinet/in.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <mutex>
#include <optional>
#include <utility>

#include "base/call_fault.h"
#include "base/reason.h"
#include "base/socket_address.h"
#include "rdmacm/daemon_call.h"
#include "rdmacm/device.h"
#include "rdmacm/id.h"
#include "rdmacm/own_events.h"
#include "rdmacm/process.h"
#include "rdmacm/way.h"
#include "wire/bth.h"

namespace verbena::rdmacm {
namespace {

constexpr std::uint8_t kExactly = 2;  // selector of a path record's MTU, rate and lifetime (IBA 15.2.5.16)
constexpr std::uint8_t kPort = 1;
constexpr int kPortBits = 16;  // of a service id of rdma_cm's; above them is the port space

// A bound service id (AF_IB) has to be of the id's port space.
int check_service(const Id& id, const sockaddr* address) {
    if (!address || address->sa_family != kFamilyIb) return 0;
    sockaddr_ib ib;
    std::memcpy(&ib, address, sizeof ib);
    const std::uint64_t mask = be64toh(ib.sib_sid_mask) >> kPortBits;
    if ((be64toh(ib.sib_sid) >> kPortBits & mask) == (static_cast<std::uint64_t>(id.ps) & mask)) return 0;
    return fail_minus_one(EPROTONOSUPPORT,
                          "service id 0x%016llx, mask 0x%016llx is none of port space 0x%04x",
                          static_cast<unsigned long long>(be64toh(ib.sib_sid)),
                          static_cast<unsigned long long>(be64toh(ib.sib_sid_mask)), id.ps);
}

void show_path(Id& id, const cm::Route& route) {
    ibv_sa_path_rec& path = id.path;
    path = {};
    path.dgid = to_gid(route.destination_gid);
    path.sgid = to_gid(route.source_gid);
    path.flow_label = htonl(route.flow_label);
    path.hop_limit = route.hop_limit;
    path.traffic_class = route.traffic_class;
    path.reversible = 1;
    path.numb_path = 1;
    path.pkey = htons(wire::kDefaultPkey);
    path.mtu_selector = kExactly;
    path.mtu = route.path_mtu;
    path.rate_selector = kExactly;
    path.packet_life_time_selector = kExactly;
    path.packet_life_time = route.packet_life_time;
    id.route.path_rec = &path;
    id.route.num_paths = 1;
}

// `plainly`: it is the first call on the id, without a source.
int resolve_address(Id& id, const host::ResolveAddressRequest& request, bool plainly) {
    const cm::Endpoint& remote = request.remote;
    // What speaks against that, or a scope that it might lack, is an event, if there is a route.
    const bool told =
        plainly && !id.device && !id.synchronous &&
        (remote.family == AF_INET || (remote.family == AF_INET6 && !remote.address.is_link_local()));
    forget_told(id);  // and its lock is what orders all that before the event, for who reads that elsewhere
    if (!told) return ask(host::Command::resolve_address, request);
    if (const auto known = take_address(id, remote)) return write_address(id, request, *known);
    const KnownAddresses::Moment asked(id.generation, host::devices());  // before anything is found out
    const Way way = way_to(remote);
    if (way == Way::here) will_learn(id, asked);
    return tell_or_ask(way != Way::none, host::Command::resolve_address, request);
}

// The requests that are read then are counted in a page, if there can be one: from the first one on, which
// another thread may read before this one goes on.
int begin_to_listen(Id& id, const host::ListenRequest& request, cm::IdInfo& info) {
    const auto set_backlog = [&id](SharedPage page) {
        std::lock_guard lock(process().mutex);
        id.backlog = std::move(page);
    };
    int page = -1;
    set_backlog(SharedPage::make("verbena-backlog", page));
    const int error = host::call(host::Command::listen, request, info, page);
    if (page >= 0) close(page);
    if (error) set_backlog({});
    return result_of(error);
}

}  // namespace

int to_endpoint(const sockaddr* address, cm::Endpoint& endpoint) {
    endpoint = {};
    if (!address) return fail_minus_one(EINVAL, "the address is NULL");
    endpoint.family = address->sa_family;
    endpoint.address = gid_of(address).value_or(Gid{});
    if (address->sa_family == AF_INET) {
        sockaddr_in in;
        std::memcpy(&in, address, sizeof in);
        endpoint.port = ntohs(in.sin_port);
        return 0;
    }
    if (address->sa_family == AF_INET6) {
        sockaddr_in6 in6;
        std::memcpy(&in6, address, sizeof in6);
        endpoint.port = ntohs(in6.sin6_port);
        endpoint.scope_id = in6.sin6_scope_id;
        endpoint.flow_info = in6.sin6_flowinfo;
        return 0;
    }
    if (address->sa_family == kFamilyIb) {
        sockaddr_ib ib;
        std::memcpy(&ib, address, sizeof ib);
        std::memcpy(endpoint.address.bytes.data(), &ib.sib_addr, endpoint.address.bytes.size());
        endpoint.port = static_cast<std::uint16_t>(be64toh(ib.sib_sid));
        return 0;
    }
    return fail_minus_one(EINVAL, "address family %d is neither AF_INET, AF_INET6 nor AF_IB",
                          address->sa_family);
}

void to_sockaddr(const cm::Endpoint& endpoint, rdma_port_space space, sockaddr_storage& address) {
    address = {};
    if (endpoint.family == AF_INET) {
        sockaddr_in in{};
        in.sin_family = AF_INET;
        in.sin_port = htons(endpoint.port);
        if (!endpoint.is_any()) in.sin_addr.s_addr = htonl(endpoint.address.ipv4());
        std::memcpy(&address, &in, sizeof in);
    } else if (endpoint.family == AF_INET6) {
        sockaddr_in6 in6{};
        in6.sin6_family = AF_INET6;
        in6.sin6_port = htons(endpoint.port);
        in6.sin6_scope_id = endpoint.scope_id;
        in6.sin6_flowinfo = endpoint.flow_info;
        std::memcpy(&in6.sin6_addr, endpoint.address.bytes.data(), endpoint.address.bytes.size());
        std::memcpy(&address, &in6, sizeof in6);
    } else if (endpoint.family == kFamilyIb) {
        sockaddr_ib ib{};
        ib.sib_family = kFamilyIb;
        ib.sib_pkey = htons(wire::kDefaultPkey);
        ib.sib_sid = htobe64(static_cast<std::uint64_t>(space) << kPortBits | endpoint.port);
        ib.sib_sid_mask = htobe64(~std::uint64_t{0});
        std::memcpy(&ib.sib_addr, endpoint.address.bytes.data(), sizeof ib.sib_addr);
        std::memcpy(&address, &ib, sizeof ib);
    }
}

socklen_t length_of(const sockaddr* address) {
    if (!address) return 0;
    if (address->sa_family == AF_INET) return sizeof(sockaddr_in);
    if (address->sa_family == AF_INET6) return sizeof(sockaddr_in6);
    if (address->sa_family == kFamilyIb) return sizeof(sockaddr_ib);
    return 0;
}

ibv_gid to_gid(const Gid& gid) {
    ibv_gid out;
    static_assert(sizeof out == sizeof gid.bytes);
    std::memcpy(&out, gid.bytes.data(), sizeof out);
    return out;
}

int show(Id& id, const cm::IdInfo& info) {
    rdma_addr& shown = id.route.addr;
    to_sockaddr(info.local, id.ps, shown.src_storage);
    to_sockaddr(info.remote, id.ps, shown.dst_storage);
    if (info.route.device == cm::kNoDevice) return 0;
    if (!id.device) {
        id.device = acquire_device(info.route.device);
        if (!id.device) return -1;
        id.verbs = id.device->verbs;
        if (!id.pd) id.pd = id.device->pd;
    }
    id.port_num = kPort;
    shown.addr.ibaddr.sgid = to_gid(info.route.source_gid);
    shown.addr.ibaddr.dgid = to_gid(info.route.destination_gid);
    shown.addr.ibaddr.pkey = htons(wire::kDefaultPkey);
    if (info.path_count > 0) show_path(id, info.route);
    return 0;
}

ibv_ah_attr address_vector(const cm::Route& route) {
    ibv_ah_attr attributes{};
    attributes.is_global = 1;  // RoCE addresses by GID only (IBA A17.9)
    attributes.grh.dgid = to_gid(route.destination_gid);
    attributes.grh.flow_label = route.flow_label;
    attributes.grh.sgid_index = static_cast<std::uint8_t>(route.gid_index);
    attributes.grh.hop_limit = route.hop_limit;
    attributes.grh.traffic_class = route.traffic_class;
    attributes.port_num = kPort;
    return attributes;
}

}  // namespace verbena::rdmacm

using namespace verbena;
using namespace verbena::rdmacm;

extern "C" {

int rdma_bind_addr(rdma_cm_id* public_id, sockaddr* addr) {
    if (const Fault fault{"rdma_bind_addr"}) return fault.minus_one();
    IdCall id("rdma_bind_addr", public_id);
    if (!id) return -1;
    host::BindRequest request;
    request.id = id->number;
    if (to_endpoint(addr, request.local) != 0 || check_service(*id, addr) != 0) return -1;
    cm::IdInfo info;
    if (ask(host::Command::bind, request, info) != 0) return -1;
    return show(*id, info);
}

int rdma_resolve_addr(rdma_cm_id* public_id, sockaddr* src_addr, sockaddr* dst_addr, int timeout_ms) {
    if (const Fault fault{"rdma_resolve_addr"}) return fault.minus_one();
    IdCall id("rdma_resolve_addr", public_id);
    if (!id) return -1;
    host::ResolveAddressRequest request;
    request.id = id->number;
    request.timeout_ms = timeout_ms;
    request.has_source = src_addr != nullptr;
    if (src_addr && (to_endpoint(src_addr, request.source) != 0 || check_service(*id, src_addr) != 0))
        return -1;
    if (to_endpoint(dst_addr, request.remote) != 0) return -1;
    // Before the request: another thread may read the event, and with it the address, before this one goes
    // on.
    const sockaddr_storage before = id->route.addr.dst_storage;
    to_sockaddr(request.remote, id->ps, id->route.addr.dst_storage);
    if (resolve_address(*id, request, id.is_first() && !src_addr) != 0) {
        id->route.addr.dst_storage = before;
        return -1;
    }
    return complete(*id);
}

int rdma_resolve_route(rdma_cm_id* public_id, int timeout_ms) {
    if (const Fault fault{"rdma_resolve_route"}) return fault.minus_one();
    IdCall id("rdma_resolve_route", public_id);
    if (!id) return -1;
    host::ResolveRouteRequest request;
    request.id = id->number;
    request.timeout_ms = timeout_ms;
    // Right after ADDR_RESOLVED the daemon would answer 0, or the device is gone: both are events.
    const std::optional<cm::Event> resolved = take_route(*id);
    const bool told = resolved && !id->synchronous;
    if (told && id->device && can_write(*id->home)) return write_route(*id, *resolved);
    if (tell_or_ask(told, host::Command::resolve_route, request) != 0) return -1;
    return complete(*id);
}

int rdma_listen(rdma_cm_id* public_id, int backlog) {
    if (const Fault fault{"rdma_listen"}) return fault.minus_one();
    IdCall id("rdma_listen", public_id);
    if (!id) return -1;
    host::ListenRequest request;
    request.id = id->number;
    request.backlog = backlog;
    cm::IdInfo info;
    if (id->listens ? ask(host::Command::listen, request, info) : begin_to_listen(*id, request, info))
        return -1;
    id->listens = true;
    return show(*id, info);
}

__be16 rdma_get_src_port(rdma_cm_id* id) {
    cm::Endpoint endpoint;
    if (!id || !length_of(&id->route.addr.src_addr)) return 0;
    return to_endpoint(&id->route.addr.src_addr, endpoint) == 0 ? htons(endpoint.port) : __be16{0};
}

__be16 rdma_get_dst_port(rdma_cm_id* id) {
    cm::Endpoint endpoint;
    if (!id || !length_of(&id->route.addr.dst_addr)) return 0;
    return to_endpoint(&id->route.addr.dst_addr, endpoint) == 0 ? htons(endpoint.port) : __be16{0};
}
}
