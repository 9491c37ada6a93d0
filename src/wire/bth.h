// The base transport header's twelve bytes (IBA 9.2), both ways.
#pragma once

#include "wire/byte_order.h"
#include "wire/packet.h"

namespace verbena::wire {

inline constexpr std::size_t kBthAckRequestByte = 8;
inline constexpr std::size_t kBthPsn = 9;  // three bytes

// Of bytes 1, 4 and 8.
inline constexpr std::uint8_t kBthSolicited = 0x80;
inline constexpr std::uint8_t kBthMigrationRequest = 0x40;
inline constexpr unsigned kBthPadShift = 4;
inline constexpr std::uint8_t kBthVersionMask = 0x0f;
inline constexpr std::uint8_t kBthFecn = 0x80;
inline constexpr std::uint8_t kBthBecn = 0x40;
inline constexpr std::uint8_t kBthAckRequest = 0x80;

inline void parse_bth(const std::uint8_t* p, Bth& bth) {
    bth.opcode = static_cast<Opcode>(p[0]);
    bth.solicited = p[1] & kBthSolicited;
    bth.migration_request = p[1] & kBthMigrationRequest;
    bth.pad_count = p[1] >> kBthPadShift & 3;
    bth.version = p[1] & kBthVersionMask;
    bth.pkey = load_be16(p + 2);
    bth.fecn = p[4] & kBthFecn;
    bth.becn = p[4] & kBthBecn;
    bth.destination_qp = load_be24(p + 5);
    bth.ack_request = p[8] & kBthAckRequest;
    bth.psn = load_be24(p + 9);
}

inline void emit_bth(const Bth& bth, std::uint8_t* p) {
    p[0] = static_cast<std::uint8_t>(bth.opcode);
    p[1] = static_cast<std::uint8_t>((bth.solicited ? kBthSolicited : 0) |
                                     (bth.migration_request ? kBthMigrationRequest : 0) |
                                     (bth.pad_count & 3) << kBthPadShift | (bth.version & kBthVersionMask));
    store_be16(p + 2, bth.pkey);
    p[4] = static_cast<std::uint8_t>((bth.fecn ? kBthFecn : 0) | (bth.becn ? kBthBecn : 0));
    store_be24(p + 5, bth.destination_qp);
    p[8] = bth.ack_request ? kBthAckRequest : 0;
    store_be24(p + 9, bth.psn);
}

}  // namespace verbena::wire
