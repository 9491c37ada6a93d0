#include "host/port.h"

#include <cstdio>
#include <cstring>

namespace verbena::host {
namespace {

struct Lane {
    std::uint32_t megabits;
    std::uint8_t code;
    const char* name;  // behind "1X"
};
constexpr Lane kLanes[] = {{2500, 1, ""},        {5000, 2, " DDR"},   {10000, 4, " QDR"},
                           {14000, 16, " FDR"},  {25000, 32, " EDR"}, {50000, 64, " HDR"},
                           {100000, 128, " NDR"}};
struct Width {
    std::uint32_t lanes;
    std::uint8_t code;
};
constexpr Width kWidths[] = {{1, 1}, {4, 2}, {8, 4}, {12, 8}};

// Ethernets of that speed and more have several lanes, for Linux.
constexpr std::uint32_t kFourLanesFrom = 100000;
constexpr std::uint32_t kUnknownSpeed = 10000;  // Mbit/s, for an interface that does not tell

}  // namespace

Port port_of(const Device& device) {
    Port port;
    if (device.active) {
        port.state = 4;
        port.phys_state = 5;
    }
    const std::uint32_t megabits = port.speed = device.speed ? device.speed : kUnknownSpeed;
    std::uint32_t best = 0;
    for (const Width& width : kWidths)
        for (const Lane& lane : kLanes)
            if (std::uint32_t total = width.lanes * lane.megabits;
                total <= megabits && total > best && (width.lanes > 1 || total < kFourLanesFrom)) {
                best = total;
                port.active_width = width.code;
                port.active_speed = lane.code;
            }
    return port;
}

std::string state_text(const Port& port) { return port.state == 4 ? "4: ACTIVE" : "1: DOWN"; }

std::string phys_state_text(const Port& port) { return port.phys_state == 5 ? "5: LinkUp" : "3: Disabled"; }

std::string rate_text(const Port& port) {
    Lane lane = kLanes[0];
    Width width = kWidths[0];
    for (const Lane& known : kLanes)
        if (known.code == port.active_speed) lane = known;
    for (const Width& known : kWidths)
        if (known.code == port.active_width) width = known;
    const std::uint32_t total = lane.megabits * width.lanes;
    char text[48];
    std::snprintf(text, sizeof text, "%u%s Gb/sec (%uX%s)", total / 1000, total % 1000 ? ".5" : "",
                  width.lanes, lane.name);
    return text;
}

std::uint64_t eui64(const std::array<std::uint8_t, 6>& mac) {
    const std::uint8_t bytes[8] = {
        static_cast<std::uint8_t>(mac[0] ^ 2), mac[1], mac[2], 0xff, 0xfe, mac[3], mac[4], mac[5]};
    std::uint64_t guid;
    std::memcpy(&guid, bytes, sizeof guid);
    return guid;
}

std::string guid_text(std::uint64_t network_order) {
    std::uint8_t b[8];
    std::memcpy(b, &network_order, sizeof b);
    char text[20];
    std::snprintf(text, sizeof text, "%02x%02x:%02x%02x:%02x%02x:%02x%02x", b[0], b[1], b[2], b[3], b[4],
                  b[5], b[6], b[7]);
    return text;
}

}  // namespace verbena::host
