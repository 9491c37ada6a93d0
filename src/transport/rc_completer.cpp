// The requester's other half: acknowledgements and responses become progress, completions, or a retreat.
//
// Every response implicitly acknowledges the SENDs and WRITEs before it (IBA 9.7.5.1.2), but never a READ or
// atomic, whose data must come: a response past one of those is an implied NAK (IBA 9.7.5.1.1). What lies
// outside una_..max_psn_ is a duplicate or a ghost of an earlier connection and says nothing (IBA 9.7.5.1.3).
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>

#include "base/failures.h"
#include "transport/copy.h"
#include "transport/mutation.h"
#include "transport/particulars.h"
#include "transport/rc_requester.h"

namespace verbena::transport {
namespace {

using completion::Status;

struct NakMeaning {
    Status status;
    VendorError error;
};

// IBA 9.9.2.4.1 and 11.6.2.
NakMeaning meaning_of(std::uint8_t code) {
    switch (static_cast<wire::NakCode>(code)) {
        case wire::NakCode::invalid_request:
            return {Status::remote_invalid_request, VendorError::nak_invalid_request};
        case wire::NakCode::remote_access:
            return {Status::remote_access_error, VendorError::nak_remote_access};
        case wire::NakCode::remote_operational:
            return {Status::remote_operation_error, VendorError::nak_remote_operational};
        case wire::NakCode::invalid_rd:
            return {Status::remote_invalid_rd_request, VendorError::nak_invalid_rd};
        default:
            return {Status::bad_response, VendorError::nak_reserved_code};
    }
}

}  // namespace

void RcRequester::receive(const wire::Packet& packet, Time now) {
    const wire::Bth& bth = packet.headers.bth;
    if (!in_flight(bth.psn)) {
        shared_.rare().stale_responses++;
        if (mutated(Mutation::ghost_ack_accepted) && outstanding() && bth.opcode == wire::Opcode::rc_ack)
            acknowledged(una_, now), finish_progress(now);
        return;
    }
    switch (wire::with_service(bth.opcode, wire::Service::rc)) {
        case wire::Opcode::rc_ack: {
            const std::uint8_t syndrome = packet.headers.aeth.syndrome;
            const std::uint8_t value = wire::syndrome_value(syndrome);
            switch (wire::classify(syndrome)) {
                case wire::AethKind::ack:
                    acknowledged(bth.psn, now);
                    break;
                case wire::AethKind::rnr_nak:
                    receiver_not_ready(bth.psn, value, now);
                    break;
                case wire::AethKind::nak:
                    refused(bth.psn, value, now);
                    break;
                case wire::AethKind::reserved:
                    shared_.rare().dropped++;
                    break;
            }
            break;
        }
        case wire::Opcode::rc_atomic_ack:
            atomic_response(packet, now);
            responses_ahead(now);
            break;
        default:
            read_response(packet, now);
            responses_ahead(now);
            break;
    }
    if (!failed_) finish_progress(now);
}

void RcRequester::receive_aside(const wire::Aside& aside, Time now) {
    if (!receive_acknowledgement(aside.acknowledged, now)) shared_.rare().stale_responses++;
}

bool RcRequester::receive_acknowledgement(std::uint32_t psn, Time now) {
    if (!in_flight(psn)) return false;
    acknowledged(psn, now);
    if (!failed_) finish_progress(now);
    return true;
}

bool RcRequester::in_flight(std::uint32_t psn) const {
    return wire::psn_less_equal(una_, psn) && wire::psn_less(psn, max_psn_);
}

// A positive acknowledgement of everything up to and including `psn`.
void RcRequester::acknowledged(std::uint32_t psn, Time now) {
    if (!acknowledge_before(wire::psn_next(psn), now)) implied_nak(now);
}

// NAK (IBA 9.7.5.2.2): what lies before `psn` was executed, the request at `psn` was not.
void RcRequester::refused(std::uint32_t psn, std::uint8_t code, Time now) {
    shared_.rare().naks_received++;
    if (!acknowledge_before(psn, now)) return implied_nak(now);
    if (code == static_cast<std::uint8_t>(wire::NakCode::psn_sequence_error)) {
        shared_.rare().sequence_naks_received++;
        return sequence_error(true, now);
    }
    const NakMeaning meaning = meaning_of(code);
    if (!failed_) fail_head(meaning.status, meaning.error, now);
}

// IBA 9.7.5.2.8: the request at `psn` found no receive; it is repeated after the time that the responder
// names.
void RcRequester::receiver_not_ready(std::uint32_t psn, std::uint8_t timer, Time now) {
    shared_.rare().rnr_naks_received++;
    if (!acknowledge_before(psn, now)) return implied_nak(now);
    if (failed_) return;
    finish_progress(now);              // reloads the counters, and ends the wait of an earlier RNR NAK
    if (resume_at_ != kNever) return;  // waiting for this one already
    if (!retransmission_.take_rnr_retry())
        return fail_head(Status::rnr_retry_exceeded, VendorError::rnr_retries_exceeded, now);
    go_back();
    retransmission_.stop();
    went_back_ = false;
    served_since(kNever, now);
    resume_at_ = mutated(Mutation::rnr_timer_ignored) ? now : now + rnr_wait(timer);
}

void RcRequester::read_response(const wire::Packet& packet, Time now) {
    const wire::Bth& bth = packet.headers.bth;
    SendEntry* entry = awaiting(bth.psn, now);
    if (entry == nullptr) {
        if (!failed_ && packet.aside.psns == 1 && wire::psn_less(una_, bth.psn))
            rest_->ahead.keep(packet, una_);
        return;
    }
    const std::uint32_t index = una_offset(), packets = packet.aside.psns;
    const std::uint32_t wanted = step(*entry, index);
    const std::uint64_t offset = std::uint64_t{index} * shared_.mtu();
    // Annex A19.4.3: FLUSH and ATOMIC WRITE are answered by a READ response without data.
    const std::uint64_t expected =
        entry->is_read() ? std::min(std::uint64_t{packets} * shared_.mtu(), entry->length - offset) : 0;
    if (entry->is_atomic() || packets > wanted ||
        wire::info(bth.opcode).ends_message() != (packets == wanted))
        return fail_head(Status::bad_response, VendorError::response_unexpected_opcode, now);
    const bool placed = packets > 1 && packet.payload.empty();
    // Our own part is not there, or another answer will come.
    if (placed && !entry->placed && !mutated(Mutation::half_missing)) return go_back();
    if (!placed && packet.payload.size() != expected)
        return fail_head(Status::bad_response, VendorError::response_wrong_length, now);
    if (auto error =
            scatter(shared_.regions(), shared_.basics().pd, queue_.sges(*entry), offset, packet.payload);
        error != memory::LookupError::none)
        return fail_head(Status::local_protection_error, offset_by(VendorError::send_lkey_unknown, error),
                         now);
    if (!placed && is_divided(*entry, index)) doubt_halves();
    shared_.counters().bytes_received += expected;
    if (placed) shared_.counters().wire_bytes_received += expected;
    advance_una(*entry, packets, now);
}

void RcRequester::atomic_response(const wire::Packet& packet, Time now) {
    SendEntry* entry = awaiting(packet.headers.bth.psn, now);
    if (entry == nullptr) return;
    if (!entry->is_atomic())
        return fail_head(Status::bad_response, VendorError::response_unexpected_opcode, now);
    std::uint8_t value[8];
    std::memcpy(value, &packet.headers.atomic_ack, sizeof value);
    if (auto error = scatter(shared_.regions(), shared_.basics().pd, queue_.sges(*entry), 0, value);
        error != memory::LookupError::none)
        return fail_head(Status::local_protection_error, offset_by(VendorError::send_lkey_unknown, error),
                         now);
    advance_una(*entry, 1, now);
}

// The READ or atomic that a data response with this PSN belongs to, if it is the response that we wait for.
SendEntry* RcRequester::awaiting(std::uint32_t psn, Time now) {
    if (!acknowledge_before(psn, now)) {
        implied_nak(now);
        return nullptr;
    }
    if (failed_ || queue_.empty()) return nullptr;
    SendEntry& head = queue_.at(0);
    if (head.awaits_response()) return &head;
    fail_head(Status::bad_response, VendorError::response_unexpected_opcode, now);
    return nullptr;
}

// Everything before `end` was executed, as far as an acknowledgement can say. False if a READ or atomic
// without its data is in the way.
bool RcRequester::acknowledge_before(std::uint32_t end, Time now) {
    complete_run(end, now);
    while (una_ != end && !failed_ && !queue_.empty()) {
        SendEntry& head = queue_.at(0);
        if (head.awaits_response() && !mutated(Mutation::implied_nak_ignored)) return false;
        const std::uint32_t rest = head.packets - una_offset();
        const auto distance = static_cast<std::uint32_t>(wire::psn_diff(end, una_));
        advance_una(head, std::min(rest, distance), now);
    }
    return true;
}

// The oldest requests before `end`, as long as each is one packet and completes with nothing else: what one
// acknowledgement is mostly about.
void RcRequester::complete_run(std::uint32_t end, Time now) {
    std::uint32_t in_window = 0;
    while (una_ != end && !failed_) {
        const SendEntry* const head = oldest_alone();
        if (!head || head->awaits_response()) break;
        const std::uint32_t behind = wire::psn_add(una_, head->packets);
        if (wire::psn_less(end, behind)) break;
        una_ = behind;
        progressed_ = true;
        if (!head->beside_window) in_window += head->length + Flow::kPacketOverhead;
        tell_passed(*head, now);
        complete_oldest(now);
    }
    if (in_window > 0) flow_.acknowledged(in_window);
}

// `packets` of the oldest request are done.
void RcRequester::advance_una(SendEntry& head, std::uint32_t packets, Time now) {
    const std::uint32_t from = una_offset();
    const bool chunk_done = head.awaits_response() && step(head, from) == packets;
    una_ = wire::psn_add(una_, packets);
    progressed_ = true;
    if (!head.beside_window) flow_.acknowledged(cost(head, from, from + packets));
    if (chunk_done && outstanding_reads_ > 0) outstanding_reads_--;
    if (from + packets != head.packets) return;
    tell_passed(head, now);
    complete_head(now);
}

void RcRequester::complete_head(Time now) {
    do complete_oldest(now);  // and the local requests behind it that are done
    while (!queue_.empty() && queue_.at(0).done);
    if (queue_.empty()) return;
    const VendorError error = queue_.at(0).local_error;
    if (error != VendorError::none) fail_head(local_status(error), error, now);
}

// Data did not come, but a later response did.
void RcRequester::implied_nak(Time now) {
    shared_.rare().implied_naks++;
    sequence_error(false, now);
}

// If una_ moved: counters, timers, cursor and probe. Once for each packet that came.
void RcRequester::finish_progress(Time now) {
    if (!progressed_) return;
    progress_undisturbed(now);
    if (pacing_ == Pacing::measures && rest_->pace.measures_sends()) [[unlikely]]
        tell_pace(now, !queue_.empty() && queue_.at(0).is_send() && rest_->pace.is_of(queue_.at(0).length));
    went_back_ = probe_due_ = false;
    resume_at_ = kNever;
    if (wire::psn_less(next_psn_, una_)) {  // the cursor had gone back for nothing
        cursor_to_una();
        flow_.withdraw();
        outstanding_reads_ = 0;
        probe_.peer_keeps();
    }
    if (recovering_ && wire::psn_less_equal(rest_->recovery_end, una_)) recovering_ = false;
    const bool measurable = sampled();
    const bool doubtful = measurable && probe_.doubts(sample_psn_);
    const Probe::Says says = probe_.progressed(una_);
    if (!probe_.holds_back()) flow_.take_back();
    if (measurable && !probe_.doubts(sample_psn_)) {
        if (!doubtful) {
            end_sample(now);
        } else {
            sampling_ = false;
            if (says == Probe::Says::slow) retransmission_.paused(now - sample_time_);
        }
    }
    if (says == Probe::Says::unclear) retransmission_.doubt(now);
    if (says == Probe::Says::lost && next_psn_ != una_) lost();
}

// What of the request, or of the queue pair, the error is about.
std::string RcRequester::particulars(const SendEntry& entry, VendorError error) const {
    const Attributes& a = shared_.attributes();
    std::array<char, 160> text{};
    if (error == VendorError::rnr_retries_exceeded) {
        std::snprintf(text.data(), text.size(), " (QP 0x%06x at %s; rnr_retry %u%s)", a.destination_qp,
                      to_string(a.path.destination).c_str(), a.rnr_retry,
                      a.rnr_retry == 0 ? ", so it was asked once; 7 asks for ever" : "");
        return text.data();
    }
    if (error >= VendorError::acknowledge_timeout)  // what the peer or the wire said
        return entry.is_write() || entry.awaits_response()
                   ? remote_range(entry.rkey, entry.remote_address, entry.length)
                   : std::string();
    if (entry.is_local()) {
        std::snprintf(text.data(), text.size(), " (rkey 0x%x, lkey 0x%x, address 0x%llx, %llu bytes)",
                      entry.rkey, entry.immediate_or_key,
                      static_cast<unsigned long long>(entry.remote_address),
                      static_cast<unsigned long long>(entry.range));
        return text.data();
    }
    return refused_element(shared_.regions(), shared_.basics().pd, queue_.sges(entry),
                           entry.awaits_data() ? memory::kLocalWrite : 0);
}

void RcRequester::give_up(Time now) {
    const Attributes& a = shared_.attributes();
    record_failure(
        FailedPart::send, shared_.basics().number, queue_.at(0).wr_id,
        "QP 0x%06x at %s does not answer: retry_cnt %u, timeout %u (%.1f ms; the floor is %.0f ms)",
        a.destination_qp, to_string(a.path.destination).c_str(), a.retry_count, a.timeout,
        static_cast<double>(iba_timeout(a.timeout)) / kMillisecond,
        static_cast<double>(kAcknowledgeTimeoutFloor) / kMillisecond);
    fail_head(completion::Status::retry_exceeded, VendorError::acknowledge_timeout, now);
}

void RcRequester::fail_head(Status status, VendorError error, Time now) {
    failed_ = true;
    if (queue_.empty()) return;
    withdraw_shown(shared_);
    RareCounters& counters = shared_.rare();
    counters.send_errors++;
    counters.retries_exceeded += status == Status::retry_exceeded;
    counters.rnr_retries_exceeded += status == Status::rnr_retry_exceeded;
    if (error != VendorError::acknowledge_timeout)  // give_up() has said more
        record_failure(FailedPart::send, shared_.basics().number, queue_.at(0).wr_id, "%s%s",
                       to_string(error), particulars(queue_.at(0), error).c_str());
    push(queue_.at(0), status, error, now);
    queue_.pop();
}

}  // namespace verbena::transport
