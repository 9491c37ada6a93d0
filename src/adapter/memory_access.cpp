#include "adapter/memory_access.h"

#include "adapter/clock.h"
#include "base/features.h"
#include "link/hooks.h"
#include "link/local_reference.h"
#include "transport/attributes.h"

namespace verbena::adapter {
namespace {

using transport::Direct;
using transport::length_of;

// WRITEs and READs from this length on are executed until something is known of packets. (A power of two, so
// that all that are measured together begin alike.)
constexpr std::uint32_t kWorthACall = 16 << 10;

// What MemoryAccess's peers are opened with; there must be one.
const ForeignMemory& memory_of(const link::LocalPeer& peer) {
    return static_cast<const ForeignMemory&>(*peer.memory);
}

}  // namespace

// Not the small rest of one that is done in parts.
bool MemoryAccess::is_compared(const transport::DirectTarget& target, std::span<const iovec> local,
                               bool write) {
    return !target.by_both && target.length > (write ? transport::kSmallWrite : transport::kSmallRead) &&
           (target.offset == 0 || 2 * length_of(local) >= target.offset);
}

Direct MemoryAccess::transfer(const transport::DirectTarget& target, std::span<const iovec> local,
                              bool write) {
    if (link::packets_wanted()) return Direct::declined;
    const link::LocalPeers::Visit visit(peers_, target.path.destination, target.destination);
    link::LocalPeer* peer = visit.peer();
    if (!peer || !peer->memory) return Direct::declined;
    const ForeignMemory& memory = memory_of(*peer);
    if (!memory.verify(peer->life_fd, target.now)) return Direct::declined;
    const link::LocalMark mark(*peer->out, {target.destination, memory::index_of(target.rkey)});
    const bool compared = is_compared(target, local, write);
    const bool sampled = target.length <= transport::kSmallWrite && CallTime::is_due(executed());
    const Time begin = compared || sampled ? now() : 0;
    const Direct answer = memory.transfer(target, local, write);
    if (answer != Direct::done) return answer;
    executed_.fetch_add(1, std::memory_order_relaxed);
    if (begin == 0) return answer;
    const Duration took = now() - begin;
    if (sampled) call_time_.took(took);
    if (compared) memory.operations(!write).alone(target.length, length_of(local), took);
    return answer;
}

Direct MemoryAccess::write(const transport::DirectTarget& target, std::span<const iovec> from) {
    return transfer(target, from, true);
}

Direct MemoryAccess::read(const transport::DirectTarget& target, std::span<const iovec> into) {
    return transfer(target, into, false);
}

// Small ones are not measured (rc_direct.cpp). The others we would have to serve with the same processor if
// they were for ourselves.
bool MemoryAccess::packets_are_faster(const wire::Path& path, std::uint32_t destination, std::uint32_t length,
                                      bool read, bool among_others, Time now) {
    const link::LocalPeers::Visit visit(peers_, path.destination, destination);
    const link::LocalPeer* peer = visit.peer();
    if (!peer || !peer->memory || !features().copy) return false;
    const ForeignMemory& memory = memory_of(*peer);
    if (length <= transport::kSmallWrite) return memory.serves(now);
    // A call takes as long as copying some KiB; and what would have to wait for others goes on as they did.
    const bool at_first = among_others || length < kWorthACall;
    return peer->life_fd >= 0 && memory.operations(read).together_is_faster(length, at_first, now) &&
           memory.serves(now);
}

bool MemoryAccess::both_copy(const wire::Path& path, std::uint32_t destination, Time now) {
    if (!features().copy || link::packets_wanted()) return false;
    const link::LocalPeers::Visit visit(peers_, path.destination, destination);
    const link::LocalPeer* peer = visit.peer();
    return peer && peer->memory && peer->life_fd >= 0 && peer->out->fetches() && memory_of(*peer).serves(now);
}

bool MemoryAccess::fetching_is_faster(const wire::Path& path, std::uint32_t destination, std::uint32_t length,
                                      bool among_others, Time now) {
    if (length <= (features().copy ? transport::kMostStraight : link::kFetchedFrom) || link::packets_wanted())
        return false;
    const link::LocalPeers::Visit visit(peers_, path.destination, destination);
    const link::LocalPeer* peer = visit.peer();
    if (!peer || !peer->memory || !peer->out->fetches()) return false;
    return !features().copy || !memory_of(*peer).sends(among_others).together_is_faster(length, false, now);
}

std::optional<transport::ShownReceives::Next> MemoryAccess::shown(const wire::Path& path,
                                                                  std::uint32_t destination) {
    if (!features().place) return std::nullopt;
    const link::LocalPeers::Visit visit(peers_, path.destination, destination);
    const link::LocalPeer* peer = visit.peer();
    return peer && peer->memory ? memory_of(*peer).shown(destination) : std::nullopt;
}

Direct MemoryAccess::place(const transport::PlaceTarget& target, std::span<const iovec> from) {
    const link::LocalPeers::Visit visit(peers_, target.path.destination, target.destination);
    const link::LocalPeer* peer = visit.peer();
    if (!peer || !peer->memory || !takes_turn(*peer, target.now)) return Direct::declined;
    const ForeignMemory& memory = memory_of(*peer);
    if (!memory.verify(peer->life_fd, target.now)) return Direct::declined;
    link::LocalMark mark(*peer->out, {.qp = target.destination});
    return memory.place(target, from, mark);
}

// Who sends much to several processes leaves it to them to fetch, which they do at the same time: we write to
// one of them.
bool MemoryAccess::takes_turn(const link::LocalPeer& peer, Time now) {
    constexpr Duration kKept = kMillisecond;
    const link::LocalPeer* const before = written_to_.load(std::memory_order_relaxed);
    if (before != &peer && now - written_at_.load(std::memory_order_relaxed) < kKept) return false;
    written_to_.store(&peer, std::memory_order_relaxed);
    written_at_.store(now, std::memory_order_relaxed);
    return true;
}

void MemoryAccess::measured(const wire::Path& path, std::uint32_t destination,
                            const transport::PacketPace::Sample& sample) {
    using Way = transport::PacketPace::Way;
    const link::LocalPeers::Visit visit(peers_, path.destination, destination);
    const link::LocalPeer* peer = visit.peer();
    if (!peer || !peer->memory) return;
    const ForeignMemory& memory = memory_of(*peer);
    const auto [way, length, bytes, took, rounds] = sample;
    if (way == Way::fetched)
        memory.sends(!rounds).alone(length, bytes, took);
    else if (way == Way::copied)
        memory.sends(!rounds).together(length, bytes, took);
    else
        memory.operations(way == Way::answers).together(length, bytes, took);
}

void MemoryAccess::packets_were_slow(const wire::Path& path, std::uint32_t destination, Time now) {
    const link::LocalPeers::Visit visit(peers_, path.destination, destination);
    if (const link::LocalPeer* peer = visit.peer(); peer && peer->memory) memory_of(*peer).served_slowly(now);
}

bool MemoryAccess::reaches(const wire::Path& path, std::uint32_t destination) {
    if (link::packets_wanted()) return false;
    const link::LocalPeers::Visit visit(peers_, path.destination, destination);
    return visit.peer() && visit.peer()->memory;
}

bool MemoryAccess::is_behind(const wire::Path& path, std::uint32_t destination) {
    const link::LocalPeers::Visit visit(peers_, path.destination, destination);
    return visit.peer() && visit.peer()->out->unread();
}

bool MemoryAccess::stands_still(const wire::Path& path, std::uint32_t destination) {
    return peers_.stands_still(path.destination, destination);
}

}  // namespace verbena::adapter
