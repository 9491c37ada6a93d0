// What a message means for the two ends, from what goes over the wire alone. The names are the protocol's own
// states in src/cm (IBA 12.9.5 to 12.9.7); between the messages programs decide, which changes no state.

#include "cm/text.h"
#include "report/conversation.h"

namespace verbena::report {
namespace {

using cm::ConnectionState;
using wire::CmAttribute;

const char* name(ConnectionState state) { return cm::to_string(state); }

struct Change {
    CmAttribute attribute;
    bool by_client, by_server;  // who sends it
    ConnectionState sender, receiver;
};

constexpr Change kChanges[] = {
    {CmAttribute::req, true, false, ConnectionState::req_sent, ConnectionState::req_received},
    {CmAttribute::rep, false, true, ConnectionState::rep_sent, ConnectionState::rep_received},
    {CmAttribute::rtu, true, false, ConnectionState::established, ConnectionState::established},
    {CmAttribute::rej, true, true, ConnectionState::closed, ConnectionState::closed},
    {CmAttribute::dreq, true, true, ConnectionState::dreq_sent, ConnectionState::dreq_received},
    {CmAttribute::drep, true, true, ConnectionState::timewait, ConnectionState::timewait},
    {CmAttribute::mra, false, true, ConnectionState::req_received, ConnectionState::mra_req_received},
    {CmAttribute::mra, true, false, ConnectionState::rep_received, ConnectionState::mra_rep_received},
};

}  // namespace

CmStates::CmStates(Kind kind) {
    if (kind == Kind::connection || kind == Kind::service) {
        state_[kLeft] = name(ConnectionState::idle);
        state_[kRight] = cm::to_string(cm::IdState::listen);
    }
}

void CmStates::take(CmAttribute attribute, int sender, bool lost, Step& step) {
    const std::string before[2] = {state_[kLeft], state_[kRight]};
    const int receiver = 1 - sender;
    for (const Change& change : kChanges) {
        if (change.attribute != attribute || !(sender == kLeft ? change.by_client : change.by_server))
            continue;
        // Who disconnects at the same time as the peer has sent its own request already.
        const bool crossed =
            attribute == CmAttribute::dreq && state_[receiver] == name(ConnectionState::dreq_sent);
        // A repeated message changes only a receiver that did not get it before.
        if (!step.repeated) state_[sender] = name(change.sender);
        if (!lost && !crossed && (!step.repeated || missed_[receiver] == attribute)) {
            state_[receiver] = name(change.receiver);
            missed_[receiver] = CmAttribute::class_port_info;
        }
        if (lost) missed_[receiver] = attribute;
    }
    // SIDR: one question, one answer (IBA 12.11).
    if (attribute == CmAttribute::sidr_req) {
        state_[sender] = "SIDR REQ sent";
        if (!lost) state_[receiver] = "SIDR REQ received";
    }
    if (attribute == CmAttribute::sidr_rep) {
        state_[sender] = cm::to_string(cm::IdState::listen);
        if (!lost) state_[receiver] = "SIDR REP received";
    }
    for (int side : {kLeft, kRight}) {
        step.before[side] = before[side];
        step.after[side] = state_[side];
    }
}

}  // namespace verbena::report
