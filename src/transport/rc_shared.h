// What the requester and the responder of one RC queue pair share.
#pragma once

#include "transport/queue_pair.h"

namespace verbena::transport {

inline constexpr std::uint64_t kMaxMessage = std::uint64_t{1} << 31;  // IBA 9.7.4.1.4 / 11.2.4: 2^31 bytes
inline constexpr std::uint16_t kDefaultPkey = 0xffff;

struct RcShared {
    const QpSetup& setup;
    const Attributes& attributes;
    QpCounters& counters;
    QueuePair& queue_pair;

    std::uint32_t mtu() const { return attributes.path_mtu; }
    const memory::RegionTable& regions() const { return *setup.regions; }
    void event(QpEvent e) const {
        if (setup.listener) setup.listener->qp_event(queue_pair, e);
    }
};

// PSNs that a message, or a READ's response, of `length` bytes takes: an empty one takes one too (IBA 9.7.2).
constexpr std::uint32_t packets_of(std::uint64_t length, std::uint32_t mtu) {
    return length == 0 ? 1 : static_cast<std::uint32_t>((length + mtu - 1) / mtu);
}

// The fields that are equal in all packets of a queue pair. MigReq is 1 as adapters send it (IBA 17.2.8.1.2:
// migrated).
inline void address(wire::Bth& bth, const RcShared& shared, wire::Opcode opcode, std::uint32_t psn) {
    bth.opcode = opcode;
    bth.migration_request = true;
    bth.pkey = kDefaultPkey;
    bth.destination_qp = shared.attributes.destination_qp;
    bth.psn = psn;
}

inline void send_packet(wire::PacketSink& sink, RcShared& shared, wire::Headers& headers,
                        std::span<const iovec> payload, std::uint32_t payload_length,
                        bool sent_before = false) {
    wire::OutPacket out;
    out.snapshot = sent_before;
    out.path = &shared.attributes.path;
    out.pad_count = wire::pad_for(payload_length);
    headers.bth.pad_count = out.pad_count;
    out.header_length = static_cast<std::uint8_t>(wire::emit(headers, out.header.data()));
    out.payload = payload;
    shared.counters.packets_sent++;
    shared.counters.bytes_sent += payload_length;
    sink.send(out);
}

}  // namespace verbena::transport
