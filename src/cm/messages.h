// CM messages as whole MADs: the common header put before a message, answers' paths, and the times that the
// messages carry as exponents. Pure functions.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>

#include "base/time.h"
#include "cm/types.h"
#include "wire/bth.h"
#include "wire/cm_messages.h"
#include "wire/mad.h"
#include "wire/path.h"

namespace verbena::cm {

using Mad = std::array<std::uint8_t, wire::kMadLength>;

// What Linux's rdma_cm asks for; a peer's numbers may be others.
inline constexpr std::uint8_t kResponseTimeout = 20;  // CM response timeout, 4.096 us * 2^20 = 4.3 s
inline constexpr std::uint8_t kMaxCmRetries = 15;     // 4 bits; the repetitions after the first transmission
inline constexpr std::uint8_t kMraServiceTimeout = 24;  // 68.7 s
inline constexpr std::uint8_t kAckDelay = 15;           // our Local CA ACK Delay, as rxe's (IBA 11.2.1.2)
using wire::kDefaultPkey;
inline constexpr std::uint16_t kPermissiveLid = 0xffff;
inline constexpr std::uint32_t kPsnMask = 0xffffff;
inline constexpr std::uint32_t kDefaultQkey = 0x01234567;  // rdma_cm's Q_Key of UD ids

// Bytes of private data that a program may send; the IP port spaces' requests lose the CMA header's 36.
static_assert(kReqUserData == 92 - wire::kCmaHeaderLength);
inline constexpr std::size_t kRejUserData = 148;
inline constexpr std::size_t kSidrReqUserData = 216 - wire::kCmaHeaderLength;
inline constexpr std::size_t kSidrRepUserData = 136;

template <class Message>
Mad make_mad(std::uint64_t transaction_id, const Message& message, std::uint32_t attribute_modifier = 0) {
    Mad mad{};
    wire::MadHeader header;
    header.transaction_id = transaction_id;
    header.attribute_id = Message::kAttribute;
    header.attribute_modifier = attribute_modifier;
    std::span<std::uint8_t, wire::kMadLength> bytes(mad);
    wire::encode(header, wire::mad_header(bytes));
    wire::encode(message, wire::cm_message(bytes));
    return mad;
}

// The transaction of a conversation that `comm_id` began: the agent's number above, the id byte-swapped
// below, as Linux numbers them. Answers echo it.
constexpr std::uint64_t transaction_of(std::uint32_t comm_id) {
    return std::uint64_t{2} << 32 | __builtin_bswap32(comm_id);
}

// The way back to the sender of a MAD, and the way out along a route: always from QP1's own UDP source port.
wire::Path path_back(const wire::Path& sender_view);
wire::Path path_along(const Route& route);

// The Local ACK Timeout for a path whose packets live 2^life_time and a peer that answers within 2^ack_delay
// (IBA 12.7.34: two life times and the delay), in exponents.
std::uint8_t ack_timeout(std::uint8_t ack_delay, std::uint8_t life_time);

// Copies the user's bytes; the rest of `out` stays zero, as every message's private data has a fixed length.
template <std::size_t N>
void copy_private_data(std::span<const std::uint8_t> from, std::array<std::uint8_t, N>& out,
                       std::size_t offset = 0) {
    std::copy_n(from.begin(), std::min(from.size(), N - offset),
                out.begin() + static_cast<std::ptrdiff_t>(offset));
}

// What a program sees of received private data: always the full length, zero-padded.
void set_private_data(ConnectParameters& parameters, std::span<const std::uint8_t> from);

// The bytes that the caller passed.
inline std::span<const std::uint8_t> private_data(const ConnectParameters& parameters) {
    return std::span<const std::uint8_t>(parameters.private_data)
        .first(std::min<std::size_t>(parameters.private_data_length, kMaxPrivateData));
}

}  // namespace verbena::cm
