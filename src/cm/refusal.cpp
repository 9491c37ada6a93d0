// What comes instead of the expected answer: MRA (more time is needed), REJ (no), and LAP, which RoCE has no
// use for.

#include <cerrno>

#include "base/mutation.h"
#include "base/reason.h"
#include "cm/connections.h"
#include "cm/text.h"
#include "wire/byte_order.h"

namespace verbena::cm {
namespace {

constexpr std::size_t kGuidLength = 8;

}  // namespace

void Connections::send_mra(const Connection& connection, wire::CmAnswered answered) {
    wire::Mra mra;
    mra.local_comm_id = connection.local_comm_id;
    mra.remote_comm_id = connection.remote_comm_id;
    mra.message_mraed = answered;
    mra.service_timeout = kMraServiceTimeout;
    send(connection, make_mad(connection.transaction_id, mra));
}

// IBA 12.6.6: the peer needs the service timeout, and the answer the path's time.
void Connections::on_mra(const wire::Mra& mra, Time now) {
    Connection* connection = find_mutable(mra.remote_comm_id);
    if (!connection) return;
    switch (mra.message_mraed) {
        case wire::CmAnswered::req:
            if (mutated(Mutation::mra_ignored)) return;
            if (connection->state != ConnectionState::req_sent &&
                connection->state != ConnectionState::mra_req_received)
                return;
            connection->state = ConnectionState::mra_req_received;
            break;
        case wire::CmAnswered::rep:
            if (connection->remote_comm_id != mra.local_comm_id ||
                (connection->state != ConnectionState::rep_sent &&
                 connection->state != ConnectionState::mra_rep_received))
                return;
            connection->state = ConnectionState::mra_rep_received;
            break;
        default:
            return;
    }
    connection->wait =
        std::max(iba_timeout(mra.service_timeout) + iba_timeout(connection->ack_timeout), kMinResponseTime);
    timers_.set(connection->local_comm_id, now + connection->wait);
}

Mad Connections::make_rej(const Connection& connection, wire::RejReason reason,
                          std::span<const std::uint8_t> private_data) {
    wire::Rej rej;
    rej.local_comm_id = connection.local_comm_id;
    rej.remote_comm_id = connection.remote_comm_id;
    switch (connection.state) {
        case ConnectionState::req_received:
            rej.message_rejected = wire::CmAnswered::req;
            break;
        case ConnectionState::rep_received:
            rej.message_rejected = wire::CmAnswered::rep;
            break;
        default:
            rej.message_rejected = wire::kRejectedNoMessage;
            break;
    }
    rej.reason = reason;
    if (reason == wire::RejReason::timeout) {
        // IBA 12.6.7.2: the peer may not know our comm id's partner; the GUID tells it whose it is.
        rej.reject_info_length = kGuidLength;
        wire::store_be64(rej.ari.data(), connection.local_guid);
    }
    copy_private_data(private_data, rej.private_data);
    return make_mad(connection.transaction_id, rej);
}

// A REJ where there is no connection to speak for.
void Connections::refuse(const Sender& sender, std::uint32_t local_comm_id, std::uint32_t remote_comm_id,
                         wire::CmAnswered answered, wire::RejReason reason) {
    wire::Rej rej;
    rej.local_comm_id = local_comm_id;
    rej.remote_comm_id = remote_comm_id;
    rej.message_rejected = answered;
    rej.reason = reason;
    send_to(sender, make_mad(sender.transaction_id, rej));
}

// The peer uses the QP of `old` for something new. Its program learns by DREQ and DREP, as in Linux.
void Connections::replace_stale(Connection& old, Time now) {
    if (old.state == ConnectionState::established) send_dreq(old, now);
}

int Connections::reject(std::uint32_t id, wire::RejReason reason, std::span<const std::uint8_t> private_data,
                        Time now) {
    Connection* connection = find_mutable(id);
    if (!connection) return fail(EINVAL, "there is nothing to reject: the connection is gone");
    switch (connection->state) {
        case ConnectionState::req_sent:
        case ConnectionState::mra_req_received:
        case ConnectionState::req_received:
        case ConnectionState::rep_received:
        case ConnectionState::rep_sent:
        case ConnectionState::mra_rep_received:
            break;
        default:
            return fail(EINVAL, "there is nothing to reject: the connection is %s",
                        to_string(connection->state));
    }
    connection->answer = make_rej(*connection, reason, private_data);
    connection->has_answer = true;
    send(*connection, connection->answer);
    // After a REP the peer may have a QP that sends already (IBA 12.9.7).
    if (connection->state == ConnectionState::rep_sent ||
        connection->state == ConnectionState::mra_rep_received)
        enter_timewait(*connection, now);
    else
        end(*connection);
    return 0;
}

void Connections::on_rej(const wire::Rej& rej, Time now) {
    Connection* connection = nullptr;
    if (rej.reason == wire::RejReason::timeout)
        connection = find_by_peer(by_remote_id_, {wire::load_be64(rej.ari.data()), rej.local_comm_id});
    if (!connection && rej.message_rejected == wire::CmAnswered::req)
        connection = find_mutable(rej.remote_comm_id);
    if (!connection) connection = find_pair(rej.remote_comm_id, rej.local_comm_id);
    if (!connection) return;

    bool of_req = rej.message_rejected == wire::CmAnswered::req;
    bool stale = rej.reason == wire::RejReason::stale_connection;
    switch (connection->state) {
        case ConnectionState::req_sent:
        case ConnectionState::mra_req_received:
            stale ? enter_timewait(*connection, now) : end(*connection);
            break;
        case ConnectionState::req_received:
        case ConnectionState::rep_sent:
        case ConnectionState::mra_rep_received:
            if (of_req) return;
            stale ? enter_timewait(*connection, now) : end(*connection);
            break;
        case ConnectionState::rep_received:
        case ConnectionState::established:
        case ConnectionState::dreq_sent:
            if (of_req) return;  // an old answer to a duplicate of our REQ: the REP has been here since
            enter_timewait(*connection, now);
            break;
        default:
            return;
    }
    if (connection->owner == 0) return;
    ConnectionEvent event;
    event.type = EventType::rejected;
    event.status = static_cast<std::int32_t>(rej.reason);
    set_private_data(event.parameters, rej.private_data);
    user_.connection_changed(*connection, event);
}

// Alternate paths: RoCE has no automatic path migration (annex A17).
void Connections::on_lap(const wire::Lap& lap, const Sender& sender) {
    const Connection* connection = find_pair(lap.remote_comm_id, lap.local_comm_id);
    wire::Apr apr;
    apr.local_comm_id = lap.remote_comm_id;
    apr.remote_comm_id = lap.local_comm_id;
    apr.ap_status = connection ? wire::ApStatus::unsupported : wire::ApStatus::invalid_comm_id;
    send_to(sender, make_mad(sender.transaction_id, apr));
}

}  // namespace verbena::cm
