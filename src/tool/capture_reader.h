// Reads RoCE v2 packets out of pcapng files (Ethernet or raw IP), as far as the tools need them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "wire/path.h"

namespace verbena::tool {

enum class Direction : std::uint8_t { unknown, inbound, outbound };

struct CapturedPacket {
    std::uint64_t nanoseconds = 0;  // since 1970
    Direction direction = Direction::unknown;
    wire::Path path;                  // as the sender saw it
    std::vector<std::uint8_t> bytes;  // UDP payload: BTH to ICRC
};

// RoCE v2 packets of all files, in order of time. A packet that was captured both where it left and where
// it arrived is there once. False with a message in `error` if a file cannot be read or is not pcapng.
bool read_captures(const std::vector<std::string>& files, std::vector<CapturedPacket>& packets,
                   std::string& error);

}  // namespace verbena::tool
