// Gaps in the sequence of packets: what becomes of those behind one (packets_ahead.h), and how the one that
// is missing comes. The responder names it by a NAK, the requester repeats it by itself (probe.h), or goes
// back and repeats all that has left since, where the answer says that the peer has kept nothing.
#include <algorithm>
#include <optional>
#include <utility>

#include "transport/rc_requester.h"
#include "transport/rc_responder.h"

namespace verbena::transport {

// IBA 9.7.4.1.1: one NAK for a gap, then silence until the expected packet comes. But when the requester has
// come back, and passes it by again, that one has been lost once more.
void RcResponder::came_ahead(const wire::Packet& packet) {
    const std::uint32_t psn = packet.headers.bth.psn, before = rest().newest_seen;
    const bool passed_by = wire::psn_less(before, expected_psn_) || wire::psn_less_equal(psn, before);
    if (pending_ == Pending::none && passed_by) refusing_ = false;
    from_behind_a_gap(psn);
    const bool by_itself = !packet.elsewhere && packet.aside.psns == 1;
    if (by_itself && !rest().kept && rest().ahead.keep(packet, expected_psn_)) return;
    rest().dropped_until = wire::psn_next(psn);
    rest().kept.reset();  // its sender has to come back in any case
}

void RcResponder::from_behind_a_gap(std::uint32_t psn) {
    shared_.rare().out_of_sequence++;
    tell_of_gap(psn);
}

// Unless that has been done.
void RcResponder::tell_of_gap(std::uint32_t seen) {
    rest().newest_seen = seen;
    if (refusing_) return;
    refusing_ = true;
    pending_ = Pending::sequence_nak;
}

// Its payload could not be fetched: as if it had been lost on its way. What is sent again does not lie
// elsewhere.
void RcResponder::went_astray(const wire::Packet& packet) {
    rest().dropped_until = wire::psn_add(expected_psn_, packet.aside.psns);
    from_behind_a_gap(expected_psn_);
}

// The expected packet has come: and those behind it that have been kept, as if just now. If there are more
// behind another gap, its NAK tells of both.
void RcResponder::close_gap(Time now) {
    while (!refusing_) {
        const std::optional<KeptPacket> next = rest().ahead.take(expected_psn_);
        if (!next) break;
        expected(next->view(), wire::info(next->headers.bth.opcode), now);
        if (refusing_) break;
        owe(now);
        ask_now_ = true;  // these need not be repeated
    }
    if (!refusing_ && !rest().ahead.empty()) tell_of_gap(expected_psn_);
}

// What the same packet acknowledged counts first, since una_ is then another one. Obeyed once for each una_:
// the packets behind the gap that are still on their way cause no second retreat. A NAK, which has `named`
// it, is given again when what was repeated has been lost as well; but not for ever, since some packets never
// arrive.
void RcRequester::sequence_error(bool named, Time now) {
    constexpr unsigned kMost = 4;
    finish_progress(now);
    if (resume_at_ != kNever) return;
    if (!std::exchange(went_back_, true))
        rest_->times_back = 0;
    else if (!named || rest_->times_back >= kMost ||
             now - rest_->went_back_at <= retransmission_.smoothed_round_trip() / 2)
        return;
    rest_->times_back++;
    rest_->went_back_at = now;
    probe_.gap();
    const bool all_left = next_psn_ == max_psn_;
    if (!named || !all_left || !probe_.may_repair()) return lost();
    less_room();
    probe_.repair();
    probe_due_ = true;
}

// The oldest unacknowledged packet once more, wherever the cursor is.
bool RcRequester::send_probe(wire::PacketSink& sink, Time now) {
    probe_due_ = false;
    if (!outstanding() || next_psn_ == una_) return false;  // the cursor is there itself
    SendEntry& entry = queue_.at(0);
    const std::uint32_t packet = una_offset();
    // No more than has left, or what acknowledges it would mean nothing to us; and nothing that would be
    // fetched once more.
    std::uint32_t count = entry.halved && !entry.is_read() ? 1 : at_once(sink, entry, packet, 1).psns;
    count = std::min(count, (next_psn_ - una_) & wire::kPsnMask);
    wire::Aside nothing;
    if (!emit(sink, entry, packet, count, true, now, nothing)) return false;
    count_against_rate(wire_size(entry, packet, count), now);
    const bool repairs = probe_.repairs();
    const bool unanswered = probe_.sent(una_, wire::psn_add(una_, count), next_psn_, entry.awaits_response());
    // What is in flight has arrived by now or never will; others who send there need the room.
    if (unanswered && flow_.lend()) probe_.hold_back();
    // A round trip is measured on a packet that was sent once; of a READ's data it may yet be seen which of
    // the two it answers.
    if (!entry.awaits_response() || wire::psn_less(sample_psn_, una_)) sampling_ = false;
    if (!repairs) shared_.rare().probes++;
    shared_.rare().retransmitted++;
    return true;
}

void RcRequester::cursor_to_una() {
    doubt_halves();
    next_psn_ = una_;
    current_ = 0;
    const bool started = !queue_.empty() && queue_.at(0).started && !queue_.at(0).is_local();
    current_packet_ = started ? una_offset() : 0;
    if (current_packet_ > 0)  // the peer may have declined the rest
        queue_.at(0).fetched = queue_.at(0).halved = false;
}

void RcRequester::go_back() {
    cursor_to_una();
    flow_.withdraw();
    outstanding_reads_ = since_ack_request_ = 0;
    sampling_ = probe_due_ = false;
    rest_->held_at = kNotHeld;
    probe_.forget();
    end_pace();
}

void RcRequester::less_room() {
    if (!paced_) retransmission_.lost();  // a rate limit makes pauses of its own
    if (std::exchange(recovering_, true)) return;
    rest_->recovery_end = max_psn_;
    flow_.lost();
}

void RcRequester::lost() {
    less_room();
    go_back();
}

// Responses to READs that came although some in front of them were missing, as far as these have come by now.
void RcRequester::responses_ahead(Time now) {
    while (!failed_ && !rest_->ahead.empty()) {
        const std::optional<KeptPacket> next = rest_->ahead.take(una_);
        if (!next) return;
        read_response(next->view(), now);
    }
}

}  // namespace verbena::transport
