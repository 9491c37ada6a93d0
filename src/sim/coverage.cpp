#include "sim/coverage.h"

#include <cstdio>

#include "cm/text.h"
#include "completion/completion.h"
#include "sim/network.h"
#include "transport/attributes.h"
#include "wire/mad.h"
#include "wire/opcode.h"
#include "wire/packet.h"

namespace verbena::sim {
namespace {

using completion::Status;
using transport::QpState;
using wire::Opcode;

// Not here: FLUSH and ATOMIC WRITE over XRC, which are executed as over RC.
constexpr Opcode kOpcodes[] = {Opcode::rc_send_first,
                               Opcode::rc_send_middle,
                               Opcode::rc_send_last,
                               Opcode::rc_send_last_immediate,
                               Opcode::rc_send_only,
                               Opcode::rc_send_only_immediate,
                               Opcode::rc_write_first,
                               Opcode::rc_write_middle,
                               Opcode::rc_write_last,
                               Opcode::rc_write_last_immediate,
                               Opcode::rc_write_only,
                               Opcode::rc_write_only_immediate,
                               Opcode::rc_read_request,
                               Opcode::rc_read_response_first,
                               Opcode::rc_read_response_middle,
                               Opcode::rc_read_response_last,
                               Opcode::rc_read_response_only,
                               Opcode::rc_ack,
                               Opcode::rc_atomic_ack,
                               Opcode::rc_compare_swap,
                               Opcode::rc_fetch_add,
                               Opcode::rc_send_last_invalidate,
                               Opcode::rc_send_only_invalidate,
                               Opcode::rc_flush,
                               Opcode::rc_atomic_write,
                               Opcode::uc_send_first,
                               Opcode::uc_send_middle,
                               Opcode::uc_send_last,
                               Opcode::uc_send_last_immediate,
                               Opcode::uc_send_only,
                               Opcode::uc_send_only_immediate,
                               Opcode::uc_write_first,
                               Opcode::uc_write_middle,
                               Opcode::uc_write_last,
                               Opcode::uc_write_last_immediate,
                               Opcode::uc_write_only,
                               Opcode::uc_write_only_immediate,
                               Opcode::ud_send_only,
                               Opcode::ud_send_only_immediate,
                               Opcode::xrc_send_first,
                               Opcode::xrc_send_middle,
                               Opcode::xrc_send_last,
                               Opcode::xrc_send_last_immediate,
                               Opcode::xrc_send_only,
                               Opcode::xrc_send_only_immediate,
                               Opcode::xrc_write_first,
                               Opcode::xrc_write_middle,
                               Opcode::xrc_write_last,
                               Opcode::xrc_write_last_immediate,
                               Opcode::xrc_write_only,
                               Opcode::xrc_write_only_immediate,
                               Opcode::xrc_read_request,
                               Opcode::xrc_read_response_first,
                               Opcode::xrc_read_response_middle,
                               Opcode::xrc_read_response_last,
                               Opcode::xrc_read_response_only,
                               Opcode::xrc_ack,
                               Opcode::xrc_atomic_ack,
                               Opcode::xrc_compare_swap,
                               Opcode::xrc_fetch_add,
                               Opcode::xrc_send_last_invalidate,
                               Opcode::xrc_send_only_invalidate};

// Not here: invalid RD, which has no RD to say it of.
constexpr const char* kNaks[] = {"PSN sequence error", "invalid request", "remote access",
                                 "remote operational", nullptr,           "RNR"};

struct Edge {
    QpState from, to;
};
// Not here: SQE, which RC never enters.
constexpr Edge kEdges[] = {{QpState::reset, QpState::init}, {QpState::init, QpState::rtr},
                           {QpState::rtr, QpState::rts},    {QpState::rts, QpState::sqd},
                           {QpState::sqd, QpState::rts},    {QpState::rts, QpState::error},
                           {QpState::error, QpState::reset}};

constexpr const char* kTimers[] = {"ACK timeout", "probe", "RNR wait", "ACK delay"};

struct StatusLine {
    Status status;
    const char* name;
};
constexpr StatusLine kSendStatuses[] = {{Status::success, "success"},
                                        {Status::local_protection_error, "local protection error"},
                                        {Status::work_request_flushed, "flushed"},
                                        {Status::remote_invalid_request, "remote invalid request"},
                                        {Status::remote_access_error, "remote access error"},
                                        {Status::remote_operation_error, "remote operation error"},
                                        {Status::retry_exceeded, "retry exceeded"},
                                        {Status::rnr_retry_exceeded, "RNR retry exceeded"}};
constexpr StatusLine kReceiveStatuses[] = {{Status::success, "success"},
                                           {Status::local_length_error, "local length error"},
                                           {Status::local_protection_error, "local protection error"},
                                           {Status::work_request_flushed, "flushed"},
                                           {Status::memory_window_bind_error, "invalidation failed"}};

struct EventLine {
    unsigned number;
    const char* name;
};
constexpr EventLine kEvents[] = {{2, "request error"},
                                 {3, "access error"},
                                 {4, "communication established"},
                                 {5, "send queue drained"},
                                 {16, "last WQE reached"}};

// Not here: LAP and APR, since RoCE has no alternate paths and nobody sends them.
constexpr wire::CmAttribute kMads[] = {
    wire::CmAttribute::req,  wire::CmAttribute::mra,      wire::CmAttribute::rej,
    wire::CmAttribute::rep,  wire::CmAttribute::rtu,      wire::CmAttribute::dreq,
    wire::CmAttribute::drep, wire::CmAttribute::sidr_req, wire::CmAttribute::sidr_rep};

// Which message can meet which state. Not here, because no peer sends it then:
//   REQ    in the active side's states: the number in it names a connection that the peer began.
//   MRA    in REQ received: we have not said anything yet that could be answered.
//   REJ    in DREQ received: who ended a connection does not refuse it as well.
//   REP    in the passive side's states: it names a connection that we began.
//   RTU    in the active side's states; in REQ received, before our REP; in closed, whose REQ or REP was
//   refused. DREQ   before the peer is connected; in closed, as RTU. And DREP without a DREQ of ours.
constexpr int kNone = -1, kUnused = -2;
struct Meeting {
    wire::CmAttribute message;
    std::array<int, 13> states;
};
constexpr int number(cm::ConnectionState state) { return static_cast<int>(state); }
template <typename... States>
constexpr Meeting meeting(wire::CmAttribute message, States... states) {
    Meeting m{message, {}};
    m.states.fill(kUnused);
    std::size_t n = 0;
    m.states[n++] = kNone;
    ((m.states[n++] = number(states)), ...);
    return m;
}
using enum cm::ConnectionState;
constexpr Meeting kMeetings[] = {
    meeting(wire::CmAttribute::req, idle, req_received, rep_sent, mra_rep_received, established, dreq_sent,
            dreq_received, timewait, closed),
    meeting(wire::CmAttribute::mra, idle, req_sent, mra_req_received, rep_sent, mra_rep_received,
            rep_received, established, dreq_sent, dreq_received, timewait, closed),
    meeting(wire::CmAttribute::rej, idle, req_sent, mra_req_received, req_received, rep_sent,
            mra_rep_received, rep_received, established, dreq_sent, timewait, closed),
    meeting(wire::CmAttribute::rep, idle, req_sent, mra_req_received, rep_received, established, dreq_sent,
            dreq_received, timewait, closed),
    meeting(wire::CmAttribute::rtu, idle, rep_sent, mra_rep_received, established, dreq_sent, dreq_received,
            timewait),
    meeting(wire::CmAttribute::dreq, idle, rep_sent, mra_rep_received, established, dreq_sent, dreq_received,
            timewait),
    meeting(wire::CmAttribute::drep, idle, dreq_sent, timewait),
    // No connections, but requests of their own.
    meeting(wire::CmAttribute::sidr_req), meeting(wire::CmAttribute::sidr_rep)};

// Not here: what needs a lost device, multicast or a program's own events.
constexpr EventLine kCmEventLines[] = {{0, "ADDR_RESOLVED"},   {1, "ADDR_ERROR"},       {2, "ROUTE_RESOLVED"},
                                       {4, "CONNECT_REQUEST"}, {5, "CONNECT_RESPONSE"}, {7, "UNREACHABLE"},
                                       {8, "REJECTED"},        {9, "ESTABLISHED"},      {10, "DISCONNECTED"},
                                       {15, "TIMEWAIT_EXIT"}};

constexpr const char* kDirectly[] = {"WRITE, or a part, executed",
                                     "READ, or a part, executed",
                                     "part of a WRITE written that both copy",
                                     "part of a READ executed that both copy",
                                     "part of an answer written by the peer",
                                     "SEND, or a part, written ahead",
                                     "WRITE or READ declined",
                                     "WRITE or READ: not yet",
                                     "WRITE or READ left as packets for speed",
                                     "a peer that stood still was waited for"};
static_assert(std::size(kDirectly) == Coverage::directly_count);

template <typename Array>
void add_all(Array& to, const Array& from) {
    for (std::size_t i = 0; i < to.size(); i++) {
        if constexpr (requires { to[i].size(); })
            add_all(to[i], from[i]);
        else
            to[i] += from[i];
    }
}

class Table {
   public:
    explicit Table(std::vector<std::string>& zero) : zero_(zero) {}

    void heading(const char* text) {
        heading_ = text;
        text_ += "\n" + heading_ + "\n";
    }
    void line(const std::string& name, std::uint64_t count) {
        char buffer[120];
        std::snprintf(buffer, sizeof buffer, "  %-44s %14llu\n", name.c_str(),
                      static_cast<unsigned long long>(count));
        text_ += buffer;
        if (count == 0) zero_.push_back(heading_ + ": " + name);
    }
    void line(const std::string& name, std::uint64_t sent, std::uint64_t received) {
        char buffer[120];
        std::snprintf(buffer, sizeof buffer, "  %-44s %14llu %14llu\n", name.c_str(),
                      static_cast<unsigned long long>(sent), static_cast<unsigned long long>(received));
        text_ += buffer;
        if (sent == 0 || received == 0) zero_.push_back(heading_ + ": " + name);
    }
    std::string take() { return std::move(text_); }

   private:
    std::vector<std::string>& zero_;
    std::string heading_, text_;
};

}  // namespace

void Coverage::add(const Coverage& other) {
    add_all(sent, other.sent);
    add_all(received, other.received);
    add_all(naks_sent, other.naks_sent);
    add_all(naks_received, other.naks_received);
    add_all(edges, other.edges);
    add_all(timers, other.timers);
    add_all(send_statuses, other.send_statuses);
    add_all(receive_statuses, other.receive_statuses);
    add_all(qp_events, other.qp_events);
    add_all(losses, other.losses);
    add_all(mads_sent, other.mads_sent);
    add_all(mads_received, other.mads_received);
    add_all(cm, other.cm);
    add_all(cm_events, other.cm_events);
    add_all(directly, other.directly);
    limit_events += other.limit_events;
    runs += other.runs;
    packets += other.packets;
    events += other.events;
}

std::string Coverage::table(std::vector<std::string>& zero) const {
    Table t(zero);
    t.heading("Opcodes (sent, received)");
    for (Opcode opcode : kOpcodes) {
        const auto i = static_cast<std::uint8_t>(opcode);
        t.line(wire::info(opcode).name, sent[i], received[i]);
    }
    t.heading("NAKs (sent, received)");
    for (std::size_t i = 0; i < std::size(kNaks); i++)
        if (kNaks[i]) t.line(kNaks[i], naks_sent[i], naks_received[i]);
    t.heading("Queue pair states");
    for (const Edge& edge : kEdges)
        t.line(std::string(transport::to_string(edge.from)) + " -> " + transport::to_string(edge.to),
               edges[static_cast<std::size_t>(edge.from)][static_cast<std::size_t>(edge.to)]);
    t.heading("Timers that expired");
    for (std::size_t i = 0; i < timers.size(); i++) t.line(kTimers[i], timers[i]);
    t.heading("Completions of send requests");
    for (const StatusLine& s : kSendStatuses)
        t.line(s.name, send_statuses[static_cast<std::size_t>(s.status)]);
    t.heading("Completions of receives");
    for (const StatusLine& s : kReceiveStatuses)
        t.line(s.name, receive_statuses[static_cast<std::size_t>(s.status)]);
    t.heading("Asynchronous events");
    for (const EventLine& e : kEvents) t.line(e.name, qp_events[e.number]);
    t.line("limit of a shared receive queue reached", limit_events);
    t.heading("CM messages (sent, received)");
    for (wire::CmAttribute attribute : kMads) {
        const auto i = static_cast<std::size_t>(attribute);
        t.line(wire::to_string(attribute), mads_sent[i], mads_received[i]);
    }
    t.heading("CM messages by the state that they meet");
    for (const Meeting& meeting : kMeetings)
        for (int state : meeting.states) {
            if (state == kUnused) break;
            t.line(std::string(wire::to_string(meeting.message)) + " in " +
                       (state < 0 ? "none" : cm::to_string(static_cast<cm::ConnectionState>(state))),
                   cm[static_cast<std::size_t>(meeting.message)][static_cast<std::size_t>(state) + 1]);
        }
    t.heading("CM events");
    for (const EventLine& e : kCmEventLines) t.line(e.name, cm_events[e.number]);
    t.heading("What the link between processes of one host did");
    for (std::size_t i = 0; i < directly.size(); i++) t.line(kDirectly[i], directly[i]);
    t.heading("What the network did");
    for (std::size_t i = 0; i <= static_cast<std::size_t>(Loss::late); i++)
        // Undetectable corruption is one packet in 65 536 corrupted ones.
        if (i != static_cast<std::size_t>(Loss::undetectable))
            t.line(to_string(static_cast<Loss>(i)), losses[i]);
    return t.take();
}

}  // namespace verbena::sim
