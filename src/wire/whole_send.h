// A SEND of RC that is one packet, with an immediate or without: what most messages are, read and written
// without the tables that serve all opcodes.
#pragma once

#include <cstring>
#include <span>

#include "wire/bth.h"

namespace verbena::wire {

struct WholeSend {
    Bth bth;
    std::uint32_t immediate = 0;  // as Headers::immediate
    std::span<const std::uint8_t> payload;

    bool has_immediate() const { return bth.opcode == Opcode::rc_send_only_immediate; }
};

// False: it is something else, or nothing that parse() would take.
inline bool parse_whole_send(std::span<const std::uint8_t> udp_payload, WholeSend& out) {
    constexpr auto kPlain = static_cast<std::uint8_t>(Opcode::rc_send_only);
    constexpr auto kWithImmediate = static_cast<std::uint8_t>(Opcode::rc_send_only_immediate);
    std::size_t header = kBthLength;
    if (udp_payload.size() < header + kIcrcLength) return false;
    const std::uint8_t* bytes = udp_payload.data();
    if (bytes[0] == kWithImmediate)
        header += kImmDtLength;
    else if (bytes[0] != kPlain)
        return false;
    if (udp_payload.size() < header + kIcrcLength) return false;
    parse_bth(bytes, out.bth);
    const std::size_t padded = udp_payload.size() - header - kIcrcLength;
    if (out.bth.version != 0 || padded % 4 != 0 || padded < out.bth.pad_count) return false;
    if (header > kBthLength) std::memcpy(&out.immediate, bytes + kBthLength, sizeof out.immediate);
    out.payload = {bytes + header, padded - out.bth.pad_count};
    return true;
}

// Returns the length of the headers that it wrote, as emit() would have written them.
inline std::size_t emit_whole_send(const Bth& bth, std::uint32_t immediate, std::uint8_t* out) {
    emit_bth(bth, out);
    if (bth.opcode == Opcode::rc_send_only) return kBthLength;
    std::memcpy(out + kBthLength, &immediate, sizeof immediate);
    return kBthLength + kImmDtLength;
}

}  // namespace verbena::wire
