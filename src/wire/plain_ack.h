// A positive acknowledgement of RC, which most packets back to a sender are, read without the tables that
// serve all opcodes.
#pragma once

#include <span>

#include "wire/bth.h"
#include "wire/packet.h"

namespace verbena::wire {

// Its BTH says up to which PSN, inclusively. False: it is something else, or nothing that parse() would take.
inline bool parse_plain_ack(std::span<const std::uint8_t> udp_payload, BthWords& out) {
    constexpr auto kOpcode = static_cast<std::uint8_t>(Opcode::rc_ack);
    if (udp_payload.size() != kBthLength + kAethLength + kIcrcLength || udp_payload[0] != kOpcode ||
        classify(udp_payload[kBthLength]) != AethKind::ack)
        return false;
    out.read(udp_payload.data());
    return out.version() == 0 && out.pad_count() == 0;
}

// Returns the length of the headers that it wrote, as emit() would have written them.
inline std::size_t emit_plain_ack(const Bth& bth, std::uint32_t msn, std::uint8_t* out) {
    emit_bth(bth, out);
    store_be32(out + kBthLength, std::uint32_t{ack_syndrome()} << 24 | (msn & kLow24));
    return kBthLength + kAethLength;
}

}  // namespace verbena::wire
