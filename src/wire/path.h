// Where a packet goes: the two addresses, the interface, and the UDP source port that names the flow.
//
// The hashes are Linux's own, so that both directions of a connection, and two peers of which only one is
// Verbena, choose the same port (IBA annex A17 leaves the choice to the implementation; 0xC000..0xFFFF).
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "base/gid.h"

namespace verbena::wire {

inline constexpr std::uint16_t kUdpPort = 4791;               // annex A17: RoCE v2's destination port
inline constexpr std::uint16_t kFirstUdpSourcePort = 0xc000;  // the low 14 bits are the flow's
inline constexpr std::uint32_t kFlowLabelMask = 0xfffff;
inline constexpr std::uint8_t kDefaultHopLimit = 64;

struct Path {
    Gid source;
    Gid destination;
    std::uint32_t interface_index = 0;
    std::uint16_t udp_source_port = kFirstUdpSourcePort;
    std::uint8_t traffic_class = 0;
    std::uint8_t hop_limit = kDefaultHopLimit;

    // IPv4 iff both GIDs are v4-mapped.
    bool is_ipv4() const { return source.is_ipv4() && destination.is_ipv4(); }
    // In three pieces, which takes a quarter of what field by field does.
    friend bool operator==(const Path& a, const Path& b) {
        const Addresses differ = (a.at<Addresses>(0) ^ b.at<Addresses>(0)) |
                                 (a.at<Addresses>(sizeof(Gid)) ^ b.at<Addresses>(sizeof(Gid)));
        return (differ[0] | differ[1] | (a.at<Rest>(2 * sizeof(Gid)) ^ b.at<Rest>(2 * sizeof(Gid)))) == 0;
    }

   private:
    using Rest = std::uint64_t;
    typedef Rest Addresses [[gnu::vector_size(sizeof(Gid))]];
    template <class Piece>
    Piece at(std::size_t offset) const {
        Piece piece;
        std::memcpy(&piece, reinterpret_cast<const std::uint8_t*>(this) + offset, sizeof piece);
        return piece;
    }
};
static_assert(std::has_unique_object_representations_v<Path> &&
              sizeof(Path) == 2 * sizeof(Gid) + sizeof(std::uint64_t));

// Folds a 20-bit flow label into 14 bits.
constexpr std::uint16_t udp_source_port(std::uint32_t flow_label) {
    return static_cast<std::uint16_t>(((flow_label ^ (flow_label & kFlowLabelMask) >> 14) & 0x3fff) |
                                      kFirstUdpSourcePort);
}

// RC and UC without a flow label of their own; symmetric in its arguments.
constexpr std::uint32_t flow_label_from_qpns(std::uint32_t local, std::uint32_t remote) {
    std::uint64_t v = std::uint64_t{local} * remote;
    v ^= v >> 20;
    v ^= v >> 40;
    return static_cast<std::uint32_t>(v) & kFlowLabelMask;
}

// What rdma_cm puts into the REQ, from the two port numbers.
constexpr std::uint32_t flow_label_from_ports(std::uint16_t client, std::uint16_t server) {
    return (std::uint32_t{client} * 31 + server) & kFlowLabelMask;
}

// A UD QP (QP1 too) has no peer: its own number decides.
constexpr std::uint16_t udp_source_port_for_ud(std::uint32_t qpn) {
    return static_cast<std::uint16_t>(kFirstUdpSourcePort + (qpn * std::uint32_t{0x61c88647} >> 18));
}

static_assert(udp_source_port_for_ud(1) == 55410);

}  // namespace verbena::wire
