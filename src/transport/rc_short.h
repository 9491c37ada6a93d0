// The shortest way of all: a SEND of one short packet, or a WRITE among others like it, that is copied to a
// peer of this host at once, while nothing else is going on. It is here as templates, so that from the public
// call to the ring's slot it is one function: where what is asked is what a message costs, so is where it is
// kept meanwhile. It does what post_straight() would, or nothing.
#pragma once

#include "transport/direct_access.h"
#include "transport/rc_queue_pair.h"
#include "transport/rc_whole.h"
#include "wire/short_packet.h"

namespace verbena::transport {

// `copier`: a wire::PacketCopier, whose copy_short() is inlined. kDeclined: nothing was done.
template <class Copier>
[[gnu::always_inline]] inline QueuePair::Straight RcQueuePair::post_short(const SendRequest& request,
                                                                          Copier& copier,
                                                                          const LazyTime& now) {
    if (state_ != QpState::rts || !is_plain() || by_wire_) [[unlikely]]
        return kDeclined;
    ShortPayload payload;
    if (!requester_.is_short(request, payload)) [[unlikely]]
        return kDeclined;
    const bool owes = responder_.owes();
    const auto copy = [&copier](const wire::ShortPacket& packet) { return copier.copy_short(packet); };
    if (!leave_short(request, payload, owes, copy)) [[unlikely]]
        return kDeclined;
    if (owes) responder_.rides();
    requester_.left_straight(request, 1, payload.length, true, now);
    request_leaves(owes ? responder_.owes_since() : kNever, now);
    return requester_.waits(true, now) ? kDone | kWaits : kDone;
}

// `take(const wire::ShortPacket&)`: whether it has left; if not, nothing was done.
template <class Take>
[[gnu::always_inline]] inline bool RcQueuePair::leave_short(const SendRequest& request,
                                                            const ShortPayload& payload, bool owes,
                                                            Take&& take) {
    return request.operation == Operation::send ? leave_short_as<true>(request, payload, owes, take)
                                                : leave_short_as<false>(request, payload, owes, take);
}

// `kUsual`: a SEND that brings no immediate, which has a BTH and nothing else.
template <bool kUsual, class Take>
[[gnu::always_inline]] inline bool RcQueuePair::leave_short_as(const SendRequest& request,
                                                               const ShortPayload& payload, bool owes,
                                                               Take&& take) {
    using wire::Opcode;
    const bool write = !kUsual && request.operation == Operation::rdma_write, immediate = !kUsual && !write;
    wire::ShortPacket packet;
    packet.path = &connection_.path;
    packet.destination_qp = connection_.destination_qp;
    packet.payload = payload.bytes;
    packet.length = payload.length;
    packet.pad_count = wire::pad_for(payload.length);
    packet.acknowledges = owes;
    packet.acknowledged = owes ? responder_.riding().acknowledged : 0;

    const Opcode opcode = kUsual ? Opcode::rc_send_only : whole_opcode(request.operation);
    const unsigned second = wire::kBthMigrationRequest | unsigned{packet.pad_count} << wire::kBthPadShift |
                            (!write && request.flags & kSolicited ? wire::kBthSolicited : 0u);
    const auto to_wire = wire::to_be32;
    packet.bth[0] =
        to_wire(std::uint32_t{static_cast<std::uint8_t>(opcode)} << 24 | second << 16 | kDefaultPkey);
    packet.bth[1] = to_wire(connection_.destination_qp & wire::kLow24);
    packet.bth[2] = to_wire(std::uint32_t{wire::kBthAckRequest} << 24 | requester_.next_psn());
    packet.extended_words = 0;
    if (write) {
        packet.extended = {to_wire(static_cast<std::uint32_t>(request.remote_address >> 32)),
                           to_wire(static_cast<std::uint32_t>(request.remote_address)), to_wire(request.rkey),
                           to_wire(payload.length)};
        packet.extended_words = 4;
    } else if (immediate) {
        packet.extended[0] = request.immediate_or_key;
        packet.extended_words = 1;
    }
    if (!take(packet)) [[unlikely]]
        return false;
    counters_.packets_sent++;
    counters_.bytes_sent += payload.length;
    counters_.wire_bytes_sent +=
        packet.header_length() + wire::kIcrcLength + payload.length + packet.pad_count;
    return true;
}

// Whether it may leave as one packet, and where its payload lies. (Whoever takes that knows what is short.)
[[gnu::always_inline]] inline bool RcRequester::is_short(const SendRequest& request, ShortPayload& payload) {
    const bool write = request.operation == Operation::rdma_write;
    const std::size_t count = request.sges.size();
    if (!may_be_whole(request) || count > 1 || queue_.full()) [[unlikely]]
        return false;
    payload = {};
    if (count == 0) return !write;
    const Sge& sge = request.sges[0];
    if (sge.length > shared_.mtu() || queue_.max_sge() == 0) [[unlikely]]
        return false;
    payload.length = sge.length;
    if (sge.length == 0) return !write;
    if (write && (sge.length > kSmallWrite || !goes_with_others())) return false;
    if (request.flags & kInline) {
        payload.bytes = reinterpret_cast<const std::uint8_t*>(static_cast<std::uintptr_t>(sge.address));
        return sge.length <= queue_.max_inline();
    }
    const auto found = shared_.regions().local(sge.lkey, shared_.basics().pd, sge.address, sge.length, 0);
    payload.bytes = found.address;
    return static_cast<bool>(found);
}

}  // namespace verbena::transport
