// Runs (wire/run.h): the middle of a long message, many packets at a time. What is not as expected is left to
// the calls that take one packet, which find out what is wrong with which.
#include <algorithm>

#include "transport/copy.h"
#include "transport/rc_queue_pair.h"
#include "wire/run.h"

namespace verbena::transport {

bool RcQueuePair::receive_run(const wire::ReceivedRun& run, const wire::Path& sender_view, Time now) {
    const bool response = run.bth.opcode == wire::Opcode::rc_read_response_middle;
    if (!(requester_runs() || (state_ == QpState::rtr && !response)) || basics_.service != Service::rc ||
        run.size != connection_.path_mtu || run.bth.pkey != kDefaultPkey || !is_peer(sender_view))
        return false;
    if (response ? !requester_.receive_run(run, now) : !responder_.receive_run(run, now)) return false;
    last_now_ = now;
    counters_.packets_received += run.packets;
    after(now);
    return true;
}

bool RcResponder::receive_run(const wire::ReceivedRun& run, Time now) {
    place_late();
    if (run.bth.psn != expected_psn_ || pending_ != Pending::none || refusing_ || !place_run(run))
        return false;
    unacknowledged_ += run.packets - 1;
    accepted(run.packets, run.length(), run.bth.ack_request, false, now);
    return true;
}

bool MessageReceiver::place_run(const wire::ReceivedRun& run) {
    const bool write = run.bth.opcode == wire::Opcode::rc_write_middle;
    if (message_ != (write ? Message::write : Message::send)) return false;
    if (write && !(shared_.connection().access & memory::kRemoteWrite)) return false;
    const std::uint64_t end = rest_->offset + run.length();
    if (write ? end >= rest_->reth.length : end > rest_->length) return false;
    std::uint64_t offset = rest_->offset;
    for (std::uint32_t index = 0; index < run.packets; index++, offset += run.size)
        if (write ? write_payload(rest_->reth.virtual_address + offset, rest_->reth.rkey, run.at(index)) !=
                        VendorError::none
                  : scatter_to_receive(offset, run.at(index)) != memory::LookupError::none)
            return false;
    rest_->offset = end;
    return true;
}

// The responses that are waited for, and not the last.
bool RcRequester::receive_run(const wire::ReceivedRun& run, Time now) {
    if (run.bth.psn != una_ || failed_ || queue_.empty() || !outstanding() || !rest_->ahead.empty())
        return false;
    SendEntry& head = queue_.at(0);
    const std::uint32_t index = una_offset();
    if (!head.started || !head.is_read() || step(head, index) <= run.packets) return false;
    std::uint64_t offset = std::uint64_t{index} * shared_.mtu();
    for (std::uint32_t i = 0; i < run.packets; i++, offset += run.size)
        if (scatter(shared_.regions(), shared_.basics().pd, queue_.sges(head), offset, run.at(i)) !=
            memory::LookupError::none)
            return false;
    shared_.counters().bytes_received += run.length();
    for (std::uint32_t i = 0; i < run.packets; i++) advance_una(head, 1, now);
    finish_progress(now);
    return true;
}

// The middle packets of a READ response that can leave as one, at most so many; returns how many. 0 if there
// are none, or if the memory is not there any more, which send_response() then tells apart.
unsigned RcResponder::send_run(wire::PacketSink& sink, Resource& resource, unsigned most) {
    const std::uint32_t packet = resource.next;
    if (resource.atomic || resource.replay || packet == resource.begin || resource.end - packet < 3) return 0;
    const Connection& a = shared_.connection();
    const std::uint32_t packets =
        std::min({resource.end - packet - 1, sink.longest_run(a.path, a.destination_qp), most});
    if (packets < 2) return 0;
    const std::uint64_t from = resource.virtual_address + std::uint64_t{packet} * shared_.mtu();
    const std::uint32_t length = packets * shared_.mtu();
    const auto found = shared_.regions().remote(resource.rkey, resource.pd, from, length, memory::kRemoteRead,
                                                shared_.basics().number);
    if (!found) return 0;
    wire::Headers headers;
    address(headers.bth, shared_, wire::Opcode::rc_read_response_middle,
            wire::psn_add(resource.first_psn, packet));
    const iovec piece{found.address, length};
    send_packet(sink, shared_, headers, {&piece, 1}, length, false, {packets});
    resource.next += packets;
    return packets;
}

}  // namespace verbena::transport
