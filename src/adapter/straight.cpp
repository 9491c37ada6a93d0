// The straight path through the adapter (transport/rc_straight.cpp): one message, to or from a peer of this
// host, on a connection where nothing else is going on. What a small message costs is the number of these
// instructions, so they are few and stand together; whatever is unusual goes by progress.cpp.
#include "adapter/state.h"
#include "link/hooks.h"
#include "wire/plain_ack.h"
#include "wire/whole_send.h"

namespace verbena::adapter {

using transport::QpState;

bool Adapter::post_straight(transport::QueuePair& qp, const transport::SendRequest& request, Time now) {
    state_->prefetch(&qp);
    LockedQp locked = state_->lock(qp);
    return locked && state_->post_straight(locked.slot(), request, now);
}

bool Adapter::post_straight(transport::QueuePair& qp, const transport::ReceiveRequest& request,
                            LazyTime now) {
    const Slot* slot = state_->table.find(qp.number());
    if (!slot || slot->state.load() == QpState::reset || !qp.setup().receive_queue->try_post(request))
        [[unlikely]]
        return false;
    state_->receives_posted(qp, *slot, now);
    return true;
}

bool Adapter::State::post_straight(Slot& slot, const transport::SendRequest& request, Time now) {
    transport::QueuePair& qp = *slot.qp;
    if (link::packet_faults()) [[unlikely]]
        return false;
    if (request.is_one_sided()) {
        if (!qp.execute_straight(request, now)) [[unlikely]]
            return false;
        // Its completion found no place: what the error changes is known at once, and who waits for the
        // window that it leaves is served with the timer.
        if (qp.state() != QpState::rts && transmit(slot, now, false)) [[unlikely]]
            timers.set(slot, now);
        return true;
    }
    if (!qp.post_straight(request, link, nullptr, now)) [[unlikely]]
        return false;
    timers.set(slot, qp.next_deadline());
    return true;
}

// Observers saw it when it left.
bool Adapter::State::straight(const link::Datagram& datagram) {
    wire::WholeSend send;
    wire::Bth acknowledgement;
    const bool sends = send.parse(datagram.bytes);
    if ((!sends && !wire::parse_plain_ack(datagram.bytes, acknowledgement)) || link::packet_faults())
        [[unlikely]]
        return false;
    const std::uint32_t number = sends ? send.destination_qp() : acknowledgement.destination_qp;
    Slot* slot = table.find(number);
    if (!slot) [[unlikely]]
        return false;
    hold(*slot, number);
    if (!*held_) [[unlikely]]
        return false;
    transport::QueuePair& qp = held_->qp();
    if (sends ? !qp.receive_straight(send, datagram.aside, *datagram.path, now_)
              : !qp.acknowledge_straight(acknowledgement, *datagram.path, now_)) [[unlikely]]
        return false;
    count(segment.counters().received);
    slot->record->counters.wire_bytes_received += datagram.bytes.size();
    touch(*slot);
    return true;
}

// What arrived may let something leave; mostly it does not.
void Adapter::State::finish(Slot& slot) {
    const transport::QueuePair& qp = *slot.qp;
    Time deadline;
    if (!link::packet_faults() && qp.state() == slot.state.load(std::memory_order_relaxed) &&
        qp.rests(now_, deadline)) [[likely]]
        return timers.set_in_turn(slot, deadline);
    remember(transmit(slot, now_, false));
}

}  // namespace verbena::adapter
