// Answers: READ responses and atomic results in PSN order, then the acknowledgement or NAK.
#include <algorithm>

#include "base/failures.h"
#include "transport/mutation.h"
#include "transport/particulars.h"
#include "transport/rc_responder.h"
#include "wire/psn.h"

namespace verbena::transport {

// READ data leaves straight from memory, one iovec a packet, which on a link that can is a large one; the key
// is checked again for each, since the region may be gone by now.
void RcResponder::activate(Resource& resource, std::uint32_t begin, std::uint32_t end) {
    if (!resource.active) active_++;
    resource.active = true;
    resource.begin = resource.next = begin;
    resource.end = end;
}

RcResponder::Resource* RcResponder::oldest_active() {
    // From rest().newest on: that place holds the oldest.
    for (std::size_t i = 0, at = rest().newest; i < rest().resources.size();
         i++, at = at + 1 == rest().resources.size() ? 0 : at + 1)
        if (rest().resources[at].active) return &rest().resources[at];
    return nullptr;
}

unsigned RcResponder::transmit(wire::PacketSink& sink, Time now, unsigned budget, bool push) {
    unsigned sent = 0;
    while (active_ > 0) {
        if (sent == budget) return sent;
        Resource& oldest = *oldest_active();
        if (const unsigned run = send_run(sink, oldest, budget - sent))
            sent += run;
        else if (send_response(sink, oldest, now))
            sent++;
    }
    if (sent == budget) return sent;
    switch (pending_) {
        case Pending::sequence_nak:
            pending_ = Pending::none;
            send_acknowledgement(sink, wire::nak(wire::NakCode::psn_sequence_error), expected_psn_);
            return sent + 1;
        case Pending::error_nak:
            pending_ = Pending::none;
            send_acknowledgement(sink, wire::nak(rest().error_code), expected_psn_);
            return sent + 1;
        case Pending::rnr_nak:
            if (now < look_again_at_ || !refuse_for_lack_of_receive(sink, now)) break;
            return sent + 1;
        case Pending::none:
            break;
    }
    if (!acknowledgement_due(now, push)) return sent;
    // IBA 9.7.5.1.2: names the newest executed packet.
    send_acknowledgement(sink, wire::ack_syndrome(), wire::psn_add(expected_psn_, wire::kPsnMask));
    return sent + 1;
}

void RcResponder::takes_back(wire::Aside& riding) {
    riding.acknowledges = false;
    ask_ = ask_now_ = true;
}

// One packet, perhaps a large one, of a READ response or an atomic's result. False if the memory is not there
// any more: a NAK then takes the place of the packet.
bool RcResponder::send_response(wire::PacketSink& sink, Resource& resource, Time now) {
    const std::uint32_t packet = resource.next;
    const std::uint32_t psn = wire::psn_add(resource.first_psn, packet);
    wire::Headers headers;
    headers.aeth = {wire::ack_syndrome(), resource.msn};
    iovec piece{};
    std::uint32_t count = 1;  // packets that it stands for
    if (resource.atomic) {
        address(headers.bth, shared_, wire::Opcode::rc_atomic_ack, psn);
        headers.atomic_ack = resource.original;
    } else {
        const std::uint64_t offset = std::uint64_t{packet} * shared_.mtu();
        const std::uint64_t from = resource.virtual_address + offset;
        const auto look_up = [&] {
            piece.iov_len = std::min<std::uint64_t>(count * shared_.mtu(), resource.length - offset);
            return shared_.regions().remote(resource.rkey, resource.pd, from, piece.iov_len,
                                            memory::kRemoteRead, shared_.basics().number);
        };
        if (resource.placed && packet == resource.begin && packets_at_once(sink, shared_, false) > 0) {
            count = resource.end - packet;
            shared_.counters().bytes_sent += resource.length;  // as if it had come along
            shared_.counters().wire_bytes_sent += resource.length;
        } else if (resource.length > offset) {
            count =
                std::clamp<std::uint32_t>(packets_at_once(sink, shared_, false), 1, resource.end - packet);
            auto found = look_up();
            if (!found && count > 1) {  // all of it is not there, but perhaps the next packet
                count = 1;
                found = look_up();
            }
            if (!found && resource.replay) return replay_failed(sink, resource, psn), true;
            if (!found)
                return response_failed(psn,
                                       refused(found.error, {from, resource.rkey,
                                                             static_cast<std::uint32_t>(piece.iov_len)}),
                                       now),
                       false;
            piece.iov_base = found.address;
        }
        using enum wire::Opcode;
        const bool first = packet == resource.begin;
        address(headers.bth, shared_,
                packet + count == resource.end ? (first ? rc_read_response_only : rc_read_response_last)
                                               : (first ? rc_read_response_first : rc_read_response_middle),
                psn);
    }
    send_packet(sink, shared_, headers, {&piece, piece.iov_len > 0 ? std::size_t{1} : 0},
                static_cast<std::uint32_t>(piece.iov_len), resource.replay, {count});
    resource.next += count;
    if (resource.next == resource.end) {
        resource.active = false;
        active_--;
        if (resource.is_read && !resource.replay)
            shared_.count_completed(Counted::remote_read, true, resource.length);
    }
    return true;
}

// The NAK names the packet that could not be sent; nothing behind it is executed.
void RcResponder::response_failed(std::uint32_t psn, VendorError error, Time now) {
    for (Resource& resource : rest().resources) resource.active = false;
    active_ = 0;
    expected_psn_ = psn;
    fail(error, now);
}

// The requester most likely has the data, and then does not listen to the NAK; so nothing else changes, and
// what is owed for later packets stays so.
void RcResponder::replay_failed(wire::PacketSink& sink, Resource& resource, std::uint32_t psn) {
    resource.active = false;
    active_--;
    wire::Headers headers;
    address(headers.bth, shared_, wire::Opcode::rc_ack, psn);
    headers.aeth = {wire::nak(wire::NakCode::remote_access), resource.msn};
    send_packet(sink, shared_, headers, {}, 0);
    shared_.rare().naks_sent++;
}

void RcResponder::send_acknowledgement(wire::PacketSink& sink, std::uint8_t syndrome, std::uint32_t psn) {
    wire::Headers headers;
    address(headers.bth, shared_, wire::Opcode::rc_ack, psn);
    headers.aeth = {syndrome, msn_};
    send_packet(sink, shared_, headers, {}, 0);
    switch (wire::classify(syndrome)) {
        case wire::AethKind::rnr_nak:
            shared_.rare().rnr_naks_sent++;
            break;
        case wire::AethKind::nak:
            shared_.rare().naks_sent++;
            break;
        default:
            break;
    }
    acknowledged_everything();
}

// The first time for this packet: starts the wait. Packets behind it are dropped silently as after any NAK.
void RcResponder::receive_is_missing(const wire::Packet& packet, Time now) {
    if (pending_ == Pending::rnr_nak) return;
    if (packet.payload_length() <= kLargestKept && !keep(packet)) return went_astray(packet);
    refusing_ = true;
    rest().newest_seen = expected_psn_;
    pending_ = Pending::rnr_nak;
    missing_since_ = now;
    look_again_at_ = now + kReceiverPatienceStep;
}

// False: its payload is not to be had.
bool RcResponder::keep(const wire::Packet& packet) {
    const bool fetched = packet.elsewhere != nullptr;
    std::vector<std::uint8_t> payload(packet.payload.begin(), packet.payload.end());
    if (fetched) {
        payload.resize(packet.elsewhere->length());
        const iovec all{payload.data(), payload.size()};
        if (!packet.elsewhere->fetch(shared_.connection().destination_qp, {&all, 1})) return false;
    }
    rest().kept =
        std::make_unique<Kept>(Kept{{packet.headers, std::move(payload), packet.aside.psns}, fetched});
    return true;
}

bool RcResponder::execute_kept(Time now) {
    if (!rest().kept) return false;
    const std::unique_ptr<Kept> kept = std::move(rest().kept);
    refusing_ = false;
    ask_now_ |= kept->fetched;
    expected(kept->view(), wire::info(kept->headers.bth.opcode), now);
    close_gap(now);
    return true;
}

// IBA 9.7.5.2.8. True if the NAK left; false if a receive may still come in time.
bool RcResponder::refuse_for_lack_of_receive(wire::PacketSink& sink, Time now) {
    constexpr std::uint8_t kShortest = 1;  // 10 us
    const bool there = rest_->source != nullptr && rest_->source->waiting() > 0;
    const Duration waited = now - missing_since_;
    if (!there && waited < kReceiverPatience) {
        look_again_at_ = now + std::max(kReceiverPatienceStep, waited / 2);
        return false;
    }
    pending_ = Pending::none;
    look_again_at_ = kNever;
    if (there && execute_kept(now)) return false;
    rest().kept.reset();
    send_acknowledgement(sink, wire::rnr_nak(there ? kShortest : shared_.attributes().min_rnr_timer),
                         expected_psn_);
    return true;
}

void RcResponder::fail(VendorError cause, Time now) {
    const ResponderFault fault = responder_fault(cause);
    if (cause >= VendorError::rkey_unknown && cause <= VendorError::remote_no_access)
        record_failure(FailedPart::peer_request, shared_.basics().number, 0, "%s%s", to_string(cause),
                       refused_range(shared_.regions(), rest_->refused.rkey, rest_->refused.virtual_address,
                                     rest_->refused.length)
                           .c_str());
    else if (fault.receive_status != completion::Status::work_request_flushed && receive_taken_)
        record_receive_failure(cause);
    else
        record_failure(FailedPart::peer_request, shared_.basics().number, 0, "%s", to_string(cause));
    failed_ = true;
    refusing_ = true;
    pending_ = Pending::error_nak;
    rest().error_code = fault.nak;
    if (receive_taken_)
        abort_receive(
            fault.receive_status,
            fault.receive_status == completion::Status::work_request_flushed ? VendorError::flushed : cause,
            now);
    else
        shared_.event(fault.event == Event::access_error ? QpEvent::access_error : QpEvent::request_error);
}

}  // namespace verbena::transport
