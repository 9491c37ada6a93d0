#include "adapter/outgoing.h"

#include <mutex>

#include "adapter/state.h"
#include "base/thread_number.h"

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
    if (!out.sink) return;
    out.sink->flush();
    link.return_sink(*out.sink);
    out.sink = nullptr;
    out.waiting = 0;
    out.until.store(kNever);
    out.holds.store(false, std::memory_order_relaxed);
    out.turn.store(out.turn.load(std::memory_order_relaxed) + 1, std::memory_order_release);
}

// What a queue pair has put into one of them, if it has not left yet. None is locked by the caller.
void Adapter::State::let_leave(Slot& slot) {
    if (!is_aboard(slot)) return;
    std::lock_guard guard(slot.out->lock);
    if (is_aboard(slot)) leave(*slot.out);
}

Adapter::State::Boarding::Boarding(State& state, Slot& slot) : state_(state), slot_(slot) {
    for (;;) {
        out_ = &state.take_outgoing();
        if (slot.out == out_ || !state.is_aboard(slot)) return;
        out_->lock.unlock();
        state.let_leave(slot);
    }
}

Adapter::State::Boarding::Boarding(State& state, Slot& slot, Outgoing& out)
    : state_(state), slot_(slot), out_(&out) {
    if (slot.out != out_) state.let_leave(slot);
    out.lock.lock();
}

wire::PacketSink& Adapter::State::Boarding::sink() {
    if (!out_->sink) {
        out_->sink = &state_.link.borrow_sink();
        out_->holds.store(true, std::memory_order_relaxed);
    }
    slot_.out = out_;
    slot_.turn = out_->turn.load(std::memory_order_relaxed);
    return *out_->sink;
}

}  // namespace verbena::adapter
