// A SEND, with an immediate or without, or a WRITE of RC that is one packet: that packet.
#pragma once

#include "transport/rc_shared.h"
#include "wire/whole_send.h"
#include "wire/whole_write.h"

namespace verbena::transport {

// By what it asks for, a SendRequest or SendEntry; not by its length.
inline bool may_be_whole(const auto& request) {
    constexpr std::uint32_t kUsual = kSignaled | kSolicited | kInline;
    const Operation operation = request.operation;
    return !(request.flags & ~kUsual) &&
           (operation == Operation::send || operation == Operation::send_with_immediate ||
            operation == Operation::rdma_write);
}

constexpr wire::Opcode whole_opcode(Operation operation) {
    return operation == Operation::rdma_write ? wire::Opcode::rc_write_only
           : operation == Operation::send     ? wire::Opcode::rc_send_only
                                              : wire::Opcode::rc_send_only_immediate;
}

// `payload`: where its bytes lie. `out` refers to it.
inline void make_whole(const RcShared& shared, const auto& request, std::uint32_t psn, const iovec& payload,
                       wire::OutPacket& out) {
    const auto length = static_cast<std::uint32_t>(payload.iov_len);
    const bool write = request.operation == Operation::rdma_write;
    wire::Bth bth;
    address_rc(bth, shared, whole_opcode(request.operation), psn);
    bth.ack_request = true;
    bth.solicited = !write && (request.flags & kSolicited);
    bth.pad_count = wire::pad_for(length);
    out.path = &shared.connection().path;
    out.pad_count = bth.pad_count;
    out.header_length = static_cast<std::uint8_t>(
        write ? wire::emit_whole_write(bth, {request.remote_address, request.rkey, length}, out.header.data())
              : wire::emit_whole_send(bth, request.immediate_or_key, out.header.data()));
    out.payload = {&payload, length > 0 ? std::size_t{1} : 0};
}

}  // namespace verbena::transport
