// Captures of other programs in the form that link::packets_of_capture() reads: classic pcap files become
// pcapng, and packets of tcpdump's "any" device (Linux cooked, SLL and SLL2) raw IP.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace verbena::report {

// Whether a file that begins with these bytes is a pcap file, of either byte order and resolution.
bool is_classic_pcap(std::span<const std::uint8_t> content);

// Packets of link types that are not read, by type.
using Unread = std::map<unsigned, unsigned>;

std::vector<std::uint8_t> from_classic_pcap(std::span<const std::uint8_t> content, Unread& unread);
// Whether a pcapng file has packets of other link types than Ethernet and raw IP. Others can be read as they
// are.
bool has_other_links(std::span<const std::uint8_t> content);
// Of such a file. What is half written at its end is left out.
std::vector<std::uint8_t> without_link_headers(std::span<const std::uint8_t> content, Unread& unread);

// "3 packets of link type 105 were not read"; empty if there are none.
std::string sentence_of(const Unread& unread);

}  // namespace verbena::report
