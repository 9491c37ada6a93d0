#include "cm/manager.h"

#include <algorithm>
#include <cerrno>
#include <vector>

#include "base/reason.h"
#include "cm/state.h"
#include "wire/byte_order.h"
#include "wire/cma.h"
#include "wire/mad.h"

namespace verbena::cm {
namespace {

std::uint64_t service_of(const Id& id) {
    return wire::service_id(static_cast<std::uint16_t>(id.port_space), id.local.port);
}

}  // namespace

Manager::Manager(Environment& environment) : state_(std::make_unique<State>(environment)) {}
Manager::~Manager() = default;

int Manager::create_id(FileNumber file, PortSpace port_space, QpType qp_type, std::uint64_t user_handle,
                       IdNumber& id) {
    const IdNumber number = reserve_ids(1);
    const int error = create_id_as(number, file, port_space, qp_type, user_handle);
    if (!error) id = number;
    return error;
}

IdNumber Manager::reserve_ids(std::uint32_t count) { return state_->new_numbers(count); }

int Manager::create_id_as(IdNumber id, FileNumber file, PortSpace port_space, QpType qp_type,
                          std::uint64_t user_handle) {
    switch (port_space) {
        case PortSpace::tcp:
            qp_type = QpType::rc;
            break;
        case PortSpace::udp:
        case PortSpace::ipoib:
            qp_type = QpType::ud;
            break;
        case PortSpace::ib:
            break;  // the caller's
        default:
            return fail(EINVAL, "port space 0x%04x is none", static_cast<unsigned>(port_space));
    }
    switch (qp_type) {
        case QpType::rc:
        case QpType::uc:
        case QpType::ud:
        case QpType::xrc_send:
        case QpType::xrc_recv:
            break;
        default:
            return fail(EINVAL, "QP type %u is none", static_cast<unsigned>(qp_type));
    }
    if (state_->ids.contains(id)) return fail(EEXIST, "there is an id %u already", id);
    state_->add(id, file, port_space, qp_type, user_handle);
    return 0;
}

int Manager::destroy_id(IdNumber number, std::uint64_t& events_delivered, Time now) {
    Id* id = state_->find(number);
    if (!id) return fail(ENOENT, "there is no id %u", number);
    events_delivered = id->events_delivered;
    state_->remove(*id, now, false);
    return 0;
}

int Manager::bind(IdNumber number, const Endpoint& local, bool privileged) {
    Id* id;
    if (int error = state_->find(number, id)) return error;
    return state_->bind(*id, local, privileged);
}

int Manager::listen(IdNumber number, int backlog, std::unique_ptr<TakenRequests> taken) {
    Id* id;
    if (int error = state_->find(number, id)) return error;
    if (int error = state_->listen(*id, backlog)) return error;
    id->taken = std::move(taken);
    const std::uint64_t service = service_of(*id);
    state_->held.listener_came(service);
    HeldRequests::Request request;
    while (state_->has_room(*id) && state_->held.take_waiting(service, 0, request))
        state_->receive_late(request, request.came);
    return 0;
}

int Manager::resolve_address(IdNumber number, const Endpoint* source, const Endpoint& remote,
                             Duration timeout, Time now, bool privileged, bool told) {
    if (Id* known = state_->find(number); known && told) known->events_delivered++;
    Id* id;
    if (int error = state_->find(number, id)) return error;
    id->address_told = told;
    return state_->resolve_address(*id, source, remote, timeout, privileged, now);
}

int Manager::lend_port(IdNumber holder, std::uint16_t& port) { return state_->lend_port(holder, port); }

void Manager::end_loan(IdNumber holder, std::uint16_t port) {
    state_->ports.release(PortSpace::tcp, port, holder);
    state_->ports_lent--;
}

int Manager::resolve_route(IdNumber number, Duration, Time, bool told) {
    if (Id* known = state_->find(number); known && told) known->events_delivered++;
    Id* id;
    if (int error = state_->find(number, id)) return error;
    return state_->resolve_route(*id, told);
}

int Manager::connect(IdNumber number, const ConnectParameters& parameters, Time now) {
    Id* id;
    if (int error = state_->find(number, id)) return error;
    return state_->connect(*id, parameters, now);
}

int Manager::accept(IdNumber number, const ConnectParameters* parameters, std::uint64_t user_handle,
                    Time now) {
    Id* id;
    if (int error = state_->find(number, id)) return error;
    std::uint64_t old_handle = id->user_handle;
    bool was_accepted = id->accepted;
    id->user_handle = user_handle;
    id->accepted = true;
    int error = state_->accept(*id, parameters, now);
    if (error) {
        id->user_handle = old_handle;
        id->accepted = was_accepted;
    }
    return error;
}

int Manager::reject(IdNumber number, std::span<const std::uint8_t> private_data, std::uint8_t reason,
                    Time now) {
    Id* id;
    if (int error = state_->find(number, id)) return error;
    return state_->reject(*id, private_data, reason, now);
}

int Manager::disconnect(IdNumber number, Time now) {
    Id* id;
    if (int error = state_->find(number, id)) return error;
    return state_->disconnect(*id, now);
}

int Manager::init_qp_attributes(IdNumber number, std::uint8_t qp_state, QpTransition& transition) {
    Id* id;
    if (int error = state_->find(number, id)) return error;
    return state_->init_qp_attributes(*id, qp_state, transition);
}

int Manager::set_option(IdNumber number, int level, int option, std::span<const std::uint8_t> value) {
    Id* id;
    if (int error = state_->find(number, id)) return error;
    return state_->set_option(*id, level, option, value);
}

int Manager::notify(IdNumber number, int event) {
    Id* id;
    if (int error = state_->find(number, id)) return error;
    return state_->notify(*id, event);
}

int Manager::join_multicast(IdNumber number, const Endpoint& group, std::uint16_t join_flags,
                            std::uint64_t handle, Time) {
    Id* id;
    if (int error = state_->find(number, id)) return error;
    return state_->join_multicast(*id, group, join_flags, handle);
}

int Manager::leave_multicast(IdNumber number, const Endpoint& group, std::uint64_t& events_delivered) {
    Id* id;
    if (int error = state_->find(number, id)) return error;
    return state_->leave_multicast(*id, group, events_delivered);
}

void Manager::request_taken(IdNumber listen_id) {
    Id* listener = state_->find(listen_id);
    if (!listener || listener->state != IdState::listen) return;
    if (listener->taken)
        state_->learn_taken(*listener);
    else
        state_->request_taken(*listener);
    static_cast<void>(state_->serve_held(*listener));
}

// Without a list of them: where there is no memory left, this is what frees some.
void Manager::close_file(FileNumber file, Time now) {
    auto& ids = state_->ids;
    for (auto at = ids.begin(); at != ids.end();) {
        const IdNumber number = at->first;
        if (at->second.file == file) state_->remove(at->second, now, true);  // a listener's children go along
        at = ids.upper_bound(number);
    }
}

void Manager::receive_mad(const wire::Path& sender_view, std::uint32_t source_qp,
                          std::span<const std::uint8_t, 256> mad, Time now) {
    wire::MadHeader header;
    wire::decode(wire::mad_header(mad), header);
    if (!wire::is_cm(header)) return;
    state_->withdraw_held(header, mad);
    if (!state_->hold_back(header, sender_view, source_qp, mad, now))
        state_->receive(header, sender_view, source_qp, mad, now);
}

void Manager::State::remove(Id& id, Time now, bool for_good) {
    const std::uint64_t service = id.state == IdState::listen ? service_of(id) : 0;
    const IdNumber number = id.number;
    destroy(id, now);
    if (service && has_listener(service))
        held.listener_gone(service, number, now);
    else if (service)
        held.listener_gone(service, now, for_good);
}

bool Manager::State::has_listener(std::uint64_t service_id) const {
    return std::any_of(listeners.begin(), listeners.end(),
                       [service_id](const auto& entry) { return service_of(*entry.second) == service_id; });
}

bool Manager::State::is_bound(std::uint64_t service_id) const {
    return std::any_of(ids.begin(), ids.end(), [service_id](const auto& entry) {
        return entry.second.state == IdState::address_bound && service_of(entry.second) == service_id;
    });
}

void Manager::State::receive(const wire::MadHeader& header, const wire::Path& sender_view,
                             std::uint32_t source_qp, std::span<const std::uint8_t, 256> mad, Time now) {
    if (connections.receive(header, wire::cm_message(mad), sender_view, source_qp, now)) return;
    sidr.receive(header, wire::cm_message(mad), sender_view, source_qp, now);
}

// What waits for this listener comes before what comes now. True if there is room left.
bool Manager::State::serve_held(Id& listener) {
    HeldRequests::Request request;
    while (has_room(listener)) {
        if (!held.take_waiting(service_of(listener), listener.number, request)) return true;
        receive_late(request, request.came);
    }
    return false;
}

// Whether a request waits for its listener (held_requests.h).
bool Manager::State::hold_back(const wire::MadHeader& header, const wire::Path& sender_view,
                               std::uint32_t source_qp, std::span<const std::uint8_t, 256> mad, Time now) {
    HeldRequests::Request request;
    bool known = true;  // a repetition of one that was taken has an answer
    wire::Req req;
    if (header.attribute_id == wire::CmAttribute::req) {
        wire::decode(wire::cm_message(mad), req);
        request.service_id = req.service_id;
        request.peer_guid = req.local_ca_guid;
        request.peer_comm_id = req.local_comm_id;
        known = connections.knows(req);
    } else if (header.attribute_id == wire::CmAttribute::sidr_req) {
        wire::SidrReq asked;
        wire::decode(wire::cm_message(mad), asked);
        request.service_id = asked.service_id;
    } else {
        return false;
    }
    request.came = now;
    if (held.expects_listener(request.service_id, now)) {
        request.due = now + HeldRequests::kReopening;
    } else if (known) {
        return false;
    } else if (!has_listener(request.service_id)) {
        if (!is_bound(request.service_id)) return false;
        request.due = now + HeldRequests::kReopening;
    } else {
        Id* const listener = who_is_meant(req.service_id, req.private_data, sender_view).listener;
        if (!listener || serve_held(*listener)) return false;
        request.listener = listener->number;
        request.due = now + HeldRequests::kBacklog;
    }
    request.sender_view = sender_view;
    request.source_qp = source_qp;
    std::copy(mad.begin(), mad.end(), request.mad.begin());
    return held.keep(request);
}

// Who gives up a REQ that has no answer yet names itself by its own number and, as ARI, its CA's GUID.
void Manager::State::withdraw_held(const wire::MadHeader& header, std::span<const std::uint8_t, 256> mad) {
    if (header.attribute_id != wire::CmAttribute::rej) return;
    wire::Rej rej;
    wire::decode(wire::cm_message(mad), rej);
    if (rej.reason == wire::RejReason::timeout && rej.local_comm_id != 0)  // as a SIDR_REQ's here
        held.withdraw(wire::load_be64(rej.ari.data()), rej.local_comm_id);
}

void Manager::State::receive_late(const HeldRequests::Request& request, Time now) {
    wire::MadHeader header;
    wire::decode(wire::mad_header(request.mad), header);
    receive(header, request.sender_view, request.source_qp, request.mad, now);
}

void Manager::neighbor_resolved(std::uint64_t token, int error, Time) {
    if (awaits_neighbor(token)) state_->address_resolved(*state_->find(static_cast<IdNumber>(token)), error);
}

bool Manager::awaits_neighbor(std::uint64_t token) const {
    const Id* id = state_->find(static_cast<IdNumber>(token));
    return id && id->query_token == token && id->state == IdState::address_query;
}

void Manager::communication_established(std::uint32_t local_qp_number, Time) {
    if (const Connection* connection = state_->connections.awaiting_rtu(local_qp_number))
        state_->connections.establish(connection->local_comm_id);
}

void Manager::device_removed(std::uint32_t device, Time now) {
    std::vector<IdNumber> hit;
    for (const auto& [number, id] : state_->ids)
        if (id.route.device == device) hit.push_back(number);
    for (IdNumber number : hit)
        if (Id* id = state_->find(number)) state_->remove_device(*id, now);
}

void Manager::hardware_address_changed(std::uint32_t device) {
    for (auto& [number, id] : state_->ids)
        if (id.route.device == device) state_->deliver(id, EventType::addr_change, 0);
}

Time Manager::next_deadline() const {
    return std::min({state_->connections.next_deadline(), state_->sidr.next_deadline(),
                     state_->queries.next(), state_->held.next_deadline()});
}

void Manager::advance(Time now) {
    HeldRequests::Request request;
    while (state_->held.take_due(now, request)) state_->receive_late(request, now);
    state_->connections.advance(now);
    state_->sidr.advance(now);
    Timers::Key key;
    while (state_->queries.pop(now, key))
        if (Id* id = state_->find(static_cast<IdNumber>(key))) state_->address_resolved(*id, ETIMEDOUT);
}

Manager::Counts Manager::counts() const {
    return {state_->ids.size(), state_->connections.size() + state_->sidr.size(), state_->listeners.size(),
            state_->connections.orphans()};
}

bool Manager::next_id(IdNumber after, IdSummary& out) const {
    const auto found = state_->ids.upper_bound(after);
    if (found == state_->ids.end()) return false;
    const Id& id = found->second;
    const Connection* connection = id.connection ? state_->connections.find(id.connection) : nullptr;
    out = {id.number, id.state,  id.qp_type,      id.port_space,
           id.local,  id.remote, id.route.device, connection ? connection->local_qpn : 0};
    return true;
}

}  // namespace verbena::cm
