// Every field of a packet by header, for people who look at one packet: names as the InfiniBand Architecture
// Specification has them, values as text. Not for data paths: it allocates. One line of a packet: describe.h.
#pragma once

#include <string>
#include <vector>

#include "wire/mad.h"
#include "wire/packet.h"
#include "wire/path.h"

namespace verbena::wire {

struct Field {
    const char* header;  // "BTH", "RETH", "MAD", "REQ", "CMA", "payload" ...
    const char* name;    // "Destination QP"
    std::string value;   // "0x000011"
};

// Headers in the order of the wire. A UD SEND to QP1 whose payload is a CM MAD goes on with its message's
// fields.
std::vector<Field> fields(const Packet& packet);

// Of the datagram around it: addresses and UDP ports.
std::vector<Field> fields(const Path& path, std::uint16_t destination_port);

// A whole MAD.
std::vector<Field> fields(std::span<const std::uint8_t, kMadLength> mad);

// Of the field, or "" if there is none.
const std::string& value_of(const std::vector<Field>& fields, const char* header, const char* name);

// "68 65 6c 6c 6f", of `limit` bytes at most, with " ... (N bytes)" behind if there are more.
std::string hex(std::span<const std::uint8_t> bytes, std::size_t limit);

// The same bytes as characters, a dot for each that is no printable ASCII.
std::string characters(std::span<const std::uint8_t> bytes, std::size_t limit);

}  // namespace verbena::wire
