// Which peers are known to take our bursts whole: Verbena on this machine, in another network namespace.
// Towards them an acknowledgement may ride behind an answer in one burst (burst.cpp), which saves a packet's
// way through the kernel for each message; any other peer takes packets one by one and would complete the
// receive of the answer before the request that was answered, and programs count on the opposite order.
//
// How it is known: the first acknowledgements to a peer are sent twice, as a burst of two, the second with a
// credit count in its syndrome that nobody else sends. A duplicate acknowledgement means nothing
// (IBA 9.7.5.1.2), so that the receiver who does not know of this ignores it. One who gets the two in one
// piece knows that the sender is one of us and that bursts travel whole between the two, unless a network
// adapter did the merging, which the kernel tells (SO_INCOMING_NAPI_ID).
//
// Thread safety: all calls. Two threads that count at once may lose a count.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <span>

#include "base/gid.h"
#include "wire/packet.h"
#include "wire/packet_sink.h"

namespace verbena::link {

class WholeBursts {
   public:
    // Whether an acknowledgement to this peer shall be sent twice; true a few times for each.
    bool to_greet(const Gid& peer);

    // A delivery of `burst` in pieces of `segment` bytes came from `peer` through `fd`.
    void received(const Gid& peer, int fd, std::span<const std::uint8_t> burst, std::size_t segment) {
        if (burst.size() == 2 * segment && segment == kLength) look_at(peer, fd, burst);
    }

    bool known(const Gid& peer) const {
        const std::uint64_t key = hash(peer);
        const Peer& place = peers_[key % kPeers];
        return place.key.load(std::memory_order_relaxed) == key &&
               place.whole.load(std::memory_order_relaxed);
    }

    // The second of the two: `acknowledgement` with the sign in it. False if it is none, or a NAK.
    static bool make_greeting(wire::OutPacket& acknowledgement);

   private:
    static constexpr unsigned kPeers = 61;
    static constexpr std::uint8_t kGreetings = 4;  // some may be lost
    static constexpr std::size_t kLength = 20;     // BTH, AETH, ICRC

    struct Peer {
        std::atomic<std::uint64_t> key{0};
        std::atomic<std::uint8_t> greetings{0};
        std::atomic<bool> whole{false};
    };

    Peer& place_of(const Gid& peer);
    void look_at(const Gid& peer, int fd, std::span<const std::uint8_t> burst);

    std::array<Peer, kPeers> peers_;
};

}  // namespace verbena::link
