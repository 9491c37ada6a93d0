#include "link/whole_bursts.h"

#include <sys/socket.h>

#include <cstring>

#include "wire/opcode.h"

namespace verbena::link {
namespace {

constexpr std::size_t kSyndrome = 12;  // behind the BTH
constexpr std::uint8_t kSign = wire::ack_syndrome(30);

// Zero: no adapter's receive queue was on the way. A kernel that cannot say so is taken to have had one.
bool through_an_adapter(int fd) {
    unsigned id = 0;
    socklen_t size = sizeof id;
    return getsockopt(fd, SOL_SOCKET, SO_INCOMING_NAPI_ID, &id, &size) != 0 || id != 0;
}

}  // namespace

// Another peer may take the place, which costs a repetition of the discovery.
WholeBursts::Peer& WholeBursts::place_of(const Gid& peer) {
    const std::uint64_t key = hash(peer);
    Peer& place = peers_[key % kPeers];
    if (place.key.load(std::memory_order_relaxed) != key) {
        place.whole.store(false, std::memory_order_relaxed);
        place.greetings.store(0, std::memory_order_relaxed);
        place.key.store(key, std::memory_order_relaxed);
    }
    return place;
}

bool WholeBursts::to_greet(const Gid& peer) {
    Peer& place = place_of(peer);
    const std::uint8_t sent = place.greetings.load(std::memory_order_relaxed);
    if (sent >= kGreetings) return false;
    place.greetings.store(static_cast<std::uint8_t>(sent + 1), std::memory_order_relaxed);
    return true;
}

bool WholeBursts::make_greeting(wire::OutPacket& packet) {
    if (static_cast<wire::Opcode>(packet.header[0]) != wire::Opcode::rc_ack ||
        packet.header[kSyndrome] != wire::ack_syndrome())
        return false;
    packet.header[kSyndrome] = kSign;
    return true;
}

void WholeBursts::look_at(const Gid& peer, int fd, std::span<const std::uint8_t> burst) {
    const std::uint8_t* first = burst.data();
    const std::uint8_t* second = first + kLength;
    // Equal from the opcode to the PSN, but for the sign.
    if (static_cast<wire::Opcode>(*first) != wire::Opcode::rc_ack ||
        std::memcmp(first, second, kSyndrome) != 0 || first[kSyndrome] != wire::ack_syndrome() ||
        second[kSyndrome] != kSign || through_an_adapter(fd))
        return;
    place_of(peer).whole.store(true, std::memory_order_relaxed);
}

}  // namespace verbena::link
