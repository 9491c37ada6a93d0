#include "pcap_reader.h"

#include <cstring>
#include <fstream>
#include <iterator>
#include <span>

#include "wire/byte_order.h"

namespace verbena::golden {
namespace {

using Bytes = std::span<const std::uint8_t>;

constexpr std::uint32_t kMagicMicroseconds = 0xa1b2c3d4;  // little-endian file
constexpr std::uint32_t kLinkEthernet = 1;
constexpr std::size_t kFileHeader = 24;
constexpr std::size_t kRecordHeader = 16;
constexpr std::size_t kEthernet = 14;
constexpr std::uint16_t kEtherIpv4 = 0x0800;
constexpr std::uint16_t kEtherIpv6 = 0x86dd;
constexpr std::uint8_t kUdp = 17;
constexpr std::size_t kIpv4 = 20;
constexpr std::size_t kIpv6 = 40;
constexpr std::size_t kUdpHeader = 8;

// False: not UDP over IPv4 without options or IPv6 without extension headers.
bool read_ip(Bytes frame, Datagram& out, Bytes& udp) {
    if (frame.size() < kEthernet + kIpv4) return false;
    std::uint16_t type = wire::load_be16(frame.data() + 12);
    Bytes ip = frame.subspan(kEthernet);
    if (type == kEtherIpv4 && ip[0] == 0x45 && ip[9] == kUdp) {
        out.path.traffic_class = ip[1];
        out.ip_id = wire::load_be16(ip.data() + 4);
        out.dont_fragment = wire::load_be16(ip.data() + 6) == 0x4000;
        out.path.hop_limit = ip[8];
        out.path.source = Gid::from_ipv4(wire::load_be32(ip.data() + 12));
        out.path.destination = Gid::from_ipv4(wire::load_be32(ip.data() + 16));
        udp = ip.subspan(kIpv4);
    } else if (type == kEtherIpv6 && ip.size() >= kIpv6 && ip[6] == kUdp) {
        out.path.traffic_class = static_cast<std::uint8_t>(wire::load_be16(ip.data()) >> 4);
        out.path.hop_limit = ip[7];
        std::memcpy(out.path.source.bytes.data(), ip.data() + 8, 16);
        std::memcpy(out.path.destination.bytes.data(), ip.data() + 24, 16);
        udp = ip.subspan(kIpv6);
    } else {
        return false;
    }
    return udp.size() >= kUdpHeader;
}

}  // namespace

std::vector<Datagram> read_capture(const std::string& file, std::string& error) {
    std::vector<Datagram> datagrams;
    std::ifstream stream(file, std::ios::binary);
    const std::vector<char> raw{std::istreambuf_iterator<char>(stream), {}};
    std::vector<std::uint8_t> bytes(raw.begin(), raw.end());
    Bytes rest(bytes);
    if (rest.size() < kFileHeader || wire::load_le32(rest.data()) != kMagicMicroseconds ||
        wire::load_le32(rest.data() + 20) != kLinkEthernet) {
        error = file + " is no little-endian pcap file of Ethernet frames";
        return {};
    }
    rest = rest.subspan(kFileHeader);
    for (unsigned number = 1; !rest.empty(); number++) {
        if (rest.size() < kRecordHeader || rest.size() - kRecordHeader < wire::load_le32(rest.data() + 8)) {
            error = file + " ends inside a packet";
            return {};
        }
        Bytes frame = rest.subspan(kRecordHeader, wire::load_le32(rest.data() + 8));
        rest = rest.subspan(kRecordHeader + frame.size());
        Datagram d;
        Bytes udp;
        if (!read_ip(frame, d, udp)) continue;
        d.path.udp_source_port = wire::load_be16(udp.data());
        d.destination_port = wire::load_be16(udp.data() + 2);
        if (d.destination_port != wire::kUdpPort) continue;
        std::size_t length = wire::load_be16(udp.data() + 4);
        if (length < kUdpHeader || length > udp.size()) {
            error = file + ": a datagram was captured in part only";
            return {};
        }
        Bytes payload = udp.subspan(kUdpHeader, length - kUdpHeader);
        d.payload.assign(payload.begin(), payload.end());
        d.number = number;
        datagrams.push_back(std::move(d));
    }
    return datagrams;
}

}  // namespace verbena::golden
