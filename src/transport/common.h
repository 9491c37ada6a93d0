// What the queue pairs of all services do alike.
//
// Thread safety: the queue pair's lock.
#pragma once

#include "transport/queue_pair.h"
#include "transport/vendor_error.h"
#include "wire/bth.h"

namespace verbena::transport {

using wire::kDefaultPkey;
using wire::pkey_matches;

// The attributes that `mask` names; the states are not among them.
void take_attributes(Attributes& to, const Attributes& from, std::uint32_t mask);

// IBA 10.3.1.1: nothing is said any more about the requests of a queue pair that goes to the reset state.
// What its queues have not given out yet is dropped, as adapters do.
void forget_completions(const QpSetup& setup);

// IBA 10.3.1.7: what waits in the queue pair's own receive queue completes, in order, as flushed. A shared
// one is left alone (IBA 10.2.9).
void flush_receives(const QpSetup& setup, Time now);

// `operation`: one of ours that ended, or Counted.
inline void count_completed(const QpSetup& setup, auto operation, bool success, std::uint64_t bytes) {
    if (setup.is_counted) [[unlikely]]
        setup.counted->count(operation, success, bytes);
}

inline void count_sent(const wire::OutPacket& out, std::uint32_t payload_length, BusyCounters& counters) {
    counters.packets_sent += out.aside.psns;
    counters.bytes_sent += payload_length;
    counters.wire_bytes_sent +=
        (out.header_length + wire::kIcrcLength) * out.aside.psns + payload_length + out.pad_count;
}

// Pads, counts and gives one packet to the sink.
inline void send_packet(wire::PacketSink& sink, const wire::Path& path, wire::Headers& headers,
                        std::span<const iovec> payload, std::uint32_t payload_length, BusyCounters& counters,
                        bool alone = false, const wire::Aside& aside = {}) {
    wire::OutPacket out;
    out.alone = alone;
    out.aside = aside;
    out.path = &path;
    out.pad_count = wire::pad_for(payload_length);
    headers.bth.pad_count = out.pad_count;
    out.header_length = static_cast<std::uint8_t>(wire::emit(headers, out.header.data()));
    out.payload = payload;
    count_sent(out, payload_length, counters);
    sink.send(out);
}

// A receive request that ends in an error.
void complete_receive_in_error(const QpSetup& setup, std::uint64_t wr_id, completion::Status status,
                               VendorError error, Time now);

}  // namespace verbena::transport
