// The common MAD header (IBA 13.4.2) and the constants of the communication management class (IBA 16.7.1).
// A CM MAD is the payload of a UD SEND from QP1 to QP1: 24 bytes of header and 232 of message.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace verbena::wire {

inline constexpr std::size_t kMadLength = 256;
inline constexpr std::size_t kMadHeaderLength = 24;
inline constexpr std::size_t kCmMessageLength = kMadLength - kMadHeaderLength;
static_assert(kCmMessageLength == 232);

inline constexpr std::uint32_t kQp1 = 1;
inline constexpr std::uint32_t kQp1QKey = 0x80010000;  // IBA 10.2: the well-known Q_Key of QP1
inline constexpr std::uint32_t kMulticastQp = 0xffffff;

inline constexpr std::uint8_t kMadBaseVersion = 1;
inline constexpr std::uint8_t kMadClassCm = 7;
inline constexpr std::uint8_t kMadClassVersionCm = 2;
inline constexpr std::uint8_t kMadMethodSend = 3;

enum class CmAttribute : std::uint16_t {
    class_port_info = 0x01,
    req = 0x10,
    mra = 0x11,
    rej = 0x12,
    rep = 0x13,
    rtu = 0x14,
    dreq = 0x15,
    drep = 0x16,
    sidr_req = 0x17,
    sidr_rep = 0x18,
    lap = 0x19,
    apr = 0x1a,
};
// "REQ", "SIDR_REP"; "unknown" if it is none of them.
const char* to_string(CmAttribute attribute);

struct MadHeader {
    std::uint8_t base_version = kMadBaseVersion;
    std::uint8_t management_class = kMadClassCm;
    std::uint8_t class_version = kMadClassVersionCm;
    std::uint8_t method = kMadMethodSend;
    std::uint16_t status = 0;
    std::uint16_t class_specific = 0;
    std::uint64_t transaction_id = 0;
    CmAttribute attribute_id = CmAttribute::class_port_info;
    std::uint16_t reserved = 0;
    std::uint32_t attribute_modifier = 0;

    friend bool operator==(const MadHeader&, const MadHeader&) = default;
};

void encode(const MadHeader& header, std::span<std::uint8_t, kMadHeaderLength> out);
// Every 24 bytes decode; nothing is lost.
void decode(std::span<const std::uint8_t, kMadHeaderLength> in, MadHeader& out);

// True if the header is one that a CM agent takes: base version, class, class version and method Send.
bool is_cm(const MadHeader& header);

// The two halves of a MAD buffer.
inline std::span<std::uint8_t, kMadHeaderLength> mad_header(std::span<std::uint8_t, kMadLength> mad) {
    return mad.first<kMadHeaderLength>();
}
inline std::span<const std::uint8_t, kMadHeaderLength> mad_header(
    std::span<const std::uint8_t, kMadLength> mad) {
    return mad.first<kMadHeaderLength>();
}
inline std::span<std::uint8_t, kCmMessageLength> cm_message(std::span<std::uint8_t, kMadLength> mad) {
    return mad.last<kCmMessageLength>();
}
inline std::span<const std::uint8_t, kCmMessageLength> cm_message(
    std::span<const std::uint8_t, kMadLength> mad) {
    return mad.last<kCmMessageLength>();
}

}  // namespace verbena::wire
