// REQ, REP and RTU (IBA 12.9.5 to 12.9.7); refusal.cpp has what may come instead of them.
//
//   active:   idle -REQ-> req_sent (-MRA received-> mra_req_received) -REP received-> rep_received -RTU->
//   established passive:  idle -REQ received-> req_received -REP-> rep_sent (-MRA received->
//   mra_rep_received)
//             -RTU or data received-> established
//
// Either side may send REJ until it is established.

#include <cerrno>

#include "base/mutation.h"
#include "base/reason.h"
#include "cm/connections.h"
#include "cm/text.h"

namespace verbena::cm {
namespace {

// The peer may give its comm id to another connection now.
bool is_over(const Connection& connection) {
    return connection.state == ConnectionState::idle || connection.state == ConnectionState::closed ||
           connection.state == ConnectionState::timewait;
}

constexpr std::uint8_t kTransportExtendedXrc = 1;  // REQ's extended transport type

// ECE: the vendor id travels in bytes that were reserved, 24 bits of REQ and three single bytes of REP; the
// attribute modifier in the MAD header's.
std::uint32_t ece_vendor_of(const wire::Rep& rep) {
    return std::uint32_t{rep.reserved23} << 16 | std::uint32_t{rep.reserved19} << 8 | rep.reserved15;
}

wire::TransportServiceType service_of(QpType type) {
    switch (type) {
        case QpType::uc:
            return wire::TransportServiceType::uc;
        case QpType::xrc_send:
            return wire::TransportServiceType::extended;
        default:
            return wire::TransportServiceType::rc;
    }
}

bool qp_type_of(const wire::Req& req, QpType& type) {
    switch (req.transport_service_type) {
        case wire::TransportServiceType::rc:
            type = QpType::rc;
            return true;
        case wire::TransportServiceType::uc:
            type = QpType::uc;
            return true;
        case wire::TransportServiceType::extended:
            type = QpType::xrc_recv;
            return req.extended_transport_type == kTransportExtendedXrc;
        default:
            return false;
    }
}

Duration response_time_of(std::uint8_t exponent) { return std::max(iba_timeout(exponent), kMinResponseTime); }

wire::Req make_req(const ConnectionRequest& request, const Connection& connection) {
    const ConnectParameters& parameters = request.parameters;
    wire::Req req;
    req.local_comm_id = connection.local_comm_id;
    req.service_id = request.service_id;
    req.local_ca_guid = request.local_guid;
    req.reserved24 = parameters.ece_vendor_id << 8;
    req.local_qpn = parameters.qp_number;
    req.responder_resources = parameters.responder_resources;
    req.initiator_depth = parameters.initiator_depth;
    req.remote_cm_response_timeout = kResponseTimeout;
    req.transport_service_type = service_of(parameters.qp_type);
    req.end_to_end_flow_control = parameters.flow_control != 0;
    req.starting_psn = request.receive_psn;
    req.local_cm_response_timeout = kResponseTimeout;
    req.retry_count = parameters.retry_count;
    req.pkey = kDefaultPkey;
    req.path_mtu = request.route.path_mtu;
    req.rnr_retry_count = parameters.rnr_retry_count;
    req.max_cm_retries = kMaxCmRetries;
    req.srq = parameters.srq != 0;
    if (parameters.qp_type == QpType::xrc_send) req.extended_transport_type = kTransportExtendedXrc;
    // Annex A17: LIDs mean nothing to RoCE; Linux puts the permissive one.
    req.primary.local_lid = kPermissiveLid;
    req.primary.remote_lid = kPermissiveLid;
    req.primary.local_gid = request.route.source_gid;
    req.primary.remote_gid = request.route.destination_gid;
    req.primary.flow_label = request.route.flow_label;
    req.primary.traffic_class = request.route.traffic_class;
    req.primary.hop_limit = request.route.hop_limit;
    req.primary.local_ack_timeout = connection.ack_timeout;
    req.private_data = request.private_data;
    return req;
}

}  // namespace

std::uint32_t Connections::request(const ConnectionRequest& request, Time now) {
    Connection& connection = add(new_comm_id());
    const ConnectParameters& parameters = request.parameters;
    connection.active = true;
    connection.owner = request.owner;
    connection.qp_type = parameters.qp_type;
    connection.transaction_id = transaction_of(connection.local_comm_id);
    connection.local_guid = request.local_guid;
    connection.route = request.route;
    connection.path = path_along(request.route);
    connection.local_qpn = parameters.qp_number;
    connection.receive_psn = request.receive_psn;
    connection.responder_resources = parameters.responder_resources;
    connection.initiator_depth = parameters.initiator_depth;
    connection.retry_count = parameters.retry_count;
    connection.rnr_retry = parameters.rnr_retry_count;
    connection.ack_timeout = ack_timeout(kAckDelay, request.route.packet_life_time);
    connection.message =
        make_mad(connection.transaction_id, make_req(request, connection), parameters.ece_attribute_mod);
    // There and back, and the peer's time to answer.
    connection.response_time =
        2 * iba_timeout(request.route.packet_life_time) + iba_timeout(kResponseTimeout);
    connection.state = ConnectionState::req_sent;
    repeat(connection, now);
    return connection.local_comm_id;
}

void Connections::on_req(const wire::Req& req, const Sender& sender, std::uint32_t attribute_modifier,
                         Time now) {
    PeerKey remote_id{req.local_ca_guid, req.local_comm_id};
    PeerKey remote_qp{req.local_ca_guid, req.local_qpn};
    if (Connection* known = find_by_peer(by_remote_id_, remote_id);
        known && !mutated(Mutation::duplicate_req_unnoticed)) {
        if (!is_over(*known) || known->transaction_id == sender.transaction_id) {
            on_duplicate_req(*known, req, sender);
            return;
        }
        forget_peer(*known);
    }
    // IBA 12.4.1: the peer's QP is, as far as we know, in a connection with us: that one is stale.
    if (Connection* old = find_by_peer(by_remote_qp_, remote_qp)) {
        log(LogLevel::info, "REQ from QP 0x%06x of %s, whose earlier connection is %s here: REJ 10 (stale)",
            req.local_qpn, verbena::to_string(sender.view.source).c_str(), to_string(old->state));
        refuse(sender, 0, req.local_comm_id, wire::CmAnswered::req, wire::RejReason::stale_connection);
        replace_stale(*old, now);
        return;
    }
    QpType qp_type;
    if (!qp_type_of(req, qp_type)) {
        refuse(sender, 0, req.local_comm_id, wire::CmAnswered::req,
               wire::RejReason::invalid_transport_service_type);
        return;
    }

    Connection& connection = add(new_comm_id());
    connection.remote_comm_id = req.local_comm_id;
    connection.state = ConnectionState::req_received;
    connection.qp_type = qp_type;
    connection.transaction_id = sender.transaction_id;
    connection.remote_guid = req.local_ca_guid;
    connection.path = path_back(sender.view);
    connection.destination_qp = sender.qp;
    connection.remote_qpn = req.local_qpn;
    connection.send_psn = req.starting_psn;
    // What the peer answers, we may ask, and the other way round.
    connection.initiator_depth = req.responder_resources;
    connection.responder_resources = req.initiator_depth;
    connection.retry_count = req.retry_count;
    connection.rnr_retry = req.rnr_retry_count;
    connection.ack_timeout = req.primary.local_ack_timeout;
    connection.response_time = response_time_of(req.local_cm_response_timeout);
    connection.max_retries = req.max_cm_retries;

    wire::RejReason reason = wire::RejReason::invalid_service_id;
    switch (user_.connection_requested(connection, req, attribute_modifier, sender.view, reason)) {
        case ConnectionUser::Verdict::accepted:
            by_remote_id_[remote_id] = connection.local_comm_id;
            by_remote_qp_[remote_qp] = connection.local_comm_id;
            return;
        case ConnectionUser::Verdict::rejected:
            refuse(sender, 0, req.local_comm_id, wire::CmAnswered::req, reason);
            break;
        case ConnectionUser::Verdict::dropped:
            break;
    }
    connections_.erase(connection.local_comm_id);
}

void Connections::on_duplicate_req(Connection& connection, const wire::Req& req, const Sender& sender) {
    switch (connection.state) {
        case ConnectionState::req_received:
            send_mra(connection, wire::CmAnswered::req);
            return;
        case ConnectionState::rep_sent:
            send(connection, connection.message);
            return;
        case ConnectionState::idle:
        case ConnectionState::closed:
            if (connection.has_answer) send(connection, connection.answer);
            return;
        case ConnectionState::timewait:
            if (connection.has_answer)
                send(connection, connection.answer);
            else
                refuse(sender, 0, req.local_comm_id, wire::CmAnswered::req,
                       wire::RejReason::stale_connection);
            return;
        default:
            return;  // it was under way for long: the peer has our REP
    }
}

int Connections::reply(std::uint32_t id, const ConnectParameters& parameters, std::uint32_t receive_psn,
                       Time now) {
    Connection* connection = find_mutable(id);
    if (!connection || connection->state != ConnectionState::req_received)
        return fail(EINVAL, "the request cannot be accepted: its connection is %s",
                    connection ? to_string(connection->state) : "gone");
    connection->local_qpn = parameters.qp_number;
    connection->receive_psn = receive_psn;
    connection->responder_resources = parameters.responder_resources;
    connection->initiator_depth = parameters.initiator_depth;

    wire::Rep rep;
    rep.local_comm_id = connection->local_comm_id;
    rep.remote_comm_id = connection->remote_comm_id;
    rep.starting_psn = receive_psn;
    rep.responder_resources = parameters.responder_resources;
    rep.target_ack_delay = kAckDelay;
    rep.rnr_retry_count = parameters.rnr_retry_count;
    rep.local_ca_guid = connection->local_guid;
    rep.reserved15 = static_cast<std::uint8_t>(parameters.ece_vendor_id);
    rep.reserved19 = static_cast<std::uint8_t>(parameters.ece_vendor_id >> 8);
    rep.reserved23 = static_cast<std::uint8_t>(parameters.ece_vendor_id >> 16);
    if (connection->qp_type == QpType::xrc_recv) {
        // Annex A14: an XRC target QP is named in the EE context's place and always has a shared receive
        // queue.
        rep.local_eecn = parameters.qp_number;
        rep.srq = true;
    } else {
        rep.local_qpn = parameters.qp_number;
        rep.initiator_depth = parameters.initiator_depth;
        rep.end_to_end_flow_control = parameters.flow_control != 0;
        rep.srq = parameters.srq != 0;
    }
    copy_private_data(private_data(parameters), rep.private_data);
    connection->message = make_mad(connection->transaction_id, rep, parameters.ece_attribute_mod);
    connection->state = ConnectionState::rep_sent;
    by_local_qp_[connection->local_qpn] = connection->local_comm_id;
    repeat(*connection, now);
    return 0;
}

void Connections::on_rep(const wire::Rep& rep, const Sender& sender, std::uint32_t attribute_modifier,
                         Time now) {
    Connection* connection = find_mutable(rep.remote_comm_id);
    bool waiting = connection && (connection->state == ConnectionState::req_sent ||
                                  connection->state == ConnectionState::mra_req_received);
    if (!waiting) {
        on_unexpected_rep(connection, rep, sender);
        return;
    }
    std::uint32_t remote_qpn = connection->qp_type == QpType::xrc_send ? rep.local_eecn : rep.local_qpn;
    if (Connection* other = find_by_peer(by_remote_id_, {rep.local_ca_guid, rep.local_comm_id})) {
        if (!is_over(*other)) return;  // the peer's number names another connection: not a REP for this one
        forget_peer(*other);
    }
    if (Connection* old = find_by_peer(by_remote_qp_, {rep.local_ca_guid, remote_qpn})) {
        refuse(sender, rep.remote_comm_id, rep.local_comm_id, wire::CmAnswered::rep,
               wire::RejReason::stale_connection);
        replace_stale(*old, now);
        return;
    }

    stop_repeating(*connection);
    connection->state = ConnectionState::rep_received;
    connection->remote_comm_id = rep.local_comm_id;
    connection->remote_guid = rep.local_ca_guid;
    connection->remote_qpn = remote_qpn;
    connection->send_psn = rep.starting_psn;
    connection->initiator_depth = rep.responder_resources;
    connection->responder_resources = rep.initiator_depth;
    connection->rnr_retry = rep.rnr_retry_count;
    connection->ack_timeout = ack_timeout(rep.target_ack_delay, connection->route.packet_life_time);
    by_remote_id_[{rep.local_ca_guid, rep.local_comm_id}] = connection->local_comm_id;
    by_remote_qp_[{rep.local_ca_guid, remote_qpn}] = connection->local_comm_id;

    ConnectionEvent event;
    event.type = EventType::connect_response;
    event.parameters.responder_resources = rep.initiator_depth;
    event.parameters.initiator_depth = rep.responder_resources;
    event.parameters.flow_control = rep.end_to_end_flow_control;
    event.parameters.rnr_retry_count = rep.rnr_retry_count;
    event.parameters.srq = rep.srq;
    event.parameters.qp_type = connection->qp_type;
    event.parameters.qp_number = remote_qpn;
    event.parameters.starting_psn = rep.starting_psn;
    event.parameters.ece_vendor_id = ece_vendor_of(rep);
    event.parameters.ece_attribute_mod = attribute_modifier;
    set_private_data(event.parameters, rep.private_data);
    user_.connection_changed(*connection, event);
}

void Connections::on_unexpected_rep(Connection* connection, const wire::Rep& rep, const Sender& sender) {
    if (connection && connection->active) {
        bool same = connection->remote_comm_id == rep.local_comm_id;
        switch (connection->state) {
            case ConnectionState::rep_received:
                if (same) send_mra(*connection, wire::CmAnswered::rep);
                return;
            case ConnectionState::established:
                if (same && !mutated(Mutation::rtu_not_repeated)) send_rtu(*connection);  // ours was lost
                return;
            case ConnectionState::idle:
            case ConnectionState::closed:
            case ConnectionState::timewait:
                if (connection->has_answer) send_to(sender, connection->answer);
                return;
            default:
                return;
        }
    }
    refuse(sender, rep.remote_comm_id, rep.local_comm_id, wire::CmAnswered::rep,
           wire::RejReason::invalid_comm_id);
}

int Connections::ready_to_use(std::uint32_t id) {
    Connection* connection = find_mutable(id);
    if (!connection || connection->state != ConnectionState::rep_received)
        return fail(EINVAL, "there is no reply to confirm: the connection is %s",
                    connection ? to_string(connection->state) : "gone");
    connection->state = ConnectionState::established;
    send_rtu(*connection);
    return 0;
}

void Connections::send_rtu(const Connection& connection) {
    wire::Rtu rtu;
    rtu.local_comm_id = connection.local_comm_id;
    rtu.remote_comm_id = connection.remote_comm_id;
    send(connection, make_mad(connection.transaction_id, rtu));
}

void Connections::on_rtu(const wire::Rtu& rtu) {
    Connection* connection = find_pair(rtu.remote_comm_id, rtu.local_comm_id);
    if (!connection || connection->active) return;
    if (establish(connection->local_comm_id) == 0) return;
    // The peer believes in a connection that we refused after our REP: its REJ was lost.
    if (connection->state != ConnectionState::established && connection->has_answer)
        send(*connection, connection->answer);
}

int Connections::establish(std::uint32_t id) {
    Connection* connection = find_mutable(id);
    if (connection && connection->state == ConnectionState::established) return EISCONN;
    if (!connection || (connection->state != ConnectionState::rep_sent &&
                        connection->state != ConnectionState::mra_rep_received))
        return EINVAL;
    stop_repeating(*connection);
    forget_waiting(*connection);
    connection->state = ConnectionState::established;
    tell(*connection, EventType::established, 0);
    return 0;
}

}  // namespace verbena::cm
