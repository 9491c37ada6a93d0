// What has gone over one device's port: the sum of its queue pairs' counters, and what none of them counts.
#pragma once

#include <cstdint>

#include "transport/counters.h"

namespace verbena::adapter {

inline constexpr std::uint32_t kNoDevice = 0xffffffff;  // no host::Device::index

// Plain numbers that only grow.
struct PortTotals {
    transport::QpCounters own;
    // What peers of this host did with the port's queue pairs without asking them: the direct_* counters of
    // queue pairs whose peer is here, seen from this side.
    std::uint64_t mirrored_packets_in, mirrored_bytes_in, mirrored_packets_out, mirrored_bytes_out;
    std::uint64_t receive_errors;  // packets with a bad ICRC, or that are none
    std::uint64_t link_downed;

    void add_mirrored(const transport::QpCounters& peer) {
        mirrored_packets_in += peer.direct_packets_out;
        mirrored_bytes_in += peer.direct_bytes_out;
        mirrored_packets_out += peer.direct_packets_in;
        mirrored_bytes_out += peer.direct_bytes_in;
    }
    PortTotals& operator+=(const PortTotals& other) {
        own += other.own;
        mirrored_packets_in += other.mirrored_packets_in;
        mirrored_bytes_in += other.mirrored_bytes_in;
        mirrored_packets_out += other.mirrored_packets_out;
        mirrored_bytes_out += other.mirrored_bytes_out;
        receive_errors += other.receive_errors;
        link_downed += other.link_downed;
        return *this;
    }
};

}  // namespace verbena::adapter
