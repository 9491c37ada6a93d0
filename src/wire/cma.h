// What rdma_cm adds to the CM's messages (IBA annex A11, RDMA IP CM service): service ids made of port space
// and port, and a 36-byte header with the IP addresses in front of the user's private data of REQ and
// SIDR_REQ.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/gid.h"

namespace verbena::wire {

inline constexpr std::size_t kCmaHeaderLength = 36;

struct CmaHeader {
    std::uint8_t cma_version = 0;  // the byte as it is; only 0 exists
    std::uint8_t ip_version = 4;   // 4 bits: 4 or 6
    std::uint8_t reserved1 = 0;    // 4 bits
    std::uint16_t port = 0;        // the source's
    // As on the wire: IPv6, or IPv4 in the last four bytes behind twelve zero bytes (which is no v4-mapped
    // GID).
    std::array<std::uint8_t, 16> source{};
    std::array<std::uint8_t, 16> destination{};

    friend bool operator==(const CmaHeader&, const CmaHeader&) = default;

    // The addresses as GIDs, v4-mapped if ip_version is 4; setting them sets ip_version from both.
    Gid source_gid() const;
    Gid destination_gid() const;
    void set_addresses(const Gid& from, const Gid& to);
};

void encode(const CmaHeader& header, std::span<std::uint8_t, kCmaHeaderLength> out);
// False if the version is not 0 or the IP version neither 4 nor 6; `out` is filled all the same.
bool decode(std::span<const std::uint8_t, kCmaHeaderLength> in, CmaHeader& out);

// rdma_cm's port spaces. A service id is 32 zero bits, the port space and the port; all but IPoIB's thereby
// begin with the five bytes 00 00 00 00 01 that annex A11 reserves for IP services.
inline constexpr std::uint16_t kPortSpaceIpoib = 0x0002;
inline constexpr std::uint16_t kPortSpaceTcp = 0x0106;
inline constexpr std::uint16_t kPortSpaceUdp = 0x0111;
inline constexpr std::uint16_t kPortSpaceIb = 0x013f;

constexpr std::uint64_t service_id(std::uint16_t port_space, std::uint16_t port) {
    return std::uint64_t{port_space} << 16 | port;
}
// True if the service id is rdma_cm's: its private data then begins with a CmaHeader.
constexpr bool is_ip_service(std::uint64_t id) { return id >> 24 == 1 || id >> 16 == kPortSpaceIpoib; }
constexpr std::uint16_t service_port_space(std::uint64_t id) { return static_cast<std::uint16_t>(id >> 16); }
constexpr std::uint16_t service_port(std::uint64_t id) { return static_cast<std::uint16_t>(id); }

static_assert(service_id(kPortSpaceTcp, 0x1d51) == 0x0000000001061d51 && is_ip_service(0x0000000001061d51));

}  // namespace verbena::wire
