#include "cm/connections.h"

#include <cerrno>

#include "base/coverage.h"
#include "wire/byte_order.h"

namespace verbena::cm {

Connections::Connections(Environment& environment, ConnectionUser& user)
    : environment_(environment), user_(user), last_comm_id_(environment.random()) {}

std::uint32_t Connections::new_comm_id() {
    // They count from a random start, so that a number of an earlier life of this daemon, still known to a
    // peer, is not met again soon.
    do last_comm_id_++;
    while (last_comm_id_ == 0 || connections_.contains(last_comm_id_));
    return last_comm_id_;
}

Connection& Connections::add(std::uint32_t local_comm_id) {
    Connection& connection = connections_[local_comm_id];
    connection.local_comm_id = local_comm_id;
    return connection;
}

const Connection* Connections::find(std::uint32_t id) const {
    auto found = connections_.find(id);
    return found == connections_.end() ? nullptr : &found->second;
}

Connection* Connections::find_mutable(std::uint32_t id) {
    auto found = connections_.find(id);
    return found == connections_.end() ? nullptr : &found->second;
}

Connection* Connections::find_pair(std::uint32_t local_comm_id, std::uint32_t remote_comm_id) {
    Connection* connection = find_mutable(local_comm_id);
    return connection && connection->remote_comm_id == remote_comm_id ? connection : nullptr;
}

Connection* Connections::find_by_peer(const ByPeer& index, PeerKey key) {
    auto found = index.find(key);
    return found == index.end() ? nullptr : find_mutable(found->second);
}

const Connection* Connections::awaiting_rtu(std::uint32_t local_qpn) const {
    auto found = by_local_qp_.find(local_qpn);
    return found == by_local_qp_.end() ? nullptr : find(found->second);
}

void Connections::send(const Connection& connection, const Mad& mad) {
    environment_.send_mad(connection.path, connection.destination_qp, mad);
}

void Connections::send_to(const Sender& sender, const Mad& mad) {
    environment_.send_mad(path_back(sender.view), sender.qp, mad);
}

void Connections::repeat(Connection& connection, Time now) {
    connection.retries_left = connection.max_retries;
    connection.wait = connection.response_time;
    send(connection, connection.message);
    timers_.set(connection.local_comm_id, now + connection.wait);
}

// A REQ with the peer's comm id is a new one from now on.
void Connections::forget_peer(Connection& connection) {
    auto found = by_remote_id_.find({connection.remote_guid, connection.remote_comm_id});
    if (found != by_remote_id_.end() && found->second == connection.local_comm_id) by_remote_id_.erase(found);
}

// The peer's QP may be connected anew.
void Connections::forget_qp(Connection& connection) {
    auto found = by_remote_qp_.find({connection.remote_guid, connection.remote_qpn});
    if (found != by_remote_qp_.end() && found->second == connection.local_comm_id) by_remote_qp_.erase(found);
    forget_waiting(connection);
}

// No RTU is waited for any more.
void Connections::forget_waiting(Connection& connection) {
    auto waiting = by_local_qp_.find(connection.local_qpn);
    if (waiting != by_local_qp_.end() && waiting->second == connection.local_comm_id)
        by_local_qp_.erase(waiting);
}

void Connections::erase(Connection& connection) {
    stop_repeating(connection);
    forget_peer(connection);
    forget_qp(connection);
    if (connection.state == ConnectionState::closed)
        answers_--;
    else if (connection.owner == 0)
        orphans_--;
    connections_.erase(connection.local_comm_id);
}

void Connections::tell(const Connection& connection, EventType type, std::int32_t status, Time quiet_until) {
    if (connection.owner == 0) return;
    ConnectionEvent event;
    event.type = type;
    event.status = status;
    event.quiet_until = quiet_until;
    user_.connection_changed(connection, event);
}

namespace {

template <class Message>
Message read(wire::CmConstBytes bytes) {
    Message message;
    wire::decode(bytes, message);
    return message;
}

}  // namespace

// The state of the connection that a message is for; -1: none.
int Connections::state_for_coverage(wire::CmAttribute attribute, wire::CmConstBytes message) {
    const Connection* connection = nullptr;
    if (attribute == wire::CmAttribute::req) {
        const auto req = read<wire::Req>(message);
        connection = find_by_peer(by_remote_id_, {req.local_ca_guid, req.local_comm_id});
    } else {
        connection = find(wire::load_be32(message.data() + 4));  // the remote comm id of all others
    }
    if (attribute == wire::CmAttribute::rej && !connection) {
        const auto rej = read<wire::Rej>(message);
        connection = find_by_peer(by_remote_id_, {wire::load_be64(rej.ari.data()), rej.local_comm_id});
    }
    return connection ? static_cast<int>(connection->state) : -1;
}

bool Connections::receive(const wire::MadHeader& header, wire::CmConstBytes message,
                          const wire::Path& sender_view, std::uint32_t source_qp, Time now) {
    Sender sender{header.transaction_id, sender_view, source_qp};
    if (kCoverage && coverage_observer)
        coverage_observer->cm_message(static_cast<std::uint16_t>(header.attribute_id),
                                      state_for_coverage(header.attribute_id, message));
    switch (header.attribute_id) {
        case wire::CmAttribute::req:
            on_req(read<wire::Req>(message), sender, header.attribute_modifier, now);
            return true;
        case wire::CmAttribute::rep:
            on_rep(read<wire::Rep>(message), sender, header.attribute_modifier, now);
            return true;
        case wire::CmAttribute::rtu:
            on_rtu(read<wire::Rtu>(message));
            return true;
        case wire::CmAttribute::mra:
            on_mra(read<wire::Mra>(message), now);
            return true;
        case wire::CmAttribute::rej:
            on_rej(read<wire::Rej>(message), now);
            return true;
        case wire::CmAttribute::dreq:
            on_dreq(read<wire::Dreq>(message), sender, now);
            return true;
        case wire::CmAttribute::drep:
            on_drep(read<wire::Drep>(message), now);
            return true;
        case wire::CmAttribute::lap:
            on_lap(read<wire::Lap>(message), sender);
            return true;
        default:
            return false;
    }
}

void Connections::advance(Time now) {
    Timers::Key key;
    while (timers_.pop(now, key))
        if (Connection* connection = find_mutable(static_cast<std::uint32_t>(key)))
            timed_out(*connection, now);
}

// One timer per connection; what it means follows from the state.
void Connections::timed_out(Connection& connection, Time now) {
    switch (connection.state) {
        case ConnectionState::timewait:
            if (connection.owner == 0) {
                erase(connection);
                return;
            }
            end(connection);
            tell(connection, EventType::timewait_exit, 0);
            return;
        case ConnectionState::closed:
            erase(connection);
            return;
        case ConnectionState::req_sent:
        case ConnectionState::mra_req_received:
        case ConnectionState::rep_sent:
        case ConnectionState::mra_rep_received:
        case ConnectionState::dreq_sent:
            break;
        default:
            return;
    }
    if (connection.retries_left > 0) {
        connection.retries_left--;
        send(connection, connection.message);
        timers_.set(connection.local_comm_id, now + connection.wait);
        return;
    }
    if (connection.state == ConnectionState::dreq_sent) {
        enter_timewait(connection, now);
        tell_end(connection, -ETIMEDOUT, now);
        return;
    }
    // A peer that answers after all learns that it is too late.
    connection.answer = make_rej(connection, wire::RejReason::timeout, {});
    connection.has_answer = true;
    end(connection);
    tell(connection, EventType::unreachable, -ETIMEDOUT);
}

}  // namespace verbena::cm
