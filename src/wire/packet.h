// One RoCE v2 packet, as it lies in the UDP payload: BTH, extended headers, payload, 0..3 pad bytes, ICRC
// (IBA 9.2, 9.3, annex A17). parse() checks lengths and gives a view; emit() writes the headers.
//
// Rules that need a QP (P_Key, Q_Key, PSN, opcode order, payload against the path MTU) are not checked here,
// and neither is the ICRC (icrc.h). Reserved bits are ignored on receipt and sent as zero (IBA 9.2).
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "wire/opcode.h"

namespace verbena::wire {

// The base transport header (IBA 9.2).
struct Bth {
    Opcode opcode = Opcode::rc_send_only;
    bool solicited = false;
    bool migration_request = false;
    std::uint8_t pad_count = 0;  // 0..3
    std::uint8_t version = 0;    // only 0 exists
    std::uint16_t pkey = 0xffff;
    bool fecn = false;
    bool becn = false;
    std::uint32_t destination_qp = 0;  // 24 bits
    bool ack_request = false;
    std::uint32_t psn = 0;  // 24 bits

    friend bool operator==(const Bth&, const Bth&) = default;
};

struct Deth {
    std::uint32_t qkey = 0;
    std::uint32_t source_qp = 0;  // 24 bits

    friend bool operator==(const Deth&, const Deth&) = default;
};

struct XrcEth {
    std::uint32_t srqn = 0;  // 24 bits

    friend bool operator==(const XrcEth&, const XrcEth&) = default;
};

struct Reth {
    std::uint64_t virtual_address = 0;
    std::uint32_t rkey = 0;
    std::uint32_t length = 0;  // of the whole message, bytes

    friend bool operator==(const Reth&, const Reth&) = default;
};

struct AtomicEth {
    std::uint64_t virtual_address = 0;
    std::uint32_t rkey = 0;
    std::uint64_t swap_add = 0;
    std::uint64_t compare = 0;

    friend bool operator==(const AtomicEth&, const AtomicEth&) = default;
};

struct Aeth {
    std::uint8_t syndrome = 0;
    std::uint32_t msn = 0;  // 24 bits

    friend bool operator==(const Aeth&, const Aeth&) = default;
};

// FLUSH (annex A19): what becomes of the data, and how much of it is meant.
struct Feth {
    std::uint8_t placement_type = 0;     // 4 bits: 1 global visibility, 2 persistence
    std::uint8_t selectivity_level = 0;  // 2 bits: 0 the RETH's range, 1 the whole region

    friend bool operator==(const Feth&, const Feth&) = default;
};

// Only the headers that info(bth.opcode) names are meaningful; parse() leaves the others at their defaults.
struct Headers {
    Bth bth;
    Deth deth;
    XrcEth xrceth;
    Reth reth;
    AtomicEth atomic_eth;
    Aeth aeth;
    std::uint64_t atomic_ack = 0;  // the value before the operation
    std::uint32_t immediate =
        0;  // the four bytes as on the wire (network order kept, as ibv_wc::imm_data is)
    std::uint32_t invalidate_rkey = 0;
    Feth feth;

    friend bool operator==(const Headers&, const Headers&) = default;
};

// What a link to peers of the same host carries beyond a packet's bytes; on a wire there is none of it.
struct Aside {
    std::uint32_t psns = 1;          // it stands for so many packets of a message, one behind the other
    bool acknowledges = false;       // as an ACK in front of it would (IBA 9.7.5.1.2), namely this PSN
    std::uint32_t acknowledged = 0;  // 24 bits
    bool stays = false;  // its payload stays as it is until acknowledged; it may be taken from where it lies
    // ... and is there already, a SEND's in the receive of that name (transport/shown_receives.h); 0: it has
    // to be taken. With a READ request, whose payload then is where its answer may be written to: by which
    // right.
    std::uint64_t placed = 0;
};

// A packet as it came, BTH to ICRC.
struct InPacket {
    std::span<const std::uint8_t> bytes;  // valid during the call only
    Aside aside;
};

// A payload that still lies in the sender's memory; or, of a READ request, where the beginning of its answer
// may be written to.
class Elsewhere {
   public:
    virtual ~Elsewhere() = default;
    virtual std::size_t length() const = 0;
    // The sender has written all of it to its place, as Aside::placed says.
    virtual std::uint64_t placed() const { return 0; }
    // Copies all of it, once; `sender` is the queue pair that it comes from. False: it is not to be had.
    virtual bool fetch(std::uint32_t sender, std::span<const iovec> into) = 0;
    // Writes so many bytes of an answer; `requester` is the queue pair that asks. False: it may not be.
    virtual bool store(std::uint32_t /*requester*/, const std::uint8_t* /*from*/) { return false; }
    // It cannot be taken this way: the sender shall send payloads along from now on.
    virtual void decline() = 0;
};

struct Packet {
    Headers headers;
    std::span<const std::uint8_t> payload;  // pad and ICRC excluded; points into the parsed bytes
    // parse() leaves these alone.
    Aside aside{};
    Elsewhere* elsewhere = nullptr;  // then `payload` is empty

    std::size_t payload_length() const { return elsewhere ? elsewhere->length() : payload.size(); }
};

enum class ParseError {
    none,
    too_short,           // less than the opcode's headers, pad and ICRC
    bad_version,         // BTH transport version is not 0 (IBA 9.2.5)
    unknown_opcode,      // reserved or unsupported opcode
    bad_pad,             // headers, payload and pad are not a multiple of four, or more pad than bytes
    unexpected_payload,  // an opcode that carries none came with some
};
const char* to_string(ParseError error);

// Fills `out` from a datagram's whole UDP payload, ICRC included. No copy of the payload; reads inside the
// span only. On an error `out` is unspecified, except that out.headers.bth is filled if at least a BTH was
// there.
ParseError parse(std::span<const std::uint8_t> udp_payload, Packet& out);

// Writes the BTH and the opcode's extended headers; returns their length (at most kMaxHeaderLength, which
// `out` must have room for), or 0 for an opcode that does not exist. bth.pad_count is written as given.
std::size_t emit(const Headers& headers, std::uint8_t* out);

// The UDP payload that a packet was parsed from, in bytes: BTH to ICRC.
inline std::size_t udp_payload_length(const Packet& packet) {
    const Bth& bth = packet.headers.bth;
    return header_length(bth.opcode) + packet.payload.size() + bth.pad_count + kIcrcLength;
}

// Pad bytes that bring a payload of `payload_length` to a multiple of four.
constexpr std::uint8_t pad_for(std::size_t payload_length) {
    return static_cast<std::uint8_t>(-payload_length & 3);
}

// AETH syndromes (IBA 9.3.5, 9.7.5.2): bit 7 zero, bits 6..5 the kind, bits 4..0 its value.
enum class AethKind : std::uint8_t { ack = 0, rnr_nak = 1, reserved = 2, nak = 3 };

enum class NakCode : std::uint8_t {
    psn_sequence_error = 0,
    invalid_request = 1,
    remote_access = 2,
    remote_operational = 3,
    invalid_rd = 4,
};
const char* to_string(NakCode code);

inline constexpr std::uint8_t kInvalidCredits = 0x1f;  // end-to-end flow control not in use

constexpr std::uint8_t ack_syndrome(std::uint8_t credits = kInvalidCredits) { return credits & 0x1f; }
constexpr std::uint8_t rnr_nak(std::uint8_t timer) { return 0x20 | (timer & 0x1f); }
constexpr std::uint8_t nak(NakCode code) {
    return static_cast<std::uint8_t>(0x60 | static_cast<std::uint8_t>(code));
}
// Bit 7 is reserved and ignored.
constexpr AethKind classify(std::uint8_t syndrome) { return static_cast<AethKind>(syndrome >> 5 & 3); }
// Credits, RNR timer or NAK code.
constexpr std::uint8_t syndrome_value(std::uint8_t syndrome) { return syndrome & 0x1f; }

}  // namespace verbena::wire
