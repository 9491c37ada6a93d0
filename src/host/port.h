// A device's one port as every view of it tells: ibv_query_port(3), the files of sysfs, `rdma link`.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "host/device_table.h"

namespace verbena::host {

inline constexpr const char* kBoardId = "VERBENA0001";

// The bits of CapabilityMask that are set: CM and IP-based GIDs.
inline constexpr std::uint32_t kPortCapabilities = 1u << 16 | 1u << 26;

struct Port {
    std::uint8_t state = 1;       // ibv_port_state: 1 DOWN, 4 ACTIVE
    std::uint8_t phys_state = 3;  // 3 disabled, 5 link up
    // A lane's speed and the number of lanes, as codes of the port attributes: those whose product comes
    // nearest to the interface's speed without exceeding it.
    std::uint8_t active_speed = 4;
    std::uint8_t active_width = 1;
    std::uint32_t speed = 0;  // Mbit/s, of the interface
};

Port port_of(const Device& device);

// As sysfs writes them: "4: ACTIVE", "5: LinkUp", "10 Gb/sec (1X QDR)".
std::string state_text(const Port& port);
std::string phys_state_text(const Port& port);
std::string rate_text(const Port& port);

// EUI-64 of a MAC address, in network byte order (the universal/local bit inverted, ff:fe in the middle): the
// GUID of the device of an interface with that address.
std::uint64_t eui64(const std::array<std::uint8_t, 6>& mac);

// "0242:acff:fe11:0002"
std::string guid_text(std::uint64_t network_order);

}  // namespace verbena::host
