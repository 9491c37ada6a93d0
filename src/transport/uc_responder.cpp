// Requests of UC (IBA 9.8.2). Nothing is answered: a packet that is not the expected one ends the message in
// progress, and what follows is dropped until a message begins, whose first packet's PSN becomes the expected
// one. A receive request that the lost message had taken serves the next.
//
// Checks (IBA 9.9.3, UC's columns). What is wrong with the requester's packet (length, key, opcode, no
// receive) drops its message silently; what is wrong with our own receive request completes it in error, and
// the queue pair goes to the error state.
#include "transport/mutation.h"
#include "transport/rc_responder.h"
#include "wire/psn.h"

namespace verbena::transport {

void RcResponder::receive_unreliable(const wire::Packet& packet, const wire::OpcodeInfo& info, Time now) {
    if (packet.elsewhere) return skip_message();  // nobody sends that
    const std::uint32_t psn = packet.headers.bth.psn;
    if (psn != expected_psn_) {
        shared_.rare().out_of_sequence++;
        if (!mutated(Mutation::uc_gap_continued)) message_ = Message::none;
    }
    expected_psn_ = wire::psn_next(psn);
    if (info.starts_message()) message_ = Message::none;  // the one before has lost its end
    if (!in_sequence(info) || !right_length(packet, info)) return skip_message();
    if (info.operation == wire::Operation::send) return send_unreliable(packet, info, now);
    if (info.operation == wire::Operation::write) return write_unreliable(packet, info, now);
    skip_message();
}

void RcResponder::send_unreliable(const wire::Packet& packet, const wire::OpcodeInfo& info, Time now) {
    if (info.starts_message()) {
        if (!take_receive()) return skip_message();
        begin_send();
    }
    if (const VendorError error = *place_send(packet); error != VendorError::none) {
        if (error == VendorError::receive_too_small) return skip_message();
        return fail_unreliable(error, now);
    }
    shared_.counters().bytes_received += packet.payload.size();
    if (!info.ends_message()) return;
    message_ = Message::none;
    complete_receive(packet, info, completion::Opcode::receive, static_cast<std::uint32_t>(rest_->offset),
                     now);
}

void RcResponder::write_unreliable(const wire::Packet& packet, const wire::OpcodeInfo& info, Time now) {
    if (begin_write(packet, info) != VendorError::none) return skip_message();
    if (info.has_immdt && !take_receive()) return skip_message();
    if (place_write(packet) != VendorError::none) return skip_message();
    shared_.counters().bytes_received += packet.payload.size();
    if (!info.ends_message()) return;
    message_ = Message::none;
    shared_.count_completed(Counted::remote_write, true, rest_->reth.length);
    if (info.has_immdt)
        complete_receive(packet, info, completion::Opcode::receive_rdma_with_immediate, rest_->reth.length,
                         now);
}

void RcResponder::skip_message() {
    shared_.rare().dropped++;
    if (mutated(Mutation::uc_receive_leaked)) receive_taken_ = false;
    message_ = Message::none;
}

void RcResponder::fail_unreliable(VendorError cause, Time now) {
    record_receive_failure(cause);
    failed_ = true;
    abort_receive(completion::Status::local_protection_error, cause, now);
}

}  // namespace verbena::transport
