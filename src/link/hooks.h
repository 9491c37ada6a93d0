// The one point that every packet passes, sent or received: an observer (capture, the tools) sees it whole,
// with the addresses and the IP identification that its ICRC counts; and a plan of faults may take packets
// out, hold them back or add some. Off, each costs one load.
//
// Thread safety: both are called from any thread, several at once, may be set while packets flow, and live as
// long as the process.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>

#include "base/time.h"
#include "wire/packet_sink.h"
#include "wire/path.h"

namespace verbena::link {

struct PacketEvent {
    bool sent = false;
    const wire::Path* path = nullptr;  // as the sender sees it, with the UDP source port really used
    std::uint16_t destination_port = wire::kUdpPort;
    std::uint16_t ip_id = 0;              // IPv4: as sent, or as solved from the ICRC received
    std::span<const std::uint8_t> bytes;  // the UDP payload, BTH to ICRC
    const char* note = nullptr;           // what a plan of faults did to it
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

// What a plan of faults does to the packets of one queue pair. Under the queue pair's lock, with the
// adapter's time.
class PacketFaults {
   public:
    virtual ~PacketFaults() = default;

    // A way for packets that leave, in front of `way`; used up with its flush(). What was held back until now
    // goes first.
    virtual std::unique_ptr<wire::PacketSink> before(wire::PacketSink& way, std::uint32_t qp_number,
                                                     Time now) = 0;

    enum class Arrival : std::uint8_t { passes, lost, damaged, twice };
    // A packet has arrived. Lost: or held back.
    virtual Arrival arrives(std::uint32_t qp_number, const wire::Packet& packet, const wire::Path& path,
                            Time now) = 0;

    // An arrival that was held back or made up, and whose time has come; null: there is none.
    struct Late {
        wire::Packet packet;
        wire::Path path;
        virtual ~Late() = default;
    };
    virtual std::unique_ptr<Late> late(std::uint32_t qp_number, Time now) = 0;

    // When something is due that is held back, in either direction.
    virtual Time next_deadline(std::uint32_t qp_number) = 0;
};

inline std::atomic<PacketFaults*> packet_faults_slot{nullptr};

inline PacketFaults* packet_faults() { return packet_faults_slot.load(std::memory_order_acquire); }
inline void set_packet_faults(PacketFaults* faults) {
    packet_faults_slot.store(faults, std::memory_order_release);
}

// Whether somebody looks at packets, so that there have to be some: what peers of one host could do without
// them leaves as packets.
inline bool packets_wanted() { return packet_observer() != nullptr || packet_faults() != nullptr; }

}  // namespace verbena::link
