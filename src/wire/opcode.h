// BTH opcodes of RC, UC, UD and XRC (IBA 9.2.1; FLUSH and ATOMIC WRITE: annex A19), and what each one
// means: its place in a message and the extended headers behind the BTH.
//
// The high three bits name the service, the low five the operation. info() is a table look-up that covers all
// 256 values; an opcode that does not exist has valid == false and no headers.
#pragma once

#include <cstdint>

namespace verbena::wire {

enum class Opcode : std::uint8_t {
    rc_send_first = 0x00,
    rc_send_middle = 0x01,
    rc_send_last = 0x02,
    rc_send_last_immediate = 0x03,
    rc_send_only = 0x04,
    rc_send_only_immediate = 0x05,
    rc_write_first = 0x06,
    rc_write_middle = 0x07,
    rc_write_last = 0x08,
    rc_write_last_immediate = 0x09,
    rc_write_only = 0x0a,
    rc_write_only_immediate = 0x0b,
    rc_read_request = 0x0c,
    rc_read_response_first = 0x0d,
    rc_read_response_middle = 0x0e,
    rc_read_response_last = 0x0f,
    rc_read_response_only = 0x10,
    rc_ack = 0x11,
    rc_atomic_ack = 0x12,
    rc_compare_swap = 0x13,
    rc_fetch_add = 0x14,
    rc_send_last_invalidate = 0x16,
    rc_send_only_invalidate = 0x17,
    rc_flush = 0x1c,
    rc_atomic_write = 0x1d,

    uc_send_first = 0x20,
    uc_send_middle = 0x21,
    uc_send_last = 0x22,
    uc_send_last_immediate = 0x23,
    uc_send_only = 0x24,
    uc_send_only_immediate = 0x25,
    uc_write_first = 0x26,
    uc_write_middle = 0x27,
    uc_write_last = 0x28,
    uc_write_last_immediate = 0x29,
    uc_write_only = 0x2a,
    uc_write_only_immediate = 0x2b,

    ud_send_only = 0x64,
    ud_send_only_immediate = 0x65,

    cnp = 0x81,  // congestion notification (annex A17): a BTH and 16 reserved bytes

    xrc_send_first = 0xa0,
    xrc_send_middle = 0xa1,
    xrc_send_last = 0xa2,
    xrc_send_last_immediate = 0xa3,
    xrc_send_only = 0xa4,
    xrc_send_only_immediate = 0xa5,
    xrc_write_first = 0xa6,
    xrc_write_middle = 0xa7,
    xrc_write_last = 0xa8,
    xrc_write_last_immediate = 0xa9,
    xrc_write_only = 0xaa,
    xrc_write_only_immediate = 0xab,
    xrc_read_request = 0xac,
    xrc_read_response_first = 0xad,
    xrc_read_response_middle = 0xae,
    xrc_read_response_last = 0xaf,
    xrc_read_response_only = 0xb0,
    xrc_ack = 0xb1,
    xrc_atomic_ack = 0xb2,
    xrc_compare_swap = 0xb3,
    xrc_fetch_add = 0xb4,
    xrc_send_last_invalidate = 0xb6,
    xrc_send_only_invalidate = 0xb7,
    xrc_flush = 0xbc,
    xrc_atomic_write = 0xbd,
};

// The high three bits of an opcode.
enum class Service : std::uint8_t { rc = 0, uc = 1, rd = 2, ud = 3, cnp = 4, xrc = 5, invalid = 7 };

enum class Operation : std::uint8_t {
    none,
    send,
    write,
    read_request,
    read_response,
    acknowledge,
    atomic_acknowledge,
    compare_swap,
    fetch_add,
    flush,
    atomic_write,
    cnp,
};

struct OpcodeInfo {
    const char* name = "unknown";  // "rc_send_first"
    Service service = Service::invalid;
    Operation operation = Operation::none;
    bool valid = false;
    bool request = false;   // requester → responder
    bool response = false;  // responder → requester: ACK, atomic ACK, READ response
    // Exactly one of these four is true for a valid opcode: its place in its message.
    bool first = false;
    bool middle = false;
    bool last = false;
    bool only = false;
    bool has_deth = false;
    bool has_xrceth = false;
    bool has_reth = false;
    bool has_atomic_eth = false;
    bool has_aeth = false;
    bool has_atomic_ack = false;
    bool has_immdt = false;
    bool has_ieth = false;
    bool has_feth = false;
    bool may_have_payload = false;
    std::uint8_t header_length = 0;  // BTH and extended headers, bytes; 0 if not valid

    constexpr bool starts_message() const { return first || only; }
    constexpr bool ends_message() const { return last || only; }
};

inline constexpr unsigned kBthLength = 12;
inline constexpr unsigned kDethLength = 8;
inline constexpr unsigned kXrcEthLength = 4;
inline constexpr unsigned kRethLength = 16;
inline constexpr unsigned kAtomicEthLength = 28;
inline constexpr unsigned kAethLength = 4;
inline constexpr unsigned kAtomicAckLength = 8;
inline constexpr unsigned kImmDtLength = 4;
inline constexpr unsigned kIethLength = 4;
inline constexpr unsigned kFethLength = 4;
inline constexpr unsigned kIcrcLength = 4;
// The longest header of any opcode: XRC compare-and-swap (BTH, XRCETH, AtomicETH).
inline constexpr unsigned kMaxHeaderLength = kBthLength + kXrcEthLength + kAtomicEthLength;

const OpcodeInfo& info(Opcode opcode);

// BTH plus extended headers, in bytes; 0 for an opcode that does not exist.
inline unsigned header_length(Opcode opcode) { return info(opcode).header_length; }

// The opcode of `service` with the low five bits of `like`: with_service(Opcode::rc_send_only, Service::uc)
// is uc_send_only. The result may not exist (info().valid).
constexpr Opcode with_service(Opcode like, Service service) {
    return static_cast<Opcode>((static_cast<unsigned>(like) & 0x1f) | static_cast<unsigned>(service) << 5);
}

}  // namespace verbena::wire
