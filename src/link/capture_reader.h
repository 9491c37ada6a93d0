// Reads RoCE v2 packets out of pcapng files (Ethernet or raw IP), as far as the tools need them; a file may
// be half written.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "wire/path.h"

namespace verbena::link {

enum class Direction : std::uint8_t { unknown, inbound, outbound };

struct CapturedPacket {
    std::uint64_t nanoseconds = 0;  // since 1970
    Direction direction = Direction::unknown;
    wire::Path path;  // as the sender saw it
    std::uint16_t destination_port = 0;
    std::vector<std::uint8_t> bytes;  // UDP payload: BTH to ICRC
    std::string comment;              // of who captured it, for instance what a plan of faults did to it
};

// An IP packet that carries RoCE v2: false if it carries something else.
bool read_ip_packet(std::span<const std::uint8_t> ip, CapturedPacket& packet);

// Whether a file that begins with these bytes is a pcapng file of this byte order.
bool is_capture(std::span<const std::uint8_t> content);

// What a capture lacks.
struct CaptureGaps {
    unsigned damaged = 0;    // places that are no whole block, but for the end
    bool cut_off = false;    // its last block is not whole: it was being written
    unsigned shortened = 0;  // packets that were captured in part (snapshot length)
};

// The RoCE v2 packets of a pcapng file's content, in its order; what it lacks is added to `gaps`.
std::vector<CapturedPacket> packets_of_capture(std::span<const std::uint8_t> content,
                                               CaptureGaps* gaps = nullptr);

// Sorts by time; a packet that was captured both where it left and where it arrived is there once, as it
// left.
void merge_captures(std::vector<CapturedPacket>& packets);

}  // namespace verbena::link
