// Captures of other programs in the form that link::packets_of_capture() reads: classic pcap files become
// pcapng, and packets of tcpdump's "any" device (Linux cooked, SLL and SLL2) raw IP.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "link/capture_reader.h"

namespace verbena::report {

// Whether a file that begins with these bytes is a pcap file, of either byte order and resolution.
bool is_classic_pcap(std::span<const std::uint8_t> content);

// What could not be read of a capture.
struct Unread {
    std::map<unsigned, unsigned> links;  // packets, by their link type
    link::CaptureGaps gaps;
};

std::vector<std::uint8_t> from_classic_pcap(std::span<const std::uint8_t> content, Unread& unread);
// Whether a pcapng file has packets of other link types than Ethernet and raw IP. Others can be read as they
// are.
bool has_other_links(std::span<const std::uint8_t> content);
// Of such a file.
std::vector<std::uint8_t> without_link_headers(std::span<const std::uint8_t> content, Unread& unread);

// "3 packets of link type 105: not read, since ..."
std::vector<std::string> sentences_of(const Unread& unread);

}  // namespace verbena::report
