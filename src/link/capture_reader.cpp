#include "link/capture_reader.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <span>
#include <tuple>
#include <utility>

#include "link/pcapng.h"
#include "wire/byte_order.h"
#include "wire/icrc.h"

namespace verbena::link {
namespace {

using namespace pcapng;

constexpr std::size_t kEthernetHeader = 14, kTag = 4, kUdpHeader = 8;

std::uint16_t le16(Bytes b, std::size_t at) { return static_cast<std::uint16_t>(b[at] | b[at + 1] << 8); }

struct Interface {
    std::uint16_t link_type = 0;
    std::uint64_t nanoseconds_per_tick = 1000;
};

// Calls visit(code, value) for each option in `options`.
template <class Visit>
void for_each_option(Bytes options, Visit visit) {
    while (options.size() >= 4) {
        std::uint16_t code = le16(options, 0), length = le16(options, 2);
        std::size_t padded = (std::size_t{length} + 3) & ~std::size_t{3};
        if (code == 0 || options.size() < 4 + padded) return;
        visit(code, options.subspan(4, length));
        options = options.subspan(4 + padded);
    }
}

Interface read_interface(Bytes body) {
    Interface interface;
    interface.link_type = le16(body, 0);
    for_each_option(body.subspan(8), [&](std::uint16_t code, Bytes value) {
        if (code == kOptionResolution && !value.empty()) {
            interface.nanoseconds_per_tick = 1;
            for (int power = value[0]; power < 9; power++) interface.nanoseconds_per_tick *= 10;
        }
    });
    return interface;
}

// Named fabrics have ports of their own; there a good ICRC tells RoCE from other traffic.
bool read_udp(Bytes udp, CapturedPacket& packet) {
    if (udp.size() < kUdpHeader) return false;
    const std::uint16_t port = packet.destination_port = wire::load_be16(udp.data() + 2);
    std::size_t length = wire::load_be16(udp.data() + 4);
    if (length < kUdpHeader || length > udp.size()) return false;
    packet.path.udp_source_port = wire::load_be16(udp.data());
    packet.bytes.assign(udp.begin() + kUdpHeader, udp.begin() + static_cast<std::ptrdiff_t>(length));
    return port == wire::kUdpPort ||
           wire::icrc_verify(packet.path, port, packet.bytes) == wire::IcrcCheck::good;
}

bool read_frame(std::uint16_t link_type, Bytes frame, CapturedPacket& packet) {
    if (link_type == kLinkRawIp) return read_ip_packet(frame, packet);
    if (link_type != kLinkEthernet) return false;
    while (frame.size() >= kEthernetHeader) {
        const std::uint16_t type = wire::load_be16(frame.data() + kEthernetHeader - 2);
        if (type == 0x0800 || type == 0x86dd) return read_ip_packet(frame.subspan(kEthernetHeader), packet);
        if (type != 0x8100 && type != 0x88a8) return false;  // no tag of a VLAN (802.1Q, 802.1ad)
        frame = frame.subspan(kTag);
    }
    return false;
}

bool read_packet(Bytes body, const std::vector<Interface>& interfaces, CapturedPacket& packet,
                 unsigned& shortened) {
    if (body.size() < kPacketHeader || le32(body, 0) >= interfaces.size()) return false;
    const Interface& interface = interfaces[le32(body, 0)];
    std::uint64_t ticks = std::uint64_t{le32(body, 4)} << 32 | le32(body, 8);
    packet.nanoseconds = ticks * interface.nanoseconds_per_tick;
    std::size_t captured = le32(body, 12);
    std::size_t padded = (captured + 3) & ~std::size_t{3};
    if (padded > body.size() - kPacketHeader) return false;
    shortened += captured < le32(body, 16);
    for_each_option(body.subspan(kPacketHeader + padded), [&](std::uint16_t code, Bytes value) {
        if (code == kOptionPacketFlags && value.size() == 4)
            packet.direction = static_cast<Direction>(le32(value, 0) & 3);
        if (code == kOptionComment) packet.comment.assign(value.begin(), value.end());
    });
    return read_frame(interface.link_type, body.subspan(kPacketHeader, captured), packet);
}

// The same packet seen leaving and arriving. An order and no hash, which a file could be made to defeat.
struct Contents {
    bool operator()(const CapturedPacket* left, const CapturedPacket* right) const {
        return std::tie(left->path.source, left->path.destination, left->bytes) <
               std::tie(right->path.source, right->path.destination, right->bytes);
    }
};

// An arrival belongs to the last departure before it that has none yet.
void drop_arrivals_already_seen(std::vector<CapturedPacket>& packets) {
    constexpr std::uint64_t kWindow = 1'000'000'000;
    std::map<const CapturedPacket*, std::vector<std::uint64_t>, Contents> departures;  // their times
    std::vector<bool> seen(packets.size(), false);
    for (std::size_t i = 0; i < packets.size(); i++) {
        const CapturedPacket& packet = packets[i];
        if (packet.direction == Direction::outbound) departures[&packet].push_back(packet.nanoseconds);
        if (packet.direction != Direction::inbound) continue;
        const auto found = departures.find(&packet);
        if (found == departures.end()) continue;
        std::vector<std::uint64_t>& times = found->second;
        if (times.empty() || packet.nanoseconds - times.back() >= kWindow) continue;
        times.pop_back();
        seen[i] = true;
    }
    departures.clear();  // it points to the packets, which move now
    std::size_t kept = 0;
    for (std::size_t i = 0; i < packets.size(); i++)
        if (!seen[i] && kept++ != i) packets[kept - 1] = std::move(packets[i]);
    packets.resize(kept);
}

}  // namespace

bool read_ip_packet(Bytes ip, CapturedPacket& packet) {
    if (ip.size() < 20) return false;
    wire::Path& path = packet.path;
    if (ip[0] >> 4 == 4) {
        std::size_t header = std::size_t{ip[0] & 0xfu} * 4;
        if (ip[9] != 17 || header < 20 || header > ip.size()) return false;
        path.source = Gid::from_ipv4(wire::load_be32(ip.data() + 12));
        path.destination = Gid::from_ipv4(wire::load_be32(ip.data() + 16));
        return read_udp(ip.subspan(header), packet);
    }
    if (ip.size() < 40 || ip[6] != 17) return false;
    std::copy_n(ip.begin() + 8, 16, path.source.bytes.begin());
    std::copy_n(ip.begin() + 24, 16, path.destination.bytes.begin());
    return read_udp(ip.subspan(40), packet);
}

bool is_capture(Bytes content) {
    return content.size() >= 28 && le32(content, 0) == kSectionHeader && le32(content, 8) == kByteOrderMagic;
}

std::vector<CapturedPacket> packets_of_capture(Bytes content, CaptureGaps* gaps) {
    std::vector<CapturedPacket> packets;
    std::vector<Interface> interfaces;
    unsigned shortened = 0;
    Blocks blocks(content);
    for (Bytes block; !(block = blocks.next()).empty();) {
        const std::uint32_t type = le32(block, 0);
        const Bytes body = block.subspan(kBlockHeader, block.size() - kBlockHeader - kBlockEnd);
        if (type == kSectionHeader) interfaces.clear();
        if (type == kInterfaceDescription && body.size() >= 8) interfaces.push_back(read_interface(body));
        if (CapturedPacket packet;
            type == kEnhancedPacket && read_packet(body, interfaces, packet, shortened))
            packets.push_back(std::move(packet));
    }
    if (!gaps) return packets;
    gaps->damaged += blocks.gaps();
    gaps->cut_off |= !blocks.rest().empty();
    gaps->shortened += shortened;
    return packets;
}

void merge_captures(std::vector<CapturedPacket>& packets) {
    std::stable_sort(packets.begin(), packets.end(), [](const auto& left, const auto& right) {
        return left.nanoseconds < right.nanoseconds;
    });
    drop_arrivals_already_seen(packets);
}

}  // namespace verbena::link
