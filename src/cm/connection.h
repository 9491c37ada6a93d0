// One connection as the CM protocol sees it (IBA 12.9): the state of the REQ/REP/RTU and DREQ/DREP exchanges
// with a peer. Plain data; the rules are in handshake.cpp and disconnect.cpp.
#pragma once

#include <cstdint>

#include "base/time.h"
#include "cm/messages.h"
#include "cm/types.h"
#include "wire/path.h"

namespace verbena::cm {

enum class ConnectionState : std::uint8_t {
    idle,              // nothing yet, or over; an id may still own it
    req_sent,          // active
    mra_req_received,  // active: the peer asked for more time
    req_received,      // passive: the program has the request; an MRA is prepared and answers a repeated REQ
    rep_sent,          // passive
    mra_rep_received,  // passive: the peer asked for more time
    rep_received,      // active: the program has the reply; an MRA is prepared and answers a repeated REP
    established,
    dreq_sent,
    dreq_received,  // the program is told; its disconnect or destroy answers DREP
    timewait,       // IBA 12.9.8: packets of the old connection may still be under way
    closed,         // refused or given up, and owned by nobody: kept for a while to repeat `answer`
};

struct Connection {
    std::uint32_t local_comm_id = 0;
    std::uint32_t remote_comm_id = 0;
    ConnectionState state = ConnectionState::idle;
    bool active = false;  // we sent the REQ
    IdNumber owner = 0;   // 0: an orphan, whose id was destroyed
    QpType qp_type = QpType::rc;

    std::uint64_t transaction_id = 0;       // of the REQ; REP, RTU, MRA and REJ echo it
    std::uint64_t dreq_transaction_id = 0;  // of the DREQ received; DREP echoes it
    std::uint64_t local_guid = 0;           // CA GUIDs as the messages carry them
    std::uint64_t remote_guid = 0;
    Route route;      // of the data
    wire::Path path;  // of the CM messages
    std::uint32_t destination_qp = wire::kQp1;

    std::uint32_t local_qpn = 0;
    std::uint32_t remote_qpn = 0;
    std::uint32_t receive_psn = 0;         // what the peer starts to send with
    std::uint32_t send_psn = 0;            // what we start to send with
    std::uint8_t responder_resources = 0;  // of our QP: its max_dest_rd_atomic
    std::uint8_t initiator_depth = 0;      // of our QP: its max_rd_atomic
    std::uint8_t retry_count = 0;
    std::uint8_t rnr_retry = 0;
    std::uint8_t ack_timeout = 0;  // exponent

    // The message that is repeated until it is answered: REQ, REP or DREQ.
    Mad message{};
    Duration response_time = 0;  // between repetitions
    Duration wait = 0;           // of the present message: response_time, or what a received MRA asked for
    std::uint8_t max_retries = kMaxCmRetries;
    std::uint8_t retries_left = 0;

    // What answers a duplicate once the exchange is over: a REJ.
    bool has_answer = false;
    Mad answer{};
};

// How the program's side learns of a connection. The type is the event that the program gets if it still
// wants to hear of it.
struct ConnectionEvent {
    EventType type = EventType::connect_response;
    std::int32_t status = 0;
    ConnectParameters parameters;  // of a REP; the private data of a REJ
    Time quiet_until = 0;          // disconnected: until when no other event follows, at least
};

}  // namespace verbena::cm
