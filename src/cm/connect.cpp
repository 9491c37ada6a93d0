// Connecting, accepting, rejecting, disconnecting; and how the peers' answers become events.

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <string>

#include "base/reason.h"
#include "cm/near_miss.h"
#include "cm/state.h"
#include "cm/text.h"

namespace verbena::cm {
namespace {

constexpr int kCommunicationEstablished = 4;  // IBV_EVENT_COMM_EST
constexpr std::uint8_t kMaxRetryCount = 7;    // 3 bits
constexpr std::uint8_t kDeviceLimit = 0xff;   // RDMA_MAX_RESP_RES, RDMA_MAX_INIT_DEPTH
constexpr std::uint32_t kQpnMask = 0xffffff;

bool conversing(const Id& id) { return id.state == IdState::connect || id.state == IdState::established; }

int check_private_data(const ConnectParameters& parameters, std::size_t limit, const char* message) {
    if (parameters.private_data_length <= limit) return 0;
    return fail(EINVAL, "%u bytes of private data; a %s carries %zu", parameters.private_data_length, message,
                limit);
}

// The request's private data: the CMA header with both addresses, then the program's bytes.
template <std::size_t N>
std::array<std::uint8_t, N> request_data(const Id& id, const ConnectParameters& parameters) {
    std::array<std::uint8_t, N> data{};
    wire::CmaHeader header;
    header.port = id.local.port;
    header.set_addresses(id.local.address, id.remote.address);
    wire::encode(header, std::span(data).template first<wire::kCmaHeaderLength>());
    copy_private_data(private_data(parameters), data, wire::kCmaHeaderLength);
    return data;
}

std::uint64_t service_of(const Id& id) {
    return wire::service_id(static_cast<std::uint16_t>(id.port_space), id.remote.port);
}

}  // namespace

// Replaces 0xff by the most that is possible: the device's limit, and no more than the peer offers.
int Manager::State::check_depths(const Id& id, ConnectParameters& parameters,
                                 const ConnectParameters* offered) {
    std::uint8_t limit = environment.max_rd_atomic(id.route.device);
    auto check = [&](std::uint8_t& value, std::uint8_t offer, const char* name) {
        if (value == kDeviceLimit)
            value = std::min(offer, limit);
        else if (value > limit && id.port_space == PortSpace::tcp)  // the others are left to ibv_modify_qp
            return fail(EINVAL, "%s is %u; the device's limit is %u", name, value, limit);
        return 0;
    };
    if (int error = check(parameters.responder_resources,
                          offered ? offered->responder_resources : kDeviceLimit, "responder_resources"))
        return error;
    return check(parameters.initiator_depth, offered ? offered->initiator_depth : kDeviceLimit,
                 "initiator_depth");
}

int Manager::State::connect(Id& id, ConnectParameters parameters, Time now) {
    if (id.state != IdState::route_resolved)
        return wrong_state(id, "route resolved (RDMA_CM_EVENT_ROUTE_RESOLVED) to connect");
    if (id.qp_type == QpType::ud) return connect_datagram(id, parameters, now);
    if (int error = check_private_data(parameters, kReqUserData, "REQ of an IP port space")) return error;
    if (id.qp_type == QpType::xrc_recv)
        return fail(EINVAL, "an XRC target does not connect; its initiator does");
    if (int error = check_depths(id, parameters, nullptr)) return error;

    parameters.qp_type = id.qp_type;
    parameters.qp_number &= kQpnMask;
    parameters.retry_count = std::min(parameters.retry_count, kMaxRetryCount);
    parameters.rnr_retry_count = std::min(parameters.rnr_retry_count, kMaxRetryCount);
    if (parameters.starting_psn) id.receive_psn = parameters.starting_psn & kPsnMask;

    ConnectionRequest request;
    request.owner = id.number;
    request.route = id.route;
    request.service_id = service_of(id);
    request.local_guid = environment.node_guid(id.route.device);
    request.parameters = parameters;
    request.receive_psn = id.receive_psn;
    request.private_data = request_data<92>(id, parameters);
    id.state = IdState::connect;
    id.connection = connections.request(request, now);
    return 0;
}

int Manager::State::connect_datagram(Id& id, const ConnectParameters& parameters, Time now) {
    if (int error = check_private_data(parameters, kSidrReqUserData, "SIDR_REQ of an IP port space"))
        return error;
    id.state = IdState::connect;
    id.sidr_asked = true;
    id.sidr_request =
        sidr.request(id.number, path_along(id.route), service_of(id), request_data<216>(id, parameters), now);
    return 0;
}

// What rdma_accept was given cannot be sent. As in Linux, the peer does not wait for another attempt.
int Manager::State::refuse_reply(Id& id, int error, Time now) {
    const std::string why = last_reason();
    reject(id, {}, static_cast<std::uint8_t>(wire::RejReason::consumer_reject), now);
    return fail(error, "%s; the peer is rejected (28)", why.c_str());
}

int Manager::State::accept(Id& id, const ConnectParameters* parameters, Time now) {
    if (!conversing(id)) return wrong_state(id, "in a connection request to accept it");
    if (id.qp_type == QpType::ud) return accept_datagram(id, parameters, now);
    int error = 0;
    if (!parameters) {
        error = connections.ready_to_use(id.connection);
        if (!error) id.state = IdState::established;
    } else {
        ConnectParameters reply = *parameters;
        error = check_private_data(reply, kRepUserData, "REP");
        if (!error) error = check_depths(id, reply, &id.remote_parameters);
        if (error) {
            error = refuse_reply(id, error, now);
        } else {
            reply.qp_number &= kQpnMask;
            reply.rnr_retry_count = std::min(reply.rnr_retry_count, kMaxRetryCount);
            if (reply.starting_psn) id.receive_psn = reply.starting_psn & kPsnMask;
            error = connections.reply(id.connection, reply, id.receive_psn, now);
        }
    }
    return error;
}

int Manager::State::accept_datagram(Id& id, const ConnectParameters* parameters, Time now) {
    if (id.sidr_asked || !id.sidr_request) return fail(EINVAL, "id %u has no request to accept", id.number);
    std::uint32_t qpn = 0;
    std::span<const std::uint8_t> data;
    if (parameters) {
        if (int error = check_private_data(*parameters, kSidrRepUserData, "SIDR_REP"))
            return refuse_reply(id, error, now);
        if (parameters->qkey) id.qkey = parameters->qkey;
        qpn = parameters->qp_number & kQpnMask;
        data = private_data(*parameters);
    }
    if (!id.qkey) id.qkey = kDefaultQkey;
    if (!sidr.answer(id.sidr_request, wire::SidrStatus::success, qpn, id.qkey, data, now))
        return fail(EINVAL, "the request of id %u was answered before", id.number);
    id.sidr_request = 0;
    return 0;
}

int Manager::State::reject(Id& id, std::span<const std::uint8_t> data, std::uint8_t reason, Time now) {
    bool datagram = id.qp_type == QpType::ud;
    std::size_t limit = datagram ? kSidrRepUserData : kRejUserData;
    if (data.size() > limit)
        return fail(EINVAL, "%zu bytes of private data; a %s carries %zu", data.size(),
                    datagram ? "SIDR_REP" : "REJ", limit);
    auto code = static_cast<wire::RejReason>(reason ? reason : 28);
    if (code != wire::RejReason::consumer_reject && code != wire::RejReason::vendor_option_not_supported)
        return fail(EINVAL, "reject reason %u is not a program's to give (28 and 35 are)", reason);
    if (datagram) {
        if (id.sidr_asked || !id.sidr_request)
            return fail(EINVAL, "id %u has no request to reject", id.number);
        if (!sidr.answer(id.sidr_request, wire::SidrStatus::rejected, 0, 0, data, now))
            return fail(EINVAL, "the request of id %u was answered before", id.number);
        id.sidr_request = 0;
        return 0;
    }
    if (!id.connection) return fail(EINVAL, "id %u has no connection to reject", id.number);
    return connections.reject(id.connection, code, data, now);
}

int Manager::State::disconnect(Id& id, Time now) {
    if (!id.connection && !conversing(id))
        return fail(EINVAL, "id %u is %s and has no connection to end", id.number, to_string(id.state));
    // As in Linux: 0 also where there is nothing left to say to the peer, and for datagrams.
    const Connection* connection = connections.find(id.connection);
    if (connection && (connection->state == ConnectionState::established ||
                       connection->state == ConnectionState::dreq_received))
        connections.disconnect(id.connection, now);
    return 0;
}

int Manager::State::notify(Id& id, int event) {
    if (!id.connection) return fail(EINVAL, "id %u has no connection", id.number);
    if (event != kCommunicationEstablished)
        return fail(EINVAL, "asynchronous event %d means nothing to a connection", event);
    int error = connections.establish(id.connection);
    if (error == EISCONN) return fail(error, "the connection of id %u is established already", id.number);
    if (error) return fail(error, "the connection of id %u does not wait for the peer", id.number);
    return 0;
}

// A peer of this host that nobody listens for: what does listen here is known.
void Manager::State::note_near_misses(const Id& id, Event& event) const {
    const auto reason = static_cast<wire::RejReason>(event.status);
    if (event.type != EventType::rejected || reason != wire::RejReason::invalid_service_id ||
        id.route.source_gid != id.route.destination_gid)
        return;
    const std::string text = near_misses(ids, id.port_space, id.remote);
    text.copy(event.note.data(), event.note.size() - 1);
}

// The program hears of a connection while it has one: an id that is disconnected waits for the end of
// timewait only.
void Manager::State::connection_changed(const Connection& connection, const ConnectionEvent& change) {
    Id* id = find(connection.owner);
    if (!id) return;
    bool over = change.type == EventType::timewait_exit;
    if (over ? id->state != IdState::disconnect : !conversing(*id)) return;
    switch (change.type) {
        case EventType::established:
            id->state = IdState::established;
            break;
        case EventType::disconnected:
            id->state = IdState::disconnect;
            break;
        case EventType::connect_response:
            id->remote_parameters = change.parameters;
            break;
        default:
            break;
    }
    Event event;
    event.type = change.type;
    event.status = change.status;
    event.id = id->number;
    event.user_handle = id->user_handle;
    event.connection = change.parameters;
    event.argument = static_cast<std::uint64_t>(change.quiet_until);
    note_near_misses(*id, event);
    if (change.type == EventType::connect_response) describe(*id, event);
    deliver(*id, event);
}

void Manager::State::service_resolved(IdNumber owner, const ConnectionEvent& change) {
    Id* id = find(owner);
    if (!id || id->state != IdState::connect) return;
    id->sidr_request = 0;
    Event event;
    event.type = change.type;
    event.status = change.status;
    event.id = id->number;
    event.user_handle = id->user_handle;
    event.connection = change.parameters;
    event.ud_route = id->route;
    if (change.type == EventType::established) {
        id->qkey = change.parameters.qkey;
        id->remote_parameters = change.parameters;
    }
    deliver(*id, event);
}

}  // namespace verbena::cm
