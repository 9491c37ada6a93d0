#include "sim/wire_watch.h"

#include <algorithm>

#include "transport/retransmission.h"
#include "wire/describe.h"
#include "wire/icrc.h"
#include "wire/mad.h"
#include "wire/psn.h"

namespace verbena::sim {
namespace {

constexpr std::uint64_t kSampleEvery = 16;  // packets whose ICRC is checked as it is sent

void count_nak(std::array<std::uint64_t, 8>& lines, const wire::Packet& packet) {
    if (packet.headers.bth.opcode != wire::Opcode::rc_ack) return;
    const std::uint8_t syndrome = packet.headers.aeth.syndrome;
    if (wire::classify(syndrome) == wire::AethKind::rnr_nak) lines[kRnrLine]++;
    if (wire::classify(syndrome) == wire::AethKind::nak) lines[wire::syndrome_value(syndrome) & 3]++;
}

void count_mad(std::array<std::uint64_t, Coverage::kCmMessages>& lines, const wire::Packet& packet) {
    if (packet.headers.bth.opcode != wire::Opcode::ud_send_only || packet.payload.size() != wire::kMadLength)
        return;
    wire::MadHeader header;
    wire::decode(packet.payload.first<wire::kMadHeaderLength>(), header);
    const auto attribute = static_cast<std::size_t>(header.attribute_id);
    if (attribute < lines.size()) lines[attribute]++;
}

std::size_t count_between(const std::vector<Time>& times, Time from, Time to) {
    return static_cast<std::size_t>(
        std::ranges::count_if(times, [&](Time t) { return t >= from && t <= to; }));
}

}  // namespace

void WireWatch::pair(std::uint32_t a, std::uint32_t b) {
    logs_[a] = Log{};
    logs_[b] = Log{};
    logs_[a].peer = b;
    logs_[b].peer = a;
}

void WireWatch::show(const char* what, const Frame& frame) const {
    if (!trace) return;
    wire::Packet packet;
    const bool parsed = wire::parse(frame.bytes, packet) == wire::ParseError::none;
    std::fprintf(stderr, "%.6f %-12s %s\n", static_cast<double>(scheduler_.now()) / kSecond, what,
                 parsed ? wire::describe(packet).c_str() : "unreadable");
}

void WireWatch::sent(const Frame& frame) {
    show("sent", frame);
    coverage_.packets++;
    wire::Packet packet;
    if (auto error = wire::parse(frame.bytes, packet); error != wire::ParseError::none)
        return verdict_.violation(scheduler_.now(), "a packet was sent that does not parse: %s",
                                  wire::to_string(error));
    std::uint32_t id = 0;
    if (sampled_++ % kSampleEvery == 0 &&
        (wire::icrc_verify(frame.path, wire::kUdpPort, frame.bytes, &id) != wire::IcrcCheck::good ||
         (frame.path.is_ipv4() && id != frame.ip_id)))
        return verdict_.violation(scheduler_.now(), "a packet was sent whose ICRC is wrong");
    const wire::Opcode opcode = packet.headers.bth.opcode;
    coverage_.sent[static_cast<std::uint8_t>(opcode)]++;
    if (observer) observer(packet);
    count_mad(coverage_.mads_sent, packet);
    count_nak(coverage_.naks_sent, packet);
    if (timer_turn && opcode == wire::Opcode::rc_ack &&
        wire::classify(packet.headers.aeth.syndrome) == wire::AethKind::ack)
        coverage_.timers[Coverage::ack_delay]++;
    if (wire::info(opcode).request && wire::info(opcode).service == wire::Service::rc) check_request(packet);
}

// IBA 9.7.5.2.8: after an RNR NAK the request is not repeated before the time that it names.
void WireWatch::check_request(const wire::Packet& packet) {
    const auto peer = logs_.find(packet.headers.bth.destination_qp);
    if (peer == logs_.end()) return;
    const auto sender = logs_.find(peer->second.peer);
    if (sender == logs_.end()) return;
    Log& log = sender->second;
    if (packet.headers.bth.opcode == wire::Opcode::rc_read_request ||
        wire::info(packet.headers.bth.opcode).has_atomic_eth)
        log.data_requests.push_back(packet.headers.bth.psn);
    if (!log.rnr || packet.headers.bth.psn != log.rnr_psn) return;
    if (scheduler_.now() >= log.rnr_until) {
        log.rnr = false;  // repeated in time; the next RNR NAK counts anew
        return;
    }
    verdict_.violation(scheduler_.now(), "QP 0x%06x repeats PSN 0x%06x %lld us before its RNR timer ends",
                       peer->second.peer, log.rnr_psn,
                       static_cast<long long>((log.rnr_until - scheduler_.now()) / kMicrosecond));
}

void WireWatch::delivered(const Frame& frame) {
    show("received", frame);
    if (frame.corrupted) return;
    wire::Packet packet;
    if (wire::parse(frame.bytes, packet) != wire::ParseError::none) return;
    const wire::OpcodeInfo& info = wire::info(packet.headers.bth.opcode);
    coverage_.received[static_cast<std::uint8_t>(packet.headers.bth.opcode)]++;
    count_mad(coverage_.mads_received, packet);
    count_nak(coverage_.naks_received, packet);
    const auto log = logs_.find(frame.destination_qp);
    if (log != logs_.end() && frame.aside.acknowledges) {
        wire::Packet acknowledgement;
        acknowledgement.headers.bth.opcode = wire::Opcode::rc_ack;
        acknowledgement.headers.bth.psn = frame.aside.acknowledged;
        acknowledgement.headers.aeth.syndrome = wire::ack_syndrome();
        response(log->second, acknowledgement);
    }
    if (log != logs_.end() && info.response && info.service == wire::Service::rc)
        response(log->second, packet);
}

// Data that a READ or atomic before `psn` misses is asked for again at once, and with it what follows.
bool WireWatch::may_go_back(const Log& log, std::uint32_t psn) {
    return std::ranges::any_of(log.data_requests, [&](std::uint32_t d) { return wire::psn_less(d, psn); });
}

void WireWatch::response(Log& log, const wire::Packet& packet) {
    const Time now = scheduler_.now();
    log.last_response = now;
    std::uint32_t psn = packet.headers.bth.psn;
    const bool plain = packet.headers.bth.opcode == wire::Opcode::rc_ack;
    const std::uint8_t syndrome = packet.headers.aeth.syndrome;
    if (plain && wire::classify(syndrome) == wire::AethKind::rnr_nak) {
        log.rnr_naks.push_back(now);
        const bool waiting = log.rnr && log.rnr_psn == psn;
        const bool old = log.acknowledged_any && wire::psn_less_equal(psn, log.acknowledged);
        if (!waiting && !old && !may_go_back(log, psn)) {
            log.rnr = true;
            log.rnr_psn = psn;
            log.rnr_until = now + transport::rnr_wait(wire::syndrome_value(syndrome));
        }
    }
    if (plain && wire::classify(syndrome) != wire::AethKind::ack) psn = wire::psn_add(psn, wire::kPsnMask);
    if (log.acknowledged_any && wire::psn_less_equal(psn, log.acknowledged)) return;
    log.acknowledged_any = true;
    log.acknowledged = psn;
    if (log.rnr && wire::psn_less_equal(log.rnr_psn, psn)) log.rnr = false;
}

void WireWatch::lost(const Frame& frame, Loss why) {
    show(to_string(why), frame);
    coverage_.losses[static_cast<std::size_t>(why)]++;
    if (const auto log = logs_.find(frame.destination_qp); log != logs_.end())
        log->second.losses.push_back(scheduler_.now());
}

std::size_t WireWatch::losses(std::uint32_t a, std::uint32_t b, Time from, Time to) const {
    std::size_t n = 0;
    for (std::uint32_t qp : {a, b})
        if (const auto log = logs_.find(qp); log != logs_.end())
            n += count_between(log->second.losses, from, to);
    return n;
}

std::size_t WireWatch::rnr_naks(std::uint32_t qp, Time from, Time to) const {
    const auto log = logs_.find(qp);
    return log == logs_.end() ? 0 : count_between(log->second.rnr_naks, from, to);
}

bool WireWatch::anything_received(std::uint32_t qp, Time from) const {
    const auto log = logs_.find(qp);
    return log != logs_.end() && log->second.last_response >= from;
}

}  // namespace verbena::sim
