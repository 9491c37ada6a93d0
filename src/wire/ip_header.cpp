#include "wire/ip_header.h"

#include <cstring>

#include "wire/byte_order.h"

namespace verbena::wire {

std::size_t write_ip_header(const Path& path, std::uint16_t udp_length, std::uint16_t ip_id,
                            std::uint8_t* out) {
    constexpr std::uint16_t kDontFragment = 0x4000;
    std::memset(out, 0, kIpv6HeaderLength);
    if (path.is_ipv4()) {
        out[0] = 0x45;
        out[1] = path.traffic_class;
        store_be16(out + 2, static_cast<std::uint16_t>(kIpv4HeaderLength + udp_length));
        store_be16(out + 4, ip_id);
        store_be16(out + 6, kDontFragment);
        out[8] = path.hop_limit;
        out[9] = kProtocolUdp;
        std::memcpy(out + 12, path.source.bytes.data() + 12, 4);
        std::memcpy(out + 16, path.destination.bytes.data() + 12, 4);
        InternetSum sum;
        sum.add(out, kIpv4HeaderLength);
        store_be16(out + 10, sum.result());
        return kIpv4HeaderLength;
    }
    out[0] = static_cast<std::uint8_t>(0x60 | path.traffic_class >> 4);
    out[1] = static_cast<std::uint8_t>(path.traffic_class << 4);
    store_be16(out + 4, udp_length);
    out[6] = kProtocolUdp;
    out[7] = path.hop_limit;
    std::memcpy(out + 8, path.source.bytes.data(), 16);
    std::memcpy(out + 24, path.destination.bytes.data(), 16);
    return kIpv6HeaderLength;
}

void write_grh(const Path& sender_view, std::size_t udp_payload_length, std::uint8_t* out) {
    std::uint8_t header[kIpv6HeaderLength];
    const std::size_t length = write_ip_header(
        sender_view, static_cast<std::uint16_t>(udp_payload_length + kUdpHeaderLength), 0, header);
    std::memset(out, 0, kGrhLength - length);
    std::memcpy(out + kGrhLength - length, header, length);
}

}  // namespace verbena::wire
