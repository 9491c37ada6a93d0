// The base transport header's twelve bytes (IBA 9.2), both ways.
#pragma once

#include <bit>
#include <cstring>

#include "wire/byte_order.h"
#include "wire/packet.h"

namespace verbena::wire {

inline constexpr std::uint16_t kDefaultPkey = 0xffff;  // that of a full member
// IBA 9.6.1.1.3, 10.9.3: equal but for the membership bit, and not both limited members; ours is full.
constexpr bool pkey_matches(std::uint16_t theirs) { return (theirs & 0x7fff) == (kDefaultPkey & 0x7fff); }

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

inline constexpr std::uint32_t kLow24 = 0xffffff;  // of the words that hold a number of 24 bits

inline void parse_bth(const std::uint8_t* p, Bth& bth) {
    bth.opcode = static_cast<Opcode>(p[0]);
    bth.solicited = p[1] & kBthSolicited;
    bth.migration_request = p[1] & kBthMigrationRequest;
    bth.pad_count = p[1] >> kBthPadShift & 3;
    bth.version = p[1] & kBthVersionMask;
    bth.pkey = load_be16(p + 2);
    const std::uint32_t to = load_be32(p + 4), place = load_be32(p + 8);
    bth.fecn = to >> 24 & kBthFecn;
    bth.becn = to >> 24 & kBthBecn;
    bth.destination_qp = to & kLow24;
    bth.ack_request = place >> 24 & kBthAckRequest;
    bth.psn = place & kLow24;
}

inline void emit_bth(const Bth& bth, std::uint8_t* p) {
    const unsigned second = (bth.solicited ? kBthSolicited : 0u) |
                            (bth.migration_request ? kBthMigrationRequest : 0u) |
                            (bth.pad_count & 3u) << kBthPadShift | (bth.version & kBthVersionMask);
    store_be32(p, std::uint32_t{static_cast<std::uint8_t>(bth.opcode)} << 24 | second << 16 | bth.pkey);
    const std::uint32_t marks = (bth.fecn ? kBthFecn : 0u) | (bth.becn ? kBthBecn : 0u);
    store_be32(p + 4, marks << 24 | (bth.destination_qp & kLow24));
    store_be32(p + 8, (bth.ack_request ? kBthAckRequest : 0u) << 24 | (bth.psn & kLow24));
}

// A SEND or WRITE of RC that is one packet.
constexpr bool is_whole_message(Opcode opcode) {
    return opcode == Opcode::rc_send_only || opcode == Opcode::rc_send_only_immediate ||
           opcode == Opcode::rc_write_only;
}

// Whether two BTHs, of which eight bytes are read, have one opcode and one destination.
inline bool is_alike(const std::uint8_t* a, const std::uint8_t* b) {
    constexpr std::uint64_t kOpcodeAndDestination =
        std::endian::native == std::endian::little ? 0xffffff00'000000ff : 0xff000000'00ffffff;
    std::uint64_t x, y;
    std::memcpy(&x, a, sizeof x);
    std::memcpy(&y, b, sizeof y);
    return ((x ^ y) & kOpcodeAndDestination) == 0;
}

// Its three words as they came, for paths on which each field costs: one is read when it is asked for.
class BthWords {
   public:
    BthWords() = default;
    explicit BthWords(const std::uint8_t* p) { read(p); }
    void read(const std::uint8_t* p) {
        first_ = load_be32(p);
        second_ = load_be32(p + 4);
        third_ = load_be32(p + 8);
    }

    std::uint32_t first() const { return first_; }  // opcode to P_Key
    Opcode opcode() const { return static_cast<Opcode>(first_ >> 24); }
    bool solicited() const { return first_ >> 16 & kBthSolicited; }
    unsigned pad_count() const { return first_ >> (16 + kBthPadShift) & 3; }
    unsigned version() const { return first_ >> 16 & kBthVersionMask; }
    std::uint16_t pkey() const { return static_cast<std::uint16_t>(first_); }
    std::uint32_t destination_qp() const { return second_ & kLow24; }
    bool ack_request() const { return third_ >> 24 & kBthAckRequest; }
    std::uint32_t psn() const { return third_ & kLow24; }

   private:
    std::uint32_t first_ = 0, second_ = 0, third_ = 0;
};

}  // namespace verbena::wire
