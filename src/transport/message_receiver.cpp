#include "transport/message_receiver.h"

#include <utility>

#include "base/failures.h"
#include "transport/copy.h"
#include "transport/mutation.h"
#include "transport/particulars.h"
#include "transport/shown_receives.h"

namespace verbena::transport {

using completion::Status;

MessageReceiver::MessageReceiver(RcShared shared, std::unique_ptr<Rest> rest) noexcept
    : shared_(shared),
      pd_(shared.basics().pd),
      own_receives_(shared.setup().own_receives()),
      rest_(std::move(rest)) {}

MessageReceiver::~MessageReceiver() {
    if (receive_taken_ && rest_->source->shared()) rest_->source->give_back(receive_wr_id_, taken_sges());
}

// IBA 9.7.4.1.2: what may follow what.
bool MessageReceiver::in_sequence(const wire::OpcodeInfo& info) const {
    if (info.first || info.only) return message_ == Message::none;
    const Message wanted = info.operation == wire::Operation::send ? Message::send : Message::write;
    return message_ == wanted;
}

// IBA 9.7.4.1.4: first and middle packets carry the path MTU, last ones 1..MTU, only ones 0..MTU.
bool MessageReceiver::right_length(const wire::Packet& packet, const wire::OpcodeInfo& info) const {
    if (!info.may_have_payload) return packet.payload.empty();
    const std::size_t length = packet.payload_length();
    // One that stands for several has what they would have had.
    const std::size_t before = std::size_t{packet.aside.psns - 1} * shared_.mtu();
    if (info.first || info.middle) return length == before + shared_.mtu();
    if (info.last || before > 0) return length >= before + 1 && length <= before + shared_.mtu();
    return length <= shared_.mtu();
}

VendorError MessageReceiver::choose_queue(const wire::Packet& packet) {
    auto queue = shared_.setup().xrc_queues->find(packet.headers.xrceth.srqn);
    if (!queue || queue->xrc_domain() == 0) return VendorError::xrc_queue_unknown;
    if (queue->xrc_domain() != shared_.setup().xrc_domain && !mutated(Mutation::xrc_domain_ignored))
        return VendorError::xrc_queue_other_domain;
    pd_ = queue->pd();
    if (rest_->sges.size() < queue->max_sge()) rest_->sges.resize(queue->max_sge());
    rest_->source = std::move(queue);
    return VendorError::none;
}

bool MessageReceiver::take_receive() {
    if (receive_taken_) return true;
    if (rest_->source == nullptr ||
        !rest_->source->take(receive_wr_id_, rest_->sges, rest_->sge_count,
                             rest_->source->shared() && shared_.reliable() ? shared_.basics().number : 0))
        [[unlikely]]
        return false;
    receive_taken_ = true;
    rest_->length = total_length(taken_sges());
    return true;
}

void MessageReceiver::begin_send() {
    rest_->offset = 0;
    message_ = Message::send;
}

std::optional<VendorError> MessageReceiver::place_send(const wire::Packet& packet) {
    const std::size_t length = packet.payload_length();
    if (rest_->offset + length > rest_->length) return VendorError::receive_too_small;
    const std::span<const Sge> sges = taken_sges();
    const memory::PdNumber pd = pd_of_receive();
    memory::LookupError error;
    if (packet.elsewhere) {
        unsigned count = 0;
        rest_->places.resize(rest_->sge_count);
        error = gather(shared_.regions(), pd, sges, rest_->offset, static_cast<std::uint32_t>(length),
                       rest_->places.data(), count, memory::kLocalWrite);
        if (error == memory::LookupError::out_of_bounds) {
            packet.elsewhere->decline();  // a null region has less room; if it is not that, we see it again
            return std::nullopt;
        }
        if (error == memory::LookupError::none && !is_placed(*packet.elsewhere) &&
            !packet.elsewhere->fetch(shared_.connection().destination_qp, {rest_->places.data(), count}))
            return std::nullopt;
    } else {
        error = scatter_to_receive(rest_->offset, packet.payload);
    }
    if (error != memory::LookupError::none) return offset_by(VendorError::receive_lkey_unknown, error);
    rest_->offset += length;
    return VendorError::none;
}

// The receive in progress is the one that the sender has written into.
bool MessageReceiver::is_placed(const wire::Elsewhere& payload) const {
    return own_receives_ && shared_.setup().shown && shared_.setup().shown->is_shown() &&
           payload.placed() == ShownReceives::name_of(own_receives_->taken() - 1) && payload.placed() != 0;
}

// A large message has come, and others may follow it; expected_psn: of the next one.
void MessageReceiver::show_receives(std::uint32_t expected_psn) {
    if (own_receives_ && shared_.setup().shown && rest_->offset >= ShownReceives::kFrom)
        shared_.setup().shown->show(*own_receives_, expected_psn, shared_.counters().messages_received);
}

memory::LookupError MessageReceiver::scatter_to_receive(std::uint64_t offset,
                                                        std::span<const std::uint8_t> bytes) {
    return scatter(shared_.regions(), pd_of_receive(), taken_sges(), offset, bytes);
}

// The checks that come before a receive request is taken.
VendorError MessageReceiver::begin_write(const wire::Packet& packet, const wire::OpcodeInfo& info) {
    // For each packet: the program may take the right away in the middle.
    if (!(shared_.connection().access & memory::kRemoteWrite)) return VendorError::qp_no_remote_write;
    if (info.starts_message()) {
        if (auto error = check_write_start(packet.headers.reth); error != VendorError::none) return error;
        rest_->reth = packet.headers.reth;
        rest_->offset = 0;
        message_ = Message::write;
    }
    // IBA 9.7.4.1.4: the payloads must add up to the RETH's length.
    const std::uint64_t end = rest_->offset + packet.payload_length();
    if (end > rest_->reth.length || info.ends_message() != (end == rest_->reth.length))
        return VendorError::write_length_mismatch;
    return VendorError::none;
}

std::optional<VendorError> MessageReceiver::place_write(const wire::Packet& packet) {
    const std::uint64_t address = rest_->reth.virtual_address + rest_->offset;
    if (packet.elsewhere) {
        VendorError error;
        const std::size_t length = packet.payload_length();
        const iovec place{write_target(address, rest_->reth.rkey, length, error), length};
        if (error != VendorError::none) return error;
        if (packet.elsewhere->placed() == 0 &&
            !packet.elsewhere->fetch(shared_.connection().destination_qp, {&place, 1}))
            return std::nullopt;
    } else if (auto error = write_payload(address, rest_->reth.rkey, packet.payload);
               error != VendorError::none) {
        return error;
    }
    rest_->offset += packet.payload_length();
    return VendorError::none;
}

// IBA 9.7.4.1.3 and .5: for the whole message, so that a bad one changes nothing. Length 0 needs no key.
VendorError MessageReceiver::check_write_start(const wire::Reth& reth) {
    if (reth.length > kMaxMessage) return VendorError::message_too_long;
    if (reth.length == 0) return VendorError::none;
    const auto found = look_up(reth.rkey, reth.virtual_address, reth.length, memory::kRemoteWrite);
    return found ? VendorError::none : refused(found.error, reth);
}

// Where that goes; or nullptr with what speaks against it.
std::uint8_t* MessageReceiver::write_target(std::uint64_t address, std::uint32_t rkey, std::size_t length,
                                            VendorError& error) {
    const auto found = look_up(rkey, address, length, memory::kRemoteWrite);
    error =
        found ? VendorError::none : refused(found.error, {address, rkey, static_cast<std::uint32_t>(length)});
    return found ? found.address : nullptr;
}

VendorError MessageReceiver::write_payload(std::uint64_t address, std::uint32_t rkey,
                                           std::span<const std::uint8_t> bytes) {
    if (bytes.empty()) return VendorError::none;
    VendorError error;
    std::uint8_t* const target = write_target(address, rkey, bytes.size(), error);
    if (error != VendorError::none) return error;
    if (mutated(Mutation::ack_before_placement)) {
        place(target, bytes.data(), bytes.size() - 1);
        rest_->late_address = target + bytes.size() - 1;
        rest_->late_value = bytes.back();
        return VendorError::none;
    }
    place(target, bytes.data(), bytes.size());
    return VendorError::none;
}

VendorError MessageReceiver::refused(memory::LookupError error, const wire::Reth& range) {
    rest_->refused = range;
    return offset_by(VendorError::rkey_unknown, error);
}

void MessageReceiver::place_late() {
    if (mutated(Mutation::ack_before_placement) && rest_->late_address)
        *std::exchange(rest_->late_address, nullptr) = rest_->late_value;
}

void MessageReceiver::complete_receive(const wire::Packet& packet, const wire::OpcodeInfo& info,
                                       completion::Opcode opcode, std::uint32_t length, Time now) {
    completion::Completion c;
    c.opcode = opcode;
    c.byte_length = length;
    if (info.has_immdt) {
        c.flags = completion::kHasImmediate;
        c.immediate = packet.headers.immediate;
    } else if (info.has_ieth) {
        c.flags = completion::kHasInvalidatedKey;
        c.immediate = packet.headers.invalidate_rkey;
    }
    complete_receive(c, packet.headers.bth.solicited, now);
}

void MessageReceiver::complete_receive(completion::Completion& c, bool solicited, Time now) {
    shared_.counters().messages_received++;
    c.source_qp = shared_.connection().destination_qp;
    push_receive(c, solicited, now);
}

void MessageReceiver::record_receive_failure(VendorError cause) const {
    if (cause == VendorError::receive_too_small) {
        record_failure(FailedPart::receive, shared_.basics().number, receive_wr_id_,
                       "%s (which have %llu bytes)", to_string(cause),
                       static_cast<unsigned long long>(rest_->length));
        return;
    }
    const memory::PdNumber pd = pd_of_receive();
    record_failure(FailedPart::receive, shared_.basics().number, receive_wr_id_, "%s%s", to_string(cause),
                   refused_element(shared_.regions(), pd, taken_sges(), memory::kLocalWrite).c_str());
}

void MessageReceiver::abort_receive(Status status, VendorError error, Time now) {
    completion::Completion c;
    c.status = status;
    c.opcode = completion::Opcode::receive;
    c.vendor_error = static_cast<std::uint32_t>(error);
    push_receive(c, false, now);
}

void MessageReceiver::push_receive(completion::Completion& c, bool solicited, Time now) {
    receive_taken_ = false;
    // The bytes of a WRITE with immediate are remote_write's.
    const std::uint32_t bytes = c.opcode == completion::Opcode::receive ? c.byte_length : 0;
    shared_.count_completed(Counted::receive, c.status == Status::success, bytes);
    identify(c, receive_wr_id_, now);
    if (shared_.basics().service == Service::xrc_receive)
        rest_->waiting.push_back({rest_->source, c, solicited});
    else
        shared_.basics().receive_cq->push(c, solicited);
}

void MessageReceiver::release_completions() {
    for (const Waiting& each : rest_->waiting)
        if (!each.queue->complete(each.completion, each.solicited)) completion_lost_ = true;
    rest_->waiting.clear();
}

void MessageReceiver::flush_receive(Time now) {
    if (receive_taken_) abort_receive(Status::work_request_flushed, VendorError::flushed, now);
    release_completions();
    message_ = Message::none;
}

}  // namespace verbena::transport
