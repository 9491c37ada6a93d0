// The end of a connection: DREQ and DREP (IBA 12.9.8), timewait, and what is said to the peer when the id
// that owned a connection is destroyed in any state.

#include <cerrno>

#include "base/mutation.h"
#include "base/reason.h"
#include "cm/connections.h"
#include "cm/text.h"

namespace verbena::cm {

Duration Connections::timewait(const Connection& connection) {
    return iba_timeout(std::min(connection.ack_timeout, kMaxTimewaitExponent));
}

void Connections::send_dreq(Connection& connection, Time now) {
    wire::Dreq dreq;
    dreq.local_comm_id = connection.local_comm_id;
    dreq.remote_comm_id = connection.remote_comm_id;
    dreq.remote_qpn = connection.remote_qpn;
    connection.message = make_mad(transaction_of(connection.local_comm_id), dreq);
    connection.state = ConnectionState::dreq_sent;
    repeat(connection, now);
}

void Connections::send_drep(const Connection& connection) {
    wire::Drep drep;
    drep.local_comm_id = connection.local_comm_id;
    drep.remote_comm_id = connection.remote_comm_id;
    send(connection, make_mad(connection.dreq_transaction_id, drep));
}

int Connections::disconnect(std::uint32_t id, Time now) {
    Connection* connection = find_mutable(id);
    if (!connection) return fail(EINVAL, "there is no connection to end");
    switch (connection->state) {
        case ConnectionState::established:
            send_dreq(*connection, now);
            return 0;
        case ConnectionState::dreq_received:
            send_drep(*connection);
            enter_timewait(*connection, now);
            return 0;
        default:
            return fail(EINVAL, "there is nothing to end: the connection is %s",
                        to_string(connection->state));
    }
}

void Connections::on_dreq(const wire::Dreq& dreq, const Sender& sender, Time now) {
    Connection* connection = find_pair(dreq.remote_comm_id, dreq.local_comm_id);
    bool gone = !connection || connection->state == ConnectionState::idle ||
                connection->state == ConnectionState::closed;
    if (gone) {
        if (mutated(Mutation::dreq_of_stranger_ignored)) return;
        // The peer only wants to hear that it is over; our side of it is forgotten.
        wire::Drep drep;
        drep.local_comm_id = dreq.remote_comm_id;
        drep.remote_comm_id = dreq.local_comm_id;
        send_to(sender, make_mad(sender.transaction_id, drep));
        return;
    }
    if (dreq.remote_qpn != connection->local_qpn) return;  // IBA 12.6.10: not a request for this connection
    switch (connection->state) {
        case ConnectionState::rep_sent:  // the RTU was lost, and the peer is done already
        case ConnectionState::mra_rep_received:
        case ConnectionState::established:
        case ConnectionState::dreq_sent:
            break;
        case ConnectionState::timewait:  // our DREP was lost
            connection->dreq_transaction_id = sender.transaction_id;
            send_drep(*connection);
            return;
        default:
            return;
    }
    stop_repeating(*connection);
    connection->dreq_transaction_id = sender.transaction_id;
    if (connection->state == ConnectionState::dreq_sent) {
        // Both asked at once, or our DREQ was lost: our program has said that it is done, so the answer need
        // not wait for it.
        send_drep(*connection);
        enter_timewait(*connection, now);
    } else {
        // Whatever our program makes of it, and when: the peer's QP is free for another connection.
        forget_qp(*connection);
        connection->state = ConnectionState::dreq_received;
    }
    tell_end(*connection, 0, now);
}

void Connections::on_drep(const wire::Drep& drep, Time now) {
    Connection* connection = find_pair(drep.remote_comm_id, drep.local_comm_id);
    if (!connection || (connection->state != ConnectionState::dreq_sent &&
                        connection->state != ConnectionState::dreq_received))
        return;
    enter_timewait(*connection, now);
    tell_end(*connection, 0, now);
}

void Connections::end(Connection& connection) {
    stop_repeating(connection);
    forget_qp(connection);
    // A refused request is remembered by the peer's comm id, to answer its repetitions.
    if (!connection.has_answer) forget_peer(connection);
    connection.state = ConnectionState::idle;
}

// As in Linux, the peer may use its QP for a new connection now: it knows that this one is over, and the old
// packets are for a QP of ours that nobody gets meanwhile. Its comm id stays known, for repetitions.
void Connections::enter_timewait(Connection& connection, Time now) {
    stop_repeating(connection);
    forget_qp(connection);
    Time until = now + timewait(connection);
    connection.state = ConnectionState::timewait;
    timers_.set(connection.local_comm_id, until);
    if (connection.local_qpn && !mutated(Mutation::timewait_skipped))
        environment_.quarantine_qp(connection.local_qpn, until);
}

// The connection outlives its id: in timewait, in dreq_sent, or to repeat its answer.
void Connections::orphan(Connection& connection, Time now) {
    connection.owner = 0;
    if (connection.state != ConnectionState::idle) {
        orphans_++;
        return;
    }
    if (!connection.has_answer || answers_ >= kMaxAnswers) {
        orphans_++;  // erase() takes it off again
        erase(connection);
        return;
    }
    connection.state = ConnectionState::closed;
    answers_++;
    timers_.set(connection.local_comm_id, now + kAnswerMemory);
}

void Connections::destroy(std::uint32_t id, Time now) {
    Connection* connection = find_mutable(id);
    if (!connection || connection->owner == 0) return;
    switch (connection->state) {
        case ConnectionState::req_sent:
        case ConnectionState::mra_req_received:
            reject(id, wire::RejReason::timeout, {}, now);
            break;
        case ConnectionState::req_received:
        case ConnectionState::rep_sent:
        case ConnectionState::mra_rep_received:
        case ConnectionState::rep_received:
            reject(id, wire::RejReason::consumer_reject, {}, now);
            break;
        case ConnectionState::established:
            if (connection->qp_type == QpType::xrc_recv) {  // the target QP lives on without its creator
                end(*connection);
                break;
            }
            send_dreq(*connection, now);
            break;
        case ConnectionState::dreq_received:
            send_drep(*connection);
            enter_timewait(*connection, now);
            break;
        default:
            break;
    }
    if (connection->state == ConnectionState::dreq_sent) {
        connection->retries_left = std::min(connection->retries_left, kOrphanRetries);
        forget_qp(*connection);  // for Linux this is timewait already
        // The program may destroy its QP now; the number must not serve another before the peer's packets
        // ended.
        environment_.quarantine_qp(connection->local_qpn, now + timewait(*connection));
    }
    orphan(*connection, now);
}

}  // namespace verbena::cm
