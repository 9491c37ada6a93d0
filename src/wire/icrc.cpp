#include "wire/icrc.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "wire/crc32_math.h"
#include "wire/ip_header.h"

namespace verbena::wire {
namespace {

constexpr std::size_t kOnesLength = 8;  // in place of the local route header (7.8.1)
constexpr std::size_t kIpv4Length = 20;
constexpr std::size_t kIpv6Length = 40;
constexpr std::size_t kUdpLength = 8;
constexpr std::uint16_t kDontFragment = 0x4000;
constexpr std::size_t kBthMaskedByte = 4;  // FECN, BECN and reserved bits
constexpr std::size_t kSmallest = kBthLength + kIcrcLength;

// Covered bytes between the IPv4 identification field and the UDP payload: flags to destination address, UDP.
constexpr std::size_t kBehindIpId = kIpv4Length - 6 + kUdpLength;

// The state that eight bytes of ones leave behind. Four of them cancel the initial state.
constexpr std::uint32_t after_ones() {
    std::uint32_t state = 0;
    for (std::size_t byte = 4; byte < kOnesLength; byte++) {
        state ^= 0xff;
        for (int bit = 0; bit < 8; bit++) state = crc32_math::times_x(state);
    }
    return state;
}
constexpr std::uint32_t kAfterOnes = after_ones();

// What each of the two bytes of the IPv4 identification adds to the state `behind` bytes further on, the
// upper one first.
using IpIdBytes = std::array<std::array<std::uint32_t, 256>, 2>;
constexpr IpIdBytes make_ip_id_bytes(std::size_t behind) {
    IpIdBytes table{};
    for (std::size_t place = 0; place < 2; place++)
        for (std::uint32_t byte = 0; byte < 256; byte++) {
            std::uint32_t state = byte;
            for (std::size_t bit = 0; bit < 8 * (2 - place + behind); bit++)
                state = crc32_math::times_x(state);
            table[place][byte] = state;
        }
    return table;
}

std::uint32_t of_ip_id(const IpIdBytes& table, std::uint16_t ip_id) {
    return table[0][ip_id >> 8] ^ table[1][ip_id & 0xff];
}

}  // namespace

std::uint32_t icrc_begin(const Path& path, std::uint16_t destination_port, std::size_t udp_payload_length,
                         std::uint16_t ip_id, bool dont_fragment) {
    std::uint8_t bytes[kIpv6Length + kUdpLength];
    const auto udp_length = static_cast<std::uint16_t>(udp_payload_length + kUdpLength);
    std::size_t ip_length;
    if (path.is_ipv4()) {
        ip_length = kIpv4Length;
        bytes[0] = 0x45;
        bytes[1] = 0xff;  // type of service
        store_be16(bytes + 2, static_cast<std::uint16_t>(udp_length + kIpv4Length));
        store_be16(bytes + 4, ip_id);
        store_be16(bytes + 6, dont_fragment ? kDontFragment : 0);
        bytes[8] = 0xff;  // time to live
        bytes[9] = kProtocolUdp;
        store_be16(bytes + 10, 0xffff);  // header checksum
        std::memcpy(bytes + 12, path.source.bytes.data() + 12, 4);
        std::memcpy(bytes + 16, path.destination.bytes.data() + 12, 4);
    } else {
        ip_length = kIpv6Length;
        store_be32(bytes, 0x6fffffff);  // version; traffic class and flow label masked
        store_be16(bytes + 4, udp_length);
        bytes[6] = kProtocolUdp;
        bytes[7] = 0xff;  // hop limit
        std::memcpy(bytes + 8, path.source.bytes.data(), 16);
        std::memcpy(bytes + 24, path.destination.bytes.data(), 16);
    }
    std::uint8_t* udp = bytes + ip_length;
    store_be16(udp, path.udp_source_port);
    store_be16(udp + 2, destination_port);
    store_be16(udp + 4, udp_length);
    store_be16(udp + 6, 0xffff);  // checksum
    return crc32_update_table(kAfterOnes, bytes, ip_length + kUdpLength);
}

std::uint32_t IcrcSeries::behind_head(const std::uint8_t* packet) {
    const std::uint64_t head = load_le64(packet) | std::uint64_t{0xff} << 8 * kBthMaskedByte;
    if (head != head_) {
        std::uint8_t masked[kHead];
        store_le64(masked, head);
        behind_head_ = crc32_update_table(state_, masked, kHead);
        head_ = head;
    }
    return behind_head_;
}

std::uint32_t IcrcSeries::behind(const std::uint8_t* packet, std::uint16_t ip_id) {
    static constexpr IpIdBytes kIpIdAtBth = make_ip_id_bytes(kBehindIpId);
    static constexpr IpIdBytes kIpIdBehindHead = make_ip_id_bytes(kBehindIpId + kHead);
    if (!is_split())
        return icrc_bth(ipv4_ ? state_ ^ of_ip_id(kIpIdAtBth, ip_id) : state_, packet, covered());
    const std::uint32_t head = behind_head(packet);
    const std::uint32_t state = ipv4_ ? head ^ of_ip_id(kIpIdBehindHead, ip_id) : head;
    return crc32_update_table(state, packet + kHead, covered() - kHead);
}

std::uint32_t icrc_bth(std::uint32_t state, const std::uint8_t* packet, std::size_t size) {
    static_assert(kBthLength == kCrc32Head);
    std::uint8_t masked[kBthLength];
    std::memcpy(masked, packet, kBthLength);
    masked[kBthMaskedByte] = 0xff;
    return crc32_update_headed(state, masked, packet + kBthLength, size - kBthLength);
}

std::uint32_t icrc_compute(const Path& path, std::uint16_t destination_port,
                           std::span<const std::uint8_t> udp_payload, std::uint16_t ip_id,
                           bool dont_fragment) {
    std::uint32_t state = icrc_begin(path, destination_port, udp_payload.size(), ip_id, dont_fragment);
    return icrc_end(icrc_bth(state, udp_payload.data(), udp_payload.size() - kIcrcLength));
}

IcrcCheck icrc_verify(const Path& from_sender_view, std::uint16_t destination_port,
                      std::span<const std::uint8_t> udp_payload, std::uint32_t* ip_id_out) {
    if (udp_payload.size() < kSmallest) return IcrcCheck::bad;
    IcrcSeries one(from_sender_view, destination_port, udp_payload.size());
    return icrc_verify(one, udp_payload, 0, ip_id_out);
}

IcrcCheck icrc_verify(IcrcSeries& series, std::span<const std::uint8_t> udp_payload,
                      std::uint16_t likely_ip_id, std::uint32_t* ip_id_out) {
    if (udp_payload.size() < kSmallest) return IcrcCheck::bad;
    const std::size_t covered = udp_payload.size() - kIcrcLength;
    const std::uint32_t state = series.behind(udp_payload.data(), likely_ip_id);
    const std::uint32_t difference = icrc_end(state) ^ load_le32(udp_payload.data() + covered);
    std::uint32_t ip_id = series.ipv4() ? likely_ip_id : 0;
    if (difference != 0) {
        if (!series.ipv4()) return IcrcCheck::bad;
        // What two bytes b0 b1 add to a CRC is (b0 | b1 << 8) pushed on by these two and all following bytes.
        const std::uint32_t at_field = crc32_rewind_zeros(difference, 2 + kBehindIpId + covered);
        if (at_field >> 16 != 0) return IcrcCheck::bad;
        ip_id ^= (at_field & 0xff) << 8 | at_field >> 8;
    }
    if (ip_id_out) *ip_id_out = ip_id;
    return IcrcCheck::good;
}

}  // namespace verbena::wire
