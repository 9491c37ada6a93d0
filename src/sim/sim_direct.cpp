#include "sim/sim_direct.h"

#include <algorithm>
#include <cstring>

#include "sim/process.h"
#include "transport/attributes.h"

namespace verbena::sim {
namespace {

using transport::Direct;
using transport::length_of;
using transport::QpState;

adapter::QpRecord* record_of(Process& process, std::uint32_t number) {
    for (adapter::QpRecord& record : process.segment().queue_pairs())
        if (record.number == number) return &record;
    return nullptr;
}

// Whether it is connected with that one of ours.
bool is_of(const adapter::QpRecord& qp, const wire::Path& path, std::uint32_t qp_number) {
    const auto state = static_cast<QpState>(qp.state.load());
    return (state == QpState::rts || state == QpState::rtr) &&
           qp.service == static_cast<std::uint32_t>(transport::Service::rc) && qp.peer_qp == qp_number &&
           qp.peer == path.source && qp.local == path.destination;
}

// The responder's checks (IBA 9.7.4.1).
Direct accepts(Process& process, const adapter::QpRecord& qp, const transport::DirectTarget& target,
               memory::Access need) {
    if (!is_of(qp, target.path, target.qp_number) || (qp.access & need) != need ||
        (need == memory::kRemoteRead && qp.max_destination_rd_atomic < target.reads_at_once))
        return Direct::declined;
    const bool waits = static_cast<QpState>(qp.state.load()) == QpState::rtr &&
                       process.segment().busy_counters_of(qp).packets_received == 0;
    return waits ? Direct::not_yet : Direct::done;
}

// Only regions are taken, not windows or what has no memory.
bool is_region(Process& process, std::uint32_t key) {
    const auto regions = process.segment().regions();
    const std::uint32_t index = memory::index_of(key);
    return index < regions.size() && regions[index].kind == memory::RecordKind::region;
}

void copy(std::uint8_t* there, std::span<const iovec> list, bool write) {
    for (const iovec& piece : list) {
        if (piece.iov_len > 0)
            std::memcpy(write ? there : piece.iov_base, write ? piece.iov_base : there, piece.iov_len);
        there += piece.iov_len;
    }
}

}  // namespace

// Whoever has an inbox in such a run is a process; a dead one has none.
Process* SimDirect::find(const Gid& address, std::uint32_t number) const {
    return static_cast<Process*>(world_.network.find(Network::host_of(address), number));
}

// As the plan wants it. Done: it does not refuse.
Direct SimDirect::refuses() {
    if (random_.chance(plan_.declines)) return Direct::declined;
    return random_.chance(plan_.not_yet) ? Direct::not_yet : Direct::done;
}

Direct SimDirect::transfer(const transport::DirectTarget& target, std::span<const iovec> local, bool write) {
    const auto answer = [&] {
        Process* const there = find(target.path.destination, target.destination);
        const memory::Access need = write ? memory::kRemoteWrite : memory::kRemoteRead;
        const adapter::QpRecord* const qp = there ? record_of(*there, target.destination) : nullptr;
        if (!qp) return Direct::declined;
        if (const Direct refusal = refuses(); refusal != Direct::done) return refusal;
        if (const Direct accepted = accepts(*there, *qp, target, need); accepted != Direct::done)
            return accepted;
        memory::Section section(there->sections());
        const memory::Lookup found = there->adapter().regions().remote(
            target.rkey, qp->pd, target.address, target.length, need, target.destination);
        if (!found || !is_region(*there, target.rkey)) return Direct::declined;
        if (target.offset + length_of(local) > target.length) {
            world_.verdict.violation(world_.now(),
                                     "a part that the link executes is longer than its request");
            return Direct::declined;
        }
        if (executes) executes(target, local, write);
        copy(found.address + target.offset, local, write);
        return Direct::done;
    }();
    using enum Coverage::Directly;
    world_.coverage.directly[answer == Direct::done       ? (target.by_both ? (write ? wrote_half : read_half)
                                                             : write        ? wrote
                                                                            : read_there)
                             : answer == Direct::declined ? declined
                                                          : not_yet]++;
    return answer;
}

Direct SimDirect::write(const transport::DirectTarget& target, std::span<const iovec> from) {
    return transfer(target, from, true);
}

Direct SimDirect::read(const transport::DirectTarget& target, std::span<const iovec> into) {
    return transfer(target, into, false);
}

bool SimDirect::packets_are_faster(const wire::Path&, std::uint32_t, std::uint32_t, bool, bool, Time) {
    const bool faster = random_.chance(plan_.by_packets);
    world_.coverage.directly[Coverage::by_packets] += faster;
    return faster;
}

bool SimDirect::both_copy(const wire::Path&, std::uint32_t, Time) { return random_.chance(plan_.halved); }

bool SimDirect::fetching_is_faster(const wire::Path&, std::uint32_t, std::uint32_t, bool, Time) {
    return random_.chance(plan_.fetched);
}

std::optional<transport::ShownReceives::Next> SimDirect::shown(const wire::Path& path,
                                                               std::uint32_t destination) {
    Process* const there = find(path.destination, destination);
    const adapter::QpRecord* const qp = there ? record_of(*there, destination) : nullptr;
    return qp ? qp->shown.next(there->segment().busy_counters_of(*qp).messages_received) : std::nullopt;
}

Direct SimDirect::place(const transport::PlaceTarget& target, std::span<const iovec> from) {
    Process* const there = find(target.path.destination, target.destination);
    const adapter::QpRecord* const qp = there ? record_of(*there, target.destination) : nullptr;
    if (!qp || !is_of(*qp, target.path, target.qp_number) || random_.chance(plan_.declines))
        return Direct::declined;
    const auto receive = qp->shown.find(target.receive);
    if (!receive) return Direct::not_yet;
    const std::size_t length = length_of(from);
    if (target.offset > receive->length || length > receive->length - target.offset) return Direct::declined;
    memory::Section section(there->sections());
    const memory::Lookup found = there->adapter().regions().local(receive->lkey, qp->pd, receive->address,
                                                                  receive->length, memory::kLocalWrite);
    if (!found || !is_region(*there, receive->lkey)) return Direct::declined;
    if (places) places(target, from);
    copy(found.address + target.offset, from, true);
    world_.coverage.directly[Coverage::placed]++;
    return Direct::done;
}

bool SimDirect::store(const wire::Path& of_requester, const SimLink::Place& place, const std::uint8_t* from) {
    Process* const there = find(of_requester.source, place.requester);
    const adapter::QpRecord* const qp = there ? record_of(*there, place.requester) : nullptr;
    if (!qp || !qp->shown.takes_answer(place.right) || random_.chance(plan_.declines)) return false;
    const std::uint32_t lkey = transport::ShownReceives::lkey_of(place.right);
    memory::Section section(there->sections());
    const memory::Lookup found = there->adapter().regions().local(
        lkey, qp->pd, reinterpret_cast<std::uintptr_t>(place.there.iov_base),
        static_cast<std::uint32_t>(place.there.iov_len), memory::kLocalWrite);
    if (!found || !is_region(*there, lkey)) return false;
    std::memcpy(found.address, from, place.there.iov_len);
    world_.coverage.directly[Coverage::stored]++;
    return true;
}

bool SimDirect::reaches(const wire::Path& path, std::uint32_t destination) {
    return find(path.destination, destination) != nullptr && !random_.chance(plan_.declines);
}

bool SimDirect::stands_still(const wire::Path& path, std::uint32_t destination) {
    Process* const there = find(path.destination, destination);
    const bool still = there && std::ranges::any_of(there->frames, [&](const Frame& frame) {
                           return frame.path.source == path.source;
                       });
    world_.coverage.directly[Coverage::stood_still] += still;
    return still;
}

}  // namespace verbena::sim
