// How what is posted, or has become ready, leaves.
#include "adapter/outgoing.h"

#include <memory>
#include <mutex>
#include <utility>

#include "adapter/state.h"
#include "base/thread_number.h"
#include "link/hooks.h"

namespace verbena::adapter {

// Locked. The thread's own, or one that nobody is at.
Outgoing& Adapter::State::take_outgoing() {
    const std::uint32_t first = number_of_this_thread();
    for (std::uint32_t i = 0; i < kOutgoings; i++)
        if (Outgoing& out = outgoings_[(first + i) % kOutgoings]; out.lock.try_lock()) return out;
    Outgoing& out = outgoings_[first % kOutgoings];
    out.lock.lock();
    return out;
}

// Its lock is held.
void Adapter::State::leave(Outgoing& out) {
    wire::PacketSink* const sink = out.held();
    if (!sink) return;
    sink->flush();
    link.return_sink(*sink);
    out.sink.store(nullptr, std::memory_order_relaxed);
    out.waiting = 0;
    // Mostly nothing gathered, and this store waits for those before it, of the payload.
    if (out.until.load(std::memory_order_relaxed) != kNever) out.until.store(kNever);
    out.turn.store(out.turn.load(std::memory_order_relaxed) + 1, std::memory_order_release);
}

// Or by chance, a multiple of 256 turns later.
bool Adapter::State::is_still_aboard(Slot& slot) {
    const std::uint32_t turn = outgoings_[slot.out - 1u].turn.load(std::memory_order_acquire);
    if (static_cast<std::uint8_t>(turn) == slot.turn) return true;
    slot.out = 0;
    return false;
}

// What a queue pair has put into one of them, if it has not left yet. None is locked by the caller.
void Adapter::State::let_leave(Slot& slot) {
    if (!is_aboard(slot)) return;
    Outgoing& out = outgoings_[slot.out - 1u];
    std::lock_guard guard(out.lock);
    if (is_aboard(slot)) leave(out);
    slot.out = 0;
}

Adapter::State::Boarding::Boarding(State& state, Slot& slot) : state_(state), slot_(slot) {
    for (;;) {
        out_ = &state.take_outgoing();
        if (!state.is_aboard(slot) || slot.out == number()) return;
        out_->lock.unlock();
        state.let_leave(slot);
    }
}

Adapter::State::Boarding::Boarding(State& state, Slot& slot, Outgoing& out)
    : state_(state), slot_(slot), out_(&out) {
    if (slot.out != number()) state.let_leave(slot);
    out.lock.lock();
}

wire::PacketSink& Adapter::State::Boarding::sink() {
    if (!out_->held()) out_->sink.store(&state_.link.borrow_sink(), std::memory_order_relaxed);
    slot_.out = number();
    slot_.turn = static_cast<std::uint8_t>(out_->turn.load(std::memory_order_relaxed));
    return *out_->held();
}

void Adapter::State::remember(CrowdedFlow flow) {
    if (flow && (crowded_.empty() || crowded_.back() != flow)) crowded_.push_back(std::move(flow));
}

void Adapter::State::serve_crowded(Time now) {
    for (const CrowdedFlow& flow : crowded_) serve(flow, now, &of_run_);
    crowded_.clear();
}

void Adapter::State::serve(const CrowdedFlow& flow, Time now, Outgoing* out) {
    for (unsigned turn = 0; turn < kTurns && flow->allows(transport::Flow::kPacketOverhead); turn++) {
        const std::uint32_t number = flow->next_waiting();
        if (number == 0) return;
        LockedQp locked(table.slot_of(number), number, segment.sections());
        if (!locked) continue;
        locked.qp().your_turn();
        static_cast<void>(transmit(locked.slot(), now, false, out));
        if (flow->is_next(number)) return;  // its packet is larger than what is left
    }
}

int Adapter::State::post(Slot& slot, Boarding& boarding, std::span<const transport::SendRequest> requests,
                         std::size_t& index, bool list_goes_on, Time now, CrowdedFlow& crowded) {
    transport::QueuePair& qp = *slot.qp;
    Outgoing& out = boarding.out();
    const bool gathers = may_gather(out, qp, requests, list_goes_on, now);
    if (!link::packet_faults() && !requests.empty()) {
        wire::PacketSink& sink = boarding.sink();
        const auto [posted, follows] = qp.post_straight(requests, sink, &sink, now);
        index = posted;
        if (index == requests.size()) keep_timer(slot, follows);
    }
    int error = 0;
    bool waits = gathers;
    if (index < requests.size()) {
        for (; index < requests.size(); index++)
            if ((error = qp.post_send(requests[index], now)) != 0) break;
        if (!gathers && out.waiting > 0) leave(out);  // it may take long
        crowded = transmit(slot, now, false, boarding);
        waits = gathers && !error && qp.quiet(now, false);
    }
    if (!waits || !gather(out, qp, requests.size(), now)) boarding.leave_at_end();
    return error;
}

CrowdedFlow Adapter::State::transmit(Slot& slot, Time now, bool push_acknowledgements, Outgoing* out) {
    if (out) {
        Boarding boarding(*this, slot, *out);
        CrowdedFlow crowded = transmit(slot, now, push_acknowledgements, boarding);
        if (out->held() && out->held()->pause() == 0) leave(*out);
        return crowded;
    }
    Boarding boarding(*this, slot);
    CrowdedFlow crowded = transmit(slot, now, push_acknowledgements, boarding);
    leave(boarding.out());
    return crowded;
}

// Who drives lets what several queue pairs have to say leave together.
void Adapter::State::transmit_in_run(Slot& slot, Time now, bool push_acknowledgements) {
    remember(transmit(slot, now, push_acknowledgements, &of_run_));
}

void Adapter::State::leave_in_run() {
    std::lock_guard guard(of_run_.lock);
    leave(of_run_);
}

CrowdedFlow Adapter::State::transmit(Slot& slot, Time now, bool push_acknowledgements, Boarding& boarding) {
    transport::QueuePair& qp = *slot.qp;
    link::PacketFaults* const faults = link::packet_faults();
    if (faults) [[unlikely]]
        while (const auto late = faults->late(slot.number, now)) qp.receive(late->packet, late->path, now);
    bool all = qp.quiet(now, push_acknowledgements) && !(faults && faults->next_deadline(slot.number) <= now);
    if (!all) {
        wire::PacketSink& sink = boarding.sink();
        std::unique_ptr<wire::PacketSink> planned;
        if (faults) [[unlikely]]
            planned = faults->before(sink, slot.number, now);
        wire::PacketSink& way = planned ? *planned : sink;
        for (unsigned round = 0; !all && round < kTransmitRounds; round++) {
            all = qp.transmit(way, now, kTransmitBudget, push_acknowledgements);
            if (round > 0) long_rounds.fetch_add(1, std::memory_order_relaxed);
            if (all && !planned)
                sink.pause();
            else
                way.flush();
            if (qp.took_long()) break;
        }
    }

    slot.again = !all;
    timers.set(slot, all ? deadline_of(slot) : now);
    if (qp.state() != slot.state) {
        show_state(slot);
        // Requests that were posted while the state was not yet visible (post_receive looks at it without the
        // lock).
        if (qp.state() == transport::QpState::error) qp.receives_posted();
    }
    watch_bursts(slot);
    return qp.crowded_flow();
}

// Some adapters number the packets of a segmentation burst otherwise than the ICRC assumes, and the peer
// drops all but one of each. Retransmissions leave singly and arrive. So: packets come back, and yet most of
// what we send is sent again. A loss that high needs no bursts anyway.
void Adapter::State::watch_bursts(Slot& slot) {
    const transport::BusyCounters& counters = slot.qp->busy_counters();
    const std::uint64_t sent = counters.packets_sent - slot.mark_sent;
    if (sent < kBurstTrial) return;
    const std::uint64_t retransmitted = slot.qp->rare_counters().retransmitted;
    const std::uint64_t again = retransmitted - slot.mark_retransmitted;
    if (again * 2 > sent && counters.packets_received != slot.mark_received)
        link.avoid_bursts(slot.record->peer);
    slot.mark_sent = counters.packets_sent;
    slot.mark_received = counters.packets_received;
    slot.mark_retransmitted = retransmitted;
}

}  // namespace verbena::adapter
