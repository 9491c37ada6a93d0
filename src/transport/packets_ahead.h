// Packets that came although others in front of them are missing, lost or overtaken on their way. They are
// kept until those have come, so that a loss costs one packet and one round trip, not all that was under way.
// To whom they are for it is as if all had come in order: a responder may drop what comes from behind a gap
// (IBA 9.7.4.1.1), and need not.
//
// Thread safety: the queue pair's lock.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "transport/flow.h"
#include "wire/packet.h"
#include "wire/psn.h"

namespace verbena::transport {

// A packet that outlives what it came in.
struct KeptPacket {
    wire::Headers headers;
    std::vector<std::uint8_t> payload;
    std::uint32_t psns = 1;

    wire::Packet view() const {
        wire::Packet packet;
        packet.headers = headers;
        packet.payload = payload;
        packet.aside.psns = psns;
        return packet;
    }
};

class PacketsAhead {
   public:
    // Bytes, counted as a window counts what is in flight: of a queue pair, and of all in the process.
    static constexpr std::size_t kMost = Flow::kMaximumWindow, kMostOfAll = 64 * kMost;
    static constexpr std::int32_t kFarthest = 1 << 14;  // packets: beyond it is a ghost of another connection

    PacketsAhead() = default;
    ~PacketsAhead() { clear(); }
    PacketsAhead(const PacketsAhead&) = delete;
    PacketsAhead& operator=(const PacketsAhead&) = delete;

    bool empty() const { return packets_.empty(); }
    // One that is ahead of the `expected`. False: there is no room for it. Its payload must be in it.
    bool keep(const wire::Packet& packet, std::uint32_t expected);
    // The one with that PSN; those in front of it are dropped.
    std::optional<KeptPacket> take(std::uint32_t psn);
    void clear();

   private:
    struct Before {
        bool operator()(std::uint32_t a, std::uint32_t b) const { return wire::psn_less(a, b); }
    };
    static std::size_t size_of(std::size_t payload) { return payload + Flow::kPacketOverhead; }
    void count(std::size_t added, std::size_t removed);

    std::map<std::uint32_t, KeptPacket, Before> packets_;  // by PSN
    std::size_t bytes_ = 0;
    static std::atomic<std::size_t> bytes_of_all_;
};

}  // namespace verbena::transport
