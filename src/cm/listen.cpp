// Listeners, and the requests that find one or do not.

#include <sys/socket.h>

#include <cerrno>

#include "base/reason.h"
#include "cm/near_miss.h"
#include "cm/state.h"
#include "cm/text.h"

namespace verbena::cm {
namespace {

constexpr int kMaxBacklog = 1024;        // net.rdma_ucm.max_backlog
constexpr std::uint8_t kMinPathMtu = 1;  // 256
constexpr std::uint8_t kMaxPathMtu = 5;  // 4096

// Does a listener bound to `local` take a request to `destination`? Loopback is an address like any other
// here: who binds to it does not want to be reached from outside. (Linux takes a request to any address.)
bool takes(const Id& listener, const Endpoint& destination) {
    const Endpoint& local = listener.local;
    if (local.is_any()) return !listener.family_only || local.family == destination.family;
    if (local.address != destination.address) return false;
    return !local.address.is_link_local() || local.scope_id == 0 || local.scope_id == destination.scope_id;
}

std::uint16_t family_of(const Gid& address) { return address.is_ipv4() ? AF_INET : AF_INET6; }

}  // namespace

int Manager::State::listen(Id& id, int backlog) {
    if (id.state == IdState::idle) {
        Endpoint any;
        any.family = AF_INET;
        any.address = Gid::from_ipv4(0);
        if (int error = bind(id, any, false)) return error;
    }
    if (id.state != IdState::address_bound) return wrong_state(id, "idle or bound to listen");
    PortClaim* claim = ports.find(id.port_space, id.local.port, id.number);
    if (claim) {
        // A shared port was fine until now; a listener is alone on it.
        if (int error = ports.check_exclusive(id.port_space, id.local.port, id.number)) return error;
        claim->listening = true;
    }
    id.backlog_left = backlog > 0 && backlog < kMaxBacklog ? backlog : kMaxBacklog;
    id.state = IdState::listen;
    listeners.emplace(id.number, &id);
    return 0;
}

Id* Manager::State::find_listener(PortSpace space, std::uint16_t port, const Endpoint& destination) {
    Id* wildcard = nullptr;
    for (const auto& [number, id] : listeners) {
        if (id->port_space != space || id->local.port != port || !takes(*id, destination)) continue;
        if (!id->local.is_any()) return id;
        if (!wildcard || id->local.family == destination.family) wildcard = id;
    }
    return wildcard;
}

Id* Manager::State::new_child(Id& listener, const Endpoint& source, const Endpoint& destination,
                              const Route& route) {
    if (!has_room(listener)) {
        log(LogLevel::warn,
            "the backlog of id %u at %s is full: the request from %s is dropped, the peer will repeat it",
            listener.number, to_string(listener.local).c_str(), to_string(source).c_str());
        return nullptr;
    }
    listener.backlog_left--;
    Id& child =
        add(new_numbers(1), listener.file, listener.port_space, listener.qp_type, listener.user_handle);
    child.accepted = false;
    child.state = IdState::connect;
    child.local = destination;
    child.remote = source;
    child.route = route;
    child.path_count = 1;
    if (listener.traffic_class_set) {
        child.traffic_class_set = true;
        child.traffic_class = listener.traffic_class;
    }
    child.ack_timeout_set = listener.ack_timeout_set;
    child.ack_timeout = listener.ack_timeout;
    listener.unread_children.push_back(child.number);
    return &child;
}

void Manager::State::announce(Id& listener, Id& child, const ConnectParameters& parameters) {
    child.remote_parameters = parameters;
    Event event;
    event.type = EventType::connect_request;
    event.id = child.number;
    event.listen_id = listener.number;
    event.user_handle = listener.user_handle;
    event.connection = parameters;
    event.ud_route = child.route;
    describe(child, event);
    deliver(listener, event);
}

// The oldest was read. (Its child may be gone, with its device; it took a place until now.)
void Manager::State::request_taken(Id& listener) {
    if (listener.unread_children.empty()) return;
    listener.unread_children.pop_front();
    listener.backlog_left++;
}

// What the program has read and did not tell, before it matters which that is. What it says is only so far
// believed as there are unread ones.
void Manager::State::learn_taken(Id& listener) {
    if (!listener.taken) return;
    for (std::uint32_t news = listener.taken->news(); news > 0 && !listener.unread_children.empty(); news--)
        request_taken(listener);
}

bool Manager::State::has_room(Id& listener) {
    if (listener.backlog_left <= 0) learn_taken(listener);
    if (listener.backlog_left > 0) return true;
    if (!listener.taken) return false;
    listener.taken->tell_each();
    learn_taken(listener);
    return listener.backlog_left > 0;
}

// Who is meant: by service id (port space and port), then by the destination address in the CMA header.
Manager::State::Target Manager::State::who_is_meant(std::uint64_t service_id,
                                                    std::span<const std::uint8_t> private_data,
                                                    const wire::Path& sender_view) {
    Target target;
    Endpoint& destination = target.destination;
    destination.port = wire::service_port(service_id);
    wire::CmaHeader header;
    if (!wire::is_ip_service(service_id)) return target;
    target.malformed = !wire::decode(private_data.first<wire::kCmaHeaderLength>(), header);
    if (target.malformed) return target;
    destination.address = header.destination_gid();
    destination.family = family_of(destination.address);
    target.source.address = header.source_gid();
    target.source.family = family_of(target.source.address);
    target.source.port = header.port;
    if (destination.address.is_link_local()) {
        destination.scope_id = sender_view.interface_index;
        target.source.scope_id = sender_view.interface_index;
    }
    // Nobody reaches a loopback listener from outside by writing its address into the header.
    Endpoint arrived;
    arrived.address = sender_view.destination;
    const bool forged =
        destination.is_loopback() && !arrived.is_loopback() && sender_view.source != sender_view.destination;
    const auto space = static_cast<PortSpace>(wire::service_port_space(service_id));
    if (!forged) target.listener = find_listener(space, destination.port, destination);
    return target;
}

// The same, with reasons for the log. `our_gid` and `peer_gid` are where the data will flow.
Manager::State::Target Manager::State::find_target(std::uint64_t service_id,
                                                   std::span<const std::uint8_t> private_data,
                                                   const wire::Path& sender_view, const Gid& our_gid,
                                                   const Gid& peer_gid) {
    Target target = who_is_meant(service_id, private_data, sender_view);
    const Endpoint& destination = target.destination;
    const bool known = wire::is_ip_service(service_id);
    if (!known || target.malformed) {
        log(LogLevel::warn, "request from %s for service id 0x%016llx%s: refused",
            verbena::to_string(sender_view.source).c_str(), static_cast<unsigned long long>(service_id),
            target.malformed ? " with an unknown CMA header" : ", which is no IP service");
        return target;
    }
    const auto space = static_cast<PortSpace>(wire::service_port_space(service_id));
    if (!target.listener) {
        log(LogLevel::warn, "request from %s: nothing listens on %s in %s%s",
            to_string(target.source).c_str(), to_string(destination).c_str(), to_string(space),
            near_misses(ids, space, destination).c_str());
        return target;
    }

    Endpoint ours;
    ours.address = our_gid;
    ours.family = family_of(our_gid);
    ours.scope_id = sender_view.interface_index;
    if (ours.is_any() || environment.find_local(ours, target.route) != 0 ||
        target.route.device == kNoDevice) {
        log(LogLevel::warn, "request from %s for %s names GID %s, which is no device's of this host",
            to_string(target.source).c_str(), to_string(destination).c_str(),
            verbena::to_string(our_gid).c_str());
        target.no_such_gid = true;
        return target;
    }
    target.route.destination_gid = peer_gid;
    return target;
}

ConnectionUser::Verdict Manager::State::connection_requested(Connection& connection, const wire::Req& req,
                                                             std::uint32_t attribute_modifier,
                                                             const wire::Path& sender_view,
                                                             wire::RejReason& reason) {
    Target target = find_target(req.service_id, req.private_data, sender_view, req.primary.remote_gid,
                                req.primary.local_gid);
    if (!target.listener) {
        reason =
            target.malformed ? wire::RejReason::unsupported_request : wire::RejReason::invalid_service_id;
        return ConnectionUser::Verdict::rejected;
    }
    if (target.no_such_gid) {
        reason = wire::RejReason::primary_remote_port_gid_rejected;
        return ConnectionUser::Verdict::rejected;
    }
    Id& listener = *target.listener;
    if (listener.qp_type != connection.qp_type) {
        log(LogLevel::warn, "request from %s: id %u at %s listens for QP type %u, the peer's is %u",
            to_string(target.source).c_str(), listener.number, to_string(listener.local).c_str(),
            static_cast<unsigned>(listener.qp_type), static_cast<unsigned>(connection.qp_type));
        reason = wire::RejReason::invalid_transport_service_type;
        return ConnectionUser::Verdict::rejected;
    }
    if (req.path_mtu < kMinPathMtu || req.path_mtu > kMaxPathMtu) {
        reason = wire::RejReason::invalid_path_mtu;
        return ConnectionUser::Verdict::rejected;
    }
    Route& route = target.route;
    // RoCE's path MTU is the active side's choice: a REP has no field to answer another.
    route.path_mtu = req.path_mtu;
    route.traffic_class = listener.traffic_class_set ? listener.traffic_class : req.primary.traffic_class;
    route.flow_label = req.primary.flow_label;

    Id* child = new_child(listener, target.source, target.destination, route);
    if (!child) return ConnectionUser::Verdict::dropped;
    child->connection = connection.local_comm_id;
    connection.owner = child->number;
    connection.route = route;
    connection.local_guid = environment.node_guid(route.device);

    ConnectParameters parameters;
    parameters.responder_resources = connection.responder_resources;
    parameters.initiator_depth = connection.initiator_depth;
    parameters.flow_control = req.end_to_end_flow_control;
    parameters.retry_count = req.retry_count;
    parameters.rnr_retry_count = req.rnr_retry_count;
    parameters.srq = req.srq;
    parameters.qp_type = connection.qp_type;
    parameters.qp_number = req.local_qpn;
    parameters.starting_psn = req.starting_psn;
    parameters.ece_vendor_id = req.reserved24 >> 8;
    parameters.ece_attribute_mod = attribute_modifier;
    set_private_data(parameters, std::span(req.private_data).subspan(wire::kCmaHeaderLength));
    announce(listener, *child, parameters);
    return ConnectionUser::Verdict::accepted;
}

SidrUser::Verdict Manager::State::service_requested(std::uint32_t request, const wire::SidrReq& req,
                                                    const wire::Path& sender_view, wire::SidrStatus& status) {
    Target target = find_target(req.service_id, req.private_data, sender_view, sender_view.destination,
                                sender_view.source);
    if (!target.listener || target.no_such_gid || target.listener->qp_type != QpType::ud) {
        status = target.malformed ? wire::SidrStatus::unsupported_version : wire::SidrStatus::unsupported;
        return SidrUser::Verdict::rejected;
    }
    Id* child = new_child(*target.listener, target.source, target.destination, target.route);
    if (!child) return SidrUser::Verdict::dropped;
    if (child->traffic_class_set) child->route.traffic_class = child->traffic_class;
    child->sidr_request = request;
    ConnectParameters parameters;
    parameters.qp_type = QpType::ud;
    set_private_data(parameters, std::span(req.private_data).subspan(wire::kCmaHeaderLength));
    announce(*target.listener, *child, parameters);
    return SidrUser::Verdict::accepted;
}

}  // namespace verbena::cm
