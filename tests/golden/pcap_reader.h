// Reads RoCE v2 datagrams out of a classic pcap file (Ethernet, IPv4 or IPv6 without options). For tests
// only: the files are trusted, and one that does not look as expected is an error with its reason.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "wire/path.h"

namespace verbena::golden {

struct Datagram {
    wire::Path path;  // source is the sender
    std::uint16_t destination_port = 0;
    std::uint16_t ip_id = 0;  // 0 over IPv6
    bool dont_fragment = false;
    std::vector<std::uint8_t> payload;  // of UDP: BTH to ICRC
    unsigned number = 0;                // of the packet in its file, from 1
};

// The datagrams to UDP port 4791. An empty `error` means success.
std::vector<Datagram> read_capture(const std::string& file, std::string& error);

}  // namespace verbena::golden
