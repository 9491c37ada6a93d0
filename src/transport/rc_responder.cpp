// Requests: validation in the order of IBA 9.7.4.1, and execution.
#include "transport/rc_responder.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "base/reason.h"
#include "transport/copy.h"
#include "transport/mutation.h"
#include "wire/psn.h"

namespace verbena::transport {
namespace {

using completion::Status;

std::int32_t distance(std::uint32_t psn, std::uint32_t expected) {
    if (mutated(Mutation::psn_compare_wrong_at_wrap))
        return static_cast<std::int32_t>(psn) - static_cast<std::int32_t>(expected);
    return wire::psn_diff(psn, expected);
}

bool consumes_receive(const wire::OpcodeInfo& info) {
    return info.operation == wire::Operation::send || info.has_immdt;
}

}  // namespace

RcResponder::RcResponder(RcShared shared)
    : shared_(shared),
      receive_sges_(shared.setup.receive_queue ? shared.setup.receive_queue->max_sge() : 0) {}

void RcResponder::start(std::uint32_t psn) {
    expected_psn_ = psn;
    configure();
}

void RcResponder::configure() {
    if (resources_.size() == shared_.attributes.max_destination_rd_atomic) return;
    resources_.assign(shared_.attributes.max_destination_rd_atomic, Resource{});
    newest_ = active_ = 0;
}

void RcResponder::receive(const wire::Packet& packet, Time now) {
    if (mutated(Mutation::ack_before_placement) && late_address_)
        *std::exchange(late_address_, nullptr) = late_value_;
    const wire::OpcodeInfo& info = wire::info(packet.headers.bth.opcode);
    const std::int32_t ahead = distance(packet.headers.bth.psn, expected_psn_);
    if (ahead < 0) return duplicate(packet, info, now);
    if (ahead > 0 && !mutated(Mutation::gap_accepted)) {
        dropped_until_ = wire::psn_next(packet.headers.bth.psn);
        return from_behind_a_gap();
    }
    expected(packet, info, now);
}

// IBA 9.7.4.1.1: one NAK for each gap; then silence until the expected packet comes.
void RcResponder::from_behind_a_gap() {
    shared_.counters.out_of_sequence++;
    if (refusing_) return;
    refusing_ = true;
    pending_ = Pending::sequence_nak;
}

void RcResponder::expected(const wire::Packet& packet, const wire::OpcodeInfo& info, Time now) {
    if (pending_ == Pending::error_nak) return;
    if (!in_sequence(info)) return fail(VendorError::opcode_out_of_sequence, now);
    if (!right_length(packet, info)) return fail(VendorError::packet_wrong_length, now);
    switch (info.operation) {
        case wire::Operation::send:
            return send(packet, info, now);
        case wire::Operation::write:
            return write(packet, info, now);
        case wire::Operation::read_request: {
            if (auto error = read(packet); error != VendorError::none) return fail(error, now);
            break;
        }
        case wire::Operation::compare_swap:
        case wire::Operation::fetch_add: {
            if (auto error = atomic(packet); error != VendorError::none) return fail(error, now);
            break;
        }
        default:
            return fail(VendorError::opcode_unsupported, now);
    }
}

// IBA 9.7.4.1.2: what may follow what.
bool RcResponder::in_sequence(const wire::OpcodeInfo& info) const {
    if (info.first || info.only) return message_ == Message::none;
    const Message wanted = info.operation == wire::Operation::send ? Message::send : Message::write;
    return message_ == wanted;
}

// IBA 9.7.4.1.4: first and middle packets carry the path MTU, last ones 1..MTU, only ones 0..MTU.
bool RcResponder::right_length(const wire::Packet& packet, const wire::OpcodeInfo& info) const {
    const std::size_t length = packet.payload.size();
    if (!info.may_have_payload) return length == 0;
    if (info.first || info.middle) return length == shared_.mtu();
    if (info.last) return length >= 1 && length <= shared_.mtu();
    return length <= shared_.mtu();
}

void RcResponder::send(const wire::Packet& packet, const wire::OpcodeInfo& info, Time now) {
    if (info.starts_message()) {
        if (!take_receive(now)) return;
        message_offset_ = 0;
        message_ = Message::send;
    }
    const std::size_t length = packet.payload.size();
    if (message_offset_ + length > receive_length_) return fail(VendorError::receive_too_small, now);
    const std::span<const Sge> sges{receive_sges_.data(), receive_sge_count_};
    if (auto error = scatter(shared_.regions(), shared_.setup.pd, sges, message_offset_, packet.payload);
        error != memory::LookupError::none)
        return fail(offset_by(VendorError::receive_lkey_unknown, error), now);
    message_offset_ += length;
    if (!info.ends_message()) return accepted(packet, false, now);

    if (info.has_ieth &&
        shared_.setup.regions->invalidate_remote(packet.headers.invalidate_rkey, shared_.setup.pd))
        return fail(VendorError::invalidate_failed, now);
    message_ = Message::none;
    accepted(packet, true, now);
    complete_receive(packet, info, completion::Opcode::receive, static_cast<std::uint32_t>(message_offset_),
                     now);
}

void RcResponder::write(const wire::Packet& packet, const wire::OpcodeInfo& info, Time now) {
    if (info.starts_message()) {
        if (auto error = check_write_start(packet.headers.reth); error != VendorError::none)
            return fail(error, now);
        reth_ = packet.headers.reth;
        message_offset_ = 0;
        message_ = Message::write;
    }
    const std::size_t length = packet.payload.size();
    // IBA 9.7.4.1.4: the payloads must add up to the RETH's length.
    const std::uint64_t end = message_offset_ + length;
    if (end > reth_.length || info.ends_message() != (end == reth_.length))
        return fail(VendorError::write_length_mismatch, now);
    // Before the data: a packet that is refused for lack of a receive has not been executed.
    if (info.has_immdt && !take_receive(now)) {
        if (info.only) message_ = Message::none;
        return;
    }
    if (auto error = write_payload(reth_.virtual_address + message_offset_, reth_.rkey, packet.payload);
        error != VendorError::none)
        return fail(error, now);
    message_offset_ = end;
    if (!info.ends_message()) return accepted(packet, false, now);

    message_ = Message::none;
    accepted(packet, true, now);
    if (info.has_immdt)
        complete_receive(packet, info, completion::Opcode::receive_rdma_with_immediate, reth_.length, now);
}

// IBA 9.7.4.1.3 and .5: for the whole message, so that a bad one changes nothing. Length 0 needs no key.
VendorError RcResponder::check_write_start(const wire::Reth& reth) {
    if (!(shared_.attributes.access & memory::kRemoteWrite)) return VendorError::qp_no_remote_write;
    if (reth.length > kMaxMessage) return VendorError::message_too_long;
    if (reth.length == 0) return VendorError::none;
    const auto found = shared_.regions().remote(reth.rkey, shared_.setup.pd, reth.virtual_address,
                                                reth.length, memory::kRemoteWrite);
    return found ? VendorError::none : refused(found.error, reth);
}

VendorError RcResponder::write_payload(std::uint64_t address, std::uint32_t rkey,
                                       std::span<const std::uint8_t> bytes) {
    if (bytes.empty()) return VendorError::none;
    const auto found =
        shared_.regions().remote(rkey, shared_.setup.pd, address, bytes.size(), memory::kRemoteWrite);
    if (!found) return refused(found.error, {address, rkey, static_cast<std::uint32_t>(bytes.size())});
    if (mutated(Mutation::ack_before_placement)) {
        place(found.address, bytes.data(), bytes.size() - 1);
        late_address_ = found.address + bytes.size() - 1;
        late_value_ = bytes.back();
        return VendorError::none;
    }
    place(found.address, bytes.data(), bytes.size());
    return VendorError::none;
}

VendorError RcResponder::read(const wire::Packet& packet) {
    const wire::Reth& reth = packet.headers.reth;
    if (!(shared_.attributes.access & memory::kRemoteRead)) return VendorError::qp_no_remote_read;
    if (reth.length > kMaxMessage) return VendorError::message_too_long;
    if (reth.length != 0) {
        const auto found = shared_.regions().remote(reth.rkey, shared_.setup.pd, reth.virtual_address,
                                                    reth.length, memory::kRemoteRead);
        if (!found) return refused(found.error, reth);
    }
    const std::uint32_t packets = packets_of(reth.length, shared_.mtu());
    Resource* resource = new_resource(packet.headers.bth, packets);
    if (resource == nullptr) return VendorError::too_many_reads;
    resource->virtual_address = reth.virtual_address;
    resource->rkey = reth.rkey;
    resource->length = reth.length;
    resource->atomic = false;
    activate(*resource, 0, packets);
    return VendorError::none;
}

VendorError RcResponder::atomic(const wire::Packet& packet) {
    const wire::AtomicEth& eth = packet.headers.atomic_eth;
    if (!(shared_.attributes.access & memory::kRemoteAtomic)) return VendorError::qp_no_remote_atomic;
    const auto found =
        shared_.regions().remote(eth.rkey, shared_.setup.pd, eth.virtual_address, 8, memory::kRemoteAtomic);
    if (!found) return refused(found.error, {eth.virtual_address, eth.rkey, 8});
    // IBA 9.4.5: naturally aligned; with an iova of its own the region may lie otherwise.
    if (eth.virtual_address % 8 != 0 || reinterpret_cast<std::uintptr_t>(found.address) % 8 != 0)
        return VendorError::atomic_unaligned;
    Resource* resource = new_resource(packet.headers.bth, 1);
    if (resource == nullptr) return VendorError::too_many_reads;

    resource->atomic = true;
    resource->original = execute_atomic(packet.headers.bth.opcode, eth, found.address);
    activate(*resource, 0, 1);
    return VendorError::none;
}

std::uint64_t RcResponder::execute_atomic(wire::Opcode opcode, const wire::AtomicEth& eth,
                                          std::uint8_t* address) {
    std::atomic_ref<std::uint64_t> target(*reinterpret_cast<std::uint64_t*>(address));
    if (opcode == wire::Opcode::rc_fetch_add) return target.fetch_add(eth.swap_add);
    std::uint64_t original = eth.compare;
    target.compare_exchange_strong(original, eth.swap_add);
    return original;
}

// The new READ or atomic takes the oldest place; nullptr if that one's answer is still owed, for then the
// requester has more outstanding than max_dest_rd_atomic (IBA 9.7.4.1.7).
RcResponder::Resource* RcResponder::new_resource(const wire::Bth& bth, std::uint32_t packets) {
    if (resources_.empty()) return nullptr;
    Resource& resource = resources_[newest_];
    if (resource.active) {
        if (!resource.replay) return nullptr;
        active_--;  // the requester has the answer, or it could not ask for more
    }
    newest_ = newest_ + 1 == resources_.size() ? 0 : newest_ + 1;
    resource = Resource{};
    resource.first_psn = bth.psn;
    resource.packets = packets;
    expected_psn_ = wire::psn_add(expected_psn_, packets);
    msn_ = (msn_ + 1) & wire::kPsnMask;
    resource.msn = msn_;
    acknowledged_everything();  // the response implies it
    after_expected();
    return &resource;
}

void RcResponder::accepted(const wire::Packet& packet, bool ends_message, Time now) {
    expected_psn_ = wire::psn_next(expected_psn_);
    if (ends_message) msn_ = (msn_ + 1) & wire::kPsnMask;
    shared_.counters.bytes_received += packet.payload.size();
    after_expected();
    unacknowledged_++;
    if (!packet.headers.bth.ack_request) return;
    if (!ask_) acknowledge_at_ = now + kAcknowledgeDelay;
    ask_ = true;
    if (!ends_message) ask_now_ = true;
}

// The expected packet came: an unsent NAK for it is moot, unless what we dropped meanwhile is still missing.
void RcResponder::after_expected() {
    missing_since_ = look_again_at_ = kNever;
    if (pending_ == Pending::rnr_nak) pending_ = Pending::none;
    if (pending_ == Pending::sequence_nak) {
        if (wire::psn_less(expected_psn_, dropped_until_)) return;
        pending_ = Pending::none;
    }
    refusing_ = false;
}

void RcResponder::duplicate(const wire::Packet& packet, const wire::OpcodeInfo& info, Time now) {
    shared_.counters.duplicates++;
    if (info.operation == wire::Operation::send || info.operation == wire::Operation::write) {
        if (mutated(Mutation::duplicate_write_executed) && info.has_reth)
            write_payload(packet.headers.reth.virtual_address, packet.headers.reth.rkey, packet.payload);
        if (mutated(Mutation::duplicate_send_delivered) && info.only && consumes_receive(info) &&
            take_receive(now))
            complete_receive(packet, info, completion::Opcode::receive,
                             static_cast<std::uint32_t>(packet.payload.size()), now);
        // IBA 9.7.5.1.5: acknowledged again, at once, up to the newest.
        ask_ = ask_now_ = true;
        acknowledge_at_ = now;
        return;
    }
    Resource* resource = find_resource(packet.headers.bth.psn);
    if (resource == nullptr) return;  // too old; IBA 9.4.4: dropped
    if (info.operation == wire::Operation::read_request) return duplicate_read(packet, *resource);
    if (!resource->atomic || !info.has_atomic_eth) return;
    if (mutated(Mutation::duplicate_atomic_reexecuted)) {
        const wire::AtomicEth& eth = packet.headers.atomic_eth;
        const auto found = shared_.regions().remote(eth.rkey, shared_.setup.pd, eth.virtual_address, 8,
                                                    memory::kRemoteAtomic);
        if (found) resource->original = execute_atomic(packet.headers.bth.opcode, eth, found.address);
    }
    if (!resource->active) resource->replay = true;
    activate(*resource, 0, 1);
}

// IBA 9.4.4: a repeated READ asks for the same bytes or a part of them.
void RcResponder::duplicate_read(const wire::Packet& packet, Resource& resource) {
    const wire::Reth& reth = packet.headers.reth;
    const std::uint32_t begin = (packet.headers.bth.psn - resource.first_psn) & wire::kPsnMask;
    const std::uint64_t offset = std::uint64_t{begin} * shared_.mtu();
    if (resource.atomic || reth.rkey != resource.rkey ||
        reth.virtual_address != resource.virtual_address + offset || reth.length > resource.length - offset)
        return;
    if (!resource.active) resource.replay = true;
    activate(resource, begin, begin + packets_of(reth.length, shared_.mtu()));
}

RcResponder::Resource* RcResponder::find_resource(std::uint32_t psn) {
    // Newest first: an old one may have had the same PSNs, 2^24 packets ago.
    for (std::size_t i = 0, at = newest_; i < resources_.size(); i++) {
        at = at == 0 ? resources_.size() - 1 : at - 1;
        if (((psn - resources_[at].first_psn) & wire::kPsnMask) < resources_[at].packets)
            return &resources_[at];
    }
    return nullptr;
}

// False: there is none, and the packet is to be dropped.
bool RcResponder::take_receive(Time now) {
    if (receive_taken_) return true;
    ReceiveQueue* queue = shared_.setup.receive_queue.get();
    if (queue == nullptr || !queue->take(receive_wr_id_, receive_sges_, receive_sge_count_)) {
        receive_is_missing(now);
        return false;
    }
    receive_taken_ = true;
    receive_length_ = total_length({receive_sges_.data(), receive_sge_count_});
    return true;
}

void RcResponder::complete_receive(const wire::Packet& packet, const wire::OpcodeInfo& info,
                                   completion::Opcode opcode, std::uint32_t length, Time now) {
    completion::Completion c;
    c.wr_id = receive_wr_id_;
    c.opcode = opcode;
    c.byte_length = length;
    c.qp_number = shared_.setup.number;
    c.source_qp = shared_.attributes.destination_qp;
    c.timestamp = static_cast<std::uint64_t>(now);
    if (info.has_immdt) {
        c.flags = completion::kHasImmediate;
        c.immediate = packet.headers.immediate;
    } else if (info.has_ieth) {
        c.flags = completion::kHasInvalidatedKey;
        c.immediate = packet.headers.invalidate_rkey;
    }
    receive_taken_ = false;
    shared_.setup.receive_cq->push(c, packet.headers.bth.solicited);
}

void RcResponder::abort_receive(Status status, VendorError error, Time now) {
    receive_taken_ = false;
    completion::Completion c;
    c.wr_id = receive_wr_id_;
    c.status = status;
    c.opcode = completion::Opcode::receive;
    c.vendor_error = static_cast<std::uint32_t>(error);
    c.qp_number = shared_.setup.number;
    c.timestamp = static_cast<std::uint64_t>(now);
    shared_.setup.receive_cq->push(c, false);
}

void RcResponder::close(bool keep_answers, Time now) {
    if (receive_taken_) abort_receive(Status::work_request_flushed, VendorError::flushed, now);
    message_ = Message::none;
    failed_ = false;
    missing_since_ = look_again_at_ = kNever;
    if (keep_answers) return;
    if (active_ > 0) acknowledged_everything();
    pending_ = Pending::none;
    for (Resource& resource : resources_) resource.active = false;
    active_ = 0;
}

}  // namespace verbena::transport
