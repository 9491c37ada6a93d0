#include "wire/packet.h"

#include <cstring>

#include "wire/bth.h"
#include "wire/byte_order.h"
#include "wire/extended_headers.h"

namespace verbena::wire {
namespace {

// FETH (annex A19): selectivity in bits 5..4, placement type in bits 3..0 of the last byte.
constexpr unsigned kSelectivityShift = 4;

// The extended headers in their order on the wire; the caller has checked that they are there.
void parse_extended(const std::uint8_t* p, const OpcodeInfo& opcode, Headers& h) {
    if (opcode.has_deth) {
        h.deth = {load_be32(p), load_be24(p + 5)};
        p += kDethLength;
    }
    if (opcode.has_xrceth) {
        h.xrceth.srqn = load_be24(p + 1);
        p += kXrcEthLength;
    }
    if (opcode.has_feth) {
        h.feth.placement_type = p[3] & 0x0f;
        h.feth.selectivity_level = p[3] >> kSelectivityShift & 3;
        p += kFethLength;
    }
    if (opcode.has_reth) {
        h.reth = parse_reth(p);
        p += kRethLength;
    }
    if (opcode.has_atomic_eth) {
        h.atomic_eth = parse_atomic_eth(p);
        p += kAtomicEthLength;
    }
    if (opcode.has_aeth) {
        h.aeth = {p[0], load_be24(p + 1)};
        p += kAethLength;
    }
    if (opcode.has_atomic_ack) h.atomic_ack = load_be64(p);
    if (opcode.has_immdt) std::memcpy(&h.immediate, p, kImmDtLength);
    if (opcode.has_ieth) h.invalidate_rkey = load_be32(p);
}

}  // namespace

ParseError parse(std::span<const std::uint8_t> udp_payload, Packet& out) {
    out = Packet{};
    if (udp_payload.size() < kBthLength + kIcrcLength) return ParseError::too_short;
    Bth& bth = out.headers.bth;
    parse_bth(udp_payload.data(), bth);
    // IBA 9.6.1.1: a packet of another transport version, or with a reserved opcode, is dropped silently.
    if (bth.version != 0) return ParseError::bad_version;
    const OpcodeInfo& opcode = info(bth.opcode);
    if (!opcode.valid) return ParseError::unknown_opcode;
    if (udp_payload.size() < std::size_t{opcode.header_length} + kIcrcLength) return ParseError::too_short;
    parse_extended(udp_payload.data() + kBthLength, opcode, out.headers);

    // IBA 9.2.4: the pad count brings the payload to a multiple of four.
    std::size_t padded = udp_payload.size() - opcode.header_length - kIcrcLength;
    if (padded % 4 != 0 || padded < bth.pad_count) return ParseError::bad_pad;
    out.payload = udp_payload.subspan(opcode.header_length, padded - bth.pad_count);
    if (padded != 0 && !opcode.may_have_payload) return ParseError::unexpected_payload;
    return ParseError::none;
}

std::size_t emit(const Headers& h, std::uint8_t* out) {
    const OpcodeInfo& opcode = info(h.bth.opcode);
    if (!opcode.valid) return 0;
    emit_bth(h.bth, out);
    std::uint8_t* p = out + kBthLength;
    if (opcode.has_deth) {
        store_be32(p, h.deth.qkey);
        store_be32(p + 4, h.deth.source_qp & 0xffffff);
        p += kDethLength;
    }
    if (opcode.has_xrceth) {
        store_be32(p, h.xrceth.srqn & 0xffffff);
        p += kXrcEthLength;
    }
    if (opcode.has_feth) {
        store_be32(p, std::uint32_t{h.feth.selectivity_level & 3u} << kSelectivityShift |
                          (h.feth.placement_type & 0x0fu));
        p += kFethLength;
    }
    if (opcode.has_reth) {
        emit_reth(h.reth, p);
        p += kRethLength;
    }
    if (opcode.has_atomic_eth) {
        emit_atomic_eth(h.atomic_eth, p);
        p += kAtomicEthLength;
    }
    if (opcode.has_aeth) {
        emit_aeth(h.aeth, p);
        p += kAethLength;
    }
    if (opcode.has_atomic_ack) store_be64(p, h.atomic_ack);
    if (opcode.has_immdt) std::memcpy(p, &h.immediate, kImmDtLength);
    if (opcode.has_ieth) store_be32(p, h.invalidate_rkey);
    return opcode.header_length;
}

const char* to_string(ParseError error) {
    switch (error) {
        case ParseError::none:
            return "no error";
        case ParseError::too_short:
            return "too short for its headers and ICRC";
        case ParseError::bad_version:
            return "BTH transport version is not 0";
        case ParseError::unknown_opcode:
            return "opcode is reserved or not supported";
        case ParseError::bad_pad:
            return "payload and pad count do not agree";
        case ParseError::unexpected_payload:
            return "payload behind an opcode that carries none";
    }
    return "unknown error";
}

const char* to_string(NakCode code) {
    switch (code) {
        case NakCode::psn_sequence_error:
            return "PSN sequence error";
        case NakCode::invalid_request:
            return "invalid request";
        case NakCode::remote_access:
            return "remote access error";
        case NakCode::remote_operational:
            return "remote operational error";
        case NakCode::invalid_rd:
            return "invalid RD request";
    }
    return "reserved NAK code";
}

}  // namespace verbena::wire
