// The straight path through the adapter (transport/rc_straight.cpp): a message to a peer of this host, or
// some from any, on a connection where nothing else is going on. What a small message costs is the number of
// these instructions, so they are few and stand together; whatever is unusual goes by progress.cpp.
#include "adapter/state.h"
#include "link/hooks.h"
#include "wire/plain_ack.h"
#include "wire/whole_atomic.h"

namespace verbena::adapter {

using transport::QpState;
using transport::QueuePair;

[[gnu::flatten]] bool Adapter::post_straight(std::uint32_t number, const transport::SendRequest& request,
                                             const LazyTime& now) {
    if (state_->many()) state_->comes_to(number);
    LockedQp locked = state_->lock(number);
    return locked && state_->post_straight(locked.slot(), request, now);
}

bool Adapter::State::post_straight(Slot& slot, const transport::SendRequest& request, const LazyTime& now) {
    transport::QueuePair& qp = *slot.qp;
    if (link::packet_faults()) [[unlikely]]
        return false;
    if (is_aboard(slot) || gathers_here()) return post_behind(slot, request, now.get());
    if (request.is_one_sided() && qp.execute_straight(request, now)) {
        // Its completion found no place: what the error changes is known at once, and who waits for the
        // window that it leaves is served with the timer.
        if (qp.state() != QpState::rts && transmit(slot, now.get(), false)) [[unlikely]]
            come_again(slot, now.get());
        return true;
    }
    const Straight follows = qp.post_straight({&request, 1}, link, nullptr, now).follows;
    keep_timer(slot, follows);
    return follows != QueuePair::kDeclined;
}

// By memory: observers saw it when it left.
[[gnu::flatten]] bool Adapter::State::straight(const link::Datagram& datagram) {
    if (datagram.bytes.size() < wire::kBthLength + wire::kIcrcLength) [[unlikely]]
        return false;
    Slot* slot = table.find(wire::BthWords(datagram.bytes.data()).destination_qp());
    if (!slot) [[unlikely]]
        return false;
    if (many()) table.came(datagram, arrivals_);
    if (!goes_straight(*slot, datagram)) [[unlikely]]
        return false;
    count(segment.counters().received);
    return true;
}

bool Adapter::State::is_early(const link::Datagram& datagram) {
    if (datagram.bytes.size() < wire::kBthLength + wire::kIcrcLength || link::packet_faults()) return false;
    const wire::BthWords bth(datagram.bytes.data());
    Slot* const slot = table.find(bth.destination_qp());
    if (!slot) return false;
    hold(*slot, bth.destination_qp());
    return *held_ && held_->qp().is_early(bth);
}

// What is there together, or comes by a wire, is finished together; one alone at once.
[[gnu::flatten]] bool Adapter::State::goes_straight(Slot& slot, const link::Datagram& datagram) {
    if (link::packet_faults()) [[unlikely]]
        return false;
    const wire::BthWords bth(datagram.bytes.data());
    if (datagram.by_memory && !datagram.followed && !held_) {
        LockedQp locked(slot, bth.destination_qp(), segment.sections());
        const Straight follows = take_straight(locked, bth.opcode(), datagram);
        if (follows == QueuePair::kDeclined) [[unlikely]]
            return false;
        go_on(slot, follows);
        return true;
    }
    hold(slot, bth.destination_qp());
    const Straight follows = take_straight(*held_, bth.opcode(), datagram);
    if (follows == QueuePair::kDeclined) return false;
    finish_later(slot, follows);
    return true;
}

// The same of several.
[[gnu::flatten]] std::size_t Adapter::State::straight(std::span<const wire::InPacket> packets,
                                                      const wire::Path& path) {
    const std::uint32_t number = wire::BthWords(packets[0].bytes.data()).destination_qp();
    Slot* const slot = table.find(number);
    if (link::packet_faults() || !slot) [[unlikely]]
        return 0;
    if (many()) table.came(packets[0], arrivals_);
    return take_together(*slot, number, packets, path);
}

std::size_t Adapter::State::take_together(Slot& slot, std::uint32_t number,
                                          std::span<const wire::InPacket> packets, const wire::Path& path) {
    hold(slot, number);
    if (!*held_) [[unlikely]]
        return 0;
    const auto [taken, follows] = held_->qp().receive_straight(packets, path, now_);
    if (taken == 0) return 0;
    count(segment.counters().received, taken);
    for (const wire::InPacket& packet : packets.first(taken))
        held_->qp().count_wire_bytes(packet.bytes.size());
    finish_later(slot, follows);
    return taken;
}

// At the end of what is there together.
void Adapter::State::finish_later(Slot& slot, Straight follows) {
    if (follows & (QueuePair::kGoesOn | QueuePair::kWaits))
        tell(slot);
    else
        touch(slot);
}

Adapter::State::Straight Adapter::State::take_straight(LockedQp& locked, wire::Opcode opcode,
                                                       const link::Datagram& datagram) {
    if (!locked) [[unlikely]]
        return QueuePair::kDeclined;
    const Straight follows = execute_straight(locked.qp(), opcode, datagram);
    if (follows == QueuePair::kDeclined) [[unlikely]]
        return follows;
    locked.qp().count_wire_bytes(datagram.bytes.size());
    return follows;
}

// An atomic is answered at once if it came alone: what is there together is answered together at the burst's
// end, by when those that are too many have been seen (IBA 9.7.4.1.7).
Adapter::State::Straight Adapter::State::execute_straight(transport::QueuePair& qp, wire::Opcode opcode,
                                                          const link::Datagram& datagram) {
    const wire::Path& path = *datagram.path;
    if (wire::is_whole_message(opcode)) [[likely]]
        return qp.receive_straight({static_cast<const wire::InPacket*>(&datagram), 1}, path, now_).follows;
    if (datagram.aside.acknowledges || datagram.aside.psns != 1) return QueuePair::kDeclined;
    switch (opcode) {
        case wire::Opcode::rc_ack:
            if (wire::BthWords ack; wire::parse_plain_ack(datagram.bytes, ack))
                return qp.acknowledge_straight(ack, path, now_);
            return QueuePair::kDeclined;
        case wire::Opcode::rc_compare_swap:
        case wire::Opcode::rc_fetch_add:
            if (wire::WholeAtomic request; !datagram.followed && request.parse(datagram.bytes))
                return qp.answer_straight(request, link, path, now_);
            return QueuePair::kDeclined;
        case wire::Opcode::rc_atomic_ack:
            if (wire::WholeAtomicAnswer answer; answer.parse(datagram.bytes))
                return qp.conclude_straight(answer, path, now_);
            return QueuePair::kDeclined;
        default:
            return QueuePair::kDeclined;
    }
}

void Adapter::State::finish(Slot& slot, Slot::Touched how) {
    Straight follows =
        link::packet_faults() ? QueuePair::kDone | QueuePair::kGoesOn : slot.qp->what_follows(now_);
    if (how == Slot::Touched::told) follows |= QueuePair::kWaits;
    go_on(slot, follows);
}

// What it owes leaves: mostly one acknowledgement, by memory or behind those of others. That changes nothing
// that anybody waits for, so what transmit() would look at has time: the timer may look in vain, an overrun
// of its completion queues shows with what comes next.
void Adapter::State::settle_owed(Slot& slot, Time now, wire::PacketCopier& copier) {
    QueuePair& qp = *slot.qp;
    const bool straight = !link::packet_faults();
    if (straight && (qp.settle_straight(copier, nullptr, now) || qp.quiet(now, true))) [[likely]]
        return;
    link.end_row();
    const memory::Section section(segment.sections());
    Boarding boarding(*this, slot, of_run_);
    wire::PacketSink& sink = boarding.sink();
    if (!straight || !qp.settle_straight(sink, &sink, now)) remember(transmit(slot, now, true, boarding));
    if (sink.pause() == 0) leave(of_run_);
}

// With the timers, once in each run().
void Adapter::State::come_again(Slot& slot, Time now) {
    slot.again = true;
    timers.set(slot, now);
}

// What arrived may let something leave; mostly it does not.
void Adapter::State::go_on(Slot& slot, Straight follows) {
    if (follows & QueuePair::kGoesOn) [[unlikely]] {
        if (slot.qp->took_long()) return come_again(slot, now_);
        transmit_in_run(slot, now_, false);
        if (slot.qp->acknowledgement_deadline() != kNever) owe(slot);
        return;
    }
    if (follows & QueuePair::kWaits)
        keep_timer(slot, follows);
    else if (many())
        rest_timer(slot);
    if (follows & QueuePair::kOwes) owe(slot);
}

}  // namespace verbena::adapter
