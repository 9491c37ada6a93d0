// IP headers as bytes: what a UD queue pair puts in front of a datagram, and what a capture shows.
#pragma once

#include <cstddef>
#include <cstdint>

#include "wire/path.h"

namespace verbena::wire {

// The Internet checksum (RFC 1071), as a running sum of 16-bit words.
class InternetSum {
   public:
    void add(const void* data, std::size_t size) {
        const auto* bytes = static_cast<const std::uint8_t*>(data);
        for (std::size_t i = 0; i < size; i++, odd_ = !odd_)
            sum_ += odd_ ? bytes[i] : std::uint32_t{bytes[i]} << 8;
    }
    std::uint16_t result() const {
        std::uint64_t folded = sum_;
        while (folded >> 16) folded = (folded & 0xffff) + (folded >> 16);
        return static_cast<std::uint16_t>(~folded);
    }

   private:
    std::uint64_t sum_ = 0;
    bool odd_ = false;
};

inline constexpr std::size_t kIpv4HeaderLength = 20;
inline constexpr std::size_t kIpv6HeaderLength = 40;
inline constexpr std::size_t kUdpHeaderLength = 8;
inline constexpr std::uint8_t kProtocolUdp = 17;

// The header in front of a UDP datagram of `udp_length` bytes (its header included) along `path`; DF is set
// over IPv4. `out` has room for kIpv6HeaderLength. Returns the length: 20 or 40.
std::size_t write_ip_header(const Path& path, std::uint16_t udp_length, std::uint16_t ip_id,
                            std::uint8_t* out);

inline constexpr std::size_t kGrhLength = 40;

// The 40 bytes that a datagram's receiver finds in front of the payload (annex A17.4.5.2): the IPv6 header,
// or 20 zero bytes and the IPv4 header. `udp_payload_length` counts BTH to ICRC. A UDP socket does not see
// the IPv4 identification; it is shown as 0, and the header's checksum agrees with that.
void write_grh(const Path& sender_view, std::size_t udp_payload_length, std::uint8_t* out);

}  // namespace verbena::wire
