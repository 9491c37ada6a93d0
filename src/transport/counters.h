// What a queue pair counts: plain numbers that only grow. In a program the counters lie in the process's
// exported tables, where tools read them (adapter/segment.h): the queue pair writes them under its lock, by
// plain stores; readers in other processes take what they find, and sum.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace verbena::transport {

// What every message changes: a line of the cache.
struct BusyCounters {
    // Packets, and the bytes of their payload.
    std::uint64_t packets_sent, packets_received, bytes_sent, bytes_received;
    std::uint64_t wire_bytes_sent, wire_bytes_received;  // from BTH to ICRC
    std::uint64_t messages_sent;                         // SENDs that completed, of whatever kind
    std::uint64_t messages_received;                     // receive requests that completed with a message
};
static_assert(sizeof(BusyCounters) == 64);

struct RareCounters {
    std::uint64_t multicast_sent, multicast_received;  // packets, among the above
    // Requester.
    std::uint64_t retransmitted, timeouts, probes;
    std::uint64_t stale_responses, implied_naks, rnr_naks_received, naks_received, sequence_naks_received;
    std::uint64_t retries_exceeded, rnr_retries_exceeded;
    std::uint64_t send_errors;  // requests that failed, those flushed not among them
    // Responder.
    std::uint64_t duplicates, out_of_sequence, rnr_naks_sent, naks_sent;
    std::uint64_t dropped;
    // WRITEs and READs that the link executed by itself (direct_access.h), as the packets that they would
    // have been, and their payload. The peer takes no part and counts nothing: who sums a host's ports adds
    // them to the peer's, too.
    std::uint64_t direct_packets_out, direct_bytes_out, direct_packets_in, direct_bytes_in;
};

struct QpCounters : BusyCounters, RareCounters {
    QpCounters& operator+=(const QpCounters& other) {
        using Numbers = std::array<std::uint64_t, sizeof(QpCounters) / sizeof(std::uint64_t)>;
        auto sum = std::bit_cast<Numbers>(*this);
        const auto more = std::bit_cast<Numbers>(other);
        for (std::size_t i = 0; i < sum.size(); i++) sum[i] += more[i];
        return *this = std::bit_cast<QpCounters>(sum);
    }
};

}  // namespace verbena::transport
