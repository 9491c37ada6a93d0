// The one point that every packet passes, sent or received: an observer (capture, the tools) sees it whole,
// with the addresses and the IP identification that its ICRC counts. Off, it costs one load.
//
// Thread safety: the observer is called from any thread, several at once. It is set before packets flow and
// outlives them.
#pragma once

#include <sys/uio.h>

#include <atomic>
#include <cstdint>
#include <span>

#include "wire/path.h"

namespace verbena::link {

struct PacketEvent {
    bool sent = false;
    const wire::Path* path = nullptr;  // as the sender sees it, with the UDP source port really used
    std::uint16_t destination_port = wire::kUdpPort;
    std::uint16_t ip_id = 0;        // IPv4: as sent, or as solved from the ICRC received
    std::span<const iovec> pieces;  // the UDP payload, BTH to ICRC
};

class PacketObserver {
   public:
    virtual ~PacketObserver() = default;
    virtual void packet(const PacketEvent& event) = 0;
};

inline std::atomic<PacketObserver*> packet_observer_slot{nullptr};

inline PacketObserver* packet_observer() { return packet_observer_slot.load(std::memory_order_acquire); }
inline void set_packet_observer(PacketObserver* observer) {
    packet_observer_slot.store(observer, std::memory_order_release);
}

}  // namespace verbena::link
