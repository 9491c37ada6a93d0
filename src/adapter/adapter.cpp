// The calls from above: each finds the queue pair's slot, takes its lock, lets the transport decide, and
// sends what became ready.

#include "adapter/adapter.h"

#include <cerrno>

#include "adapter/state.h"
#include "base/reason.h"

namespace verbena::adapter {

using transport::QpState;

LockedQp::LockedQp(Slot* slot, std::uint32_t number, memory::Sections& sections) {
    if (!slot) return;
    std::unique_lock lock(slot->lock);
    if (!slot->qp || slot->number != number) return;
    lock_ = std::move(lock);
    section_.emplace(sections);
    slot_ = slot;
}

Adapter::State::State(const Setup& setup)
    : link(*setup.link),
      segment(*setup.segment),
      regions(segment.regions(), segment.sections()),
      random_state_(setup.random_seed) {
    if (setup.qp_numbers) table.add_range(setup.first_qp_number, setup.qp_numbers);
}

// SplitMix64: queue pair numbers need to be spread, not to be secret.
std::uint64_t Adapter::State::random() {
    std::uint64_t z = random_state_ += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
}

QpRecord* Adapter::State::take_record(std::uint32_t number) {
    std::uint32_t index;
    if (!free_records_.empty()) {
        index = free_records_.back();
        free_records_.pop_back();
    } else if (used_records_ < segment.queue_pairs().size()) {
        index = used_records_++;
    } else {
        return nullptr;
    }
    QpRecord& record = segment.queue_pairs()[index];
    record.number.store(number, std::memory_order_release);
    return &record;
}

transport::QueuePair* Adapter::State::create_qp(transport::QpSetup setup, Time now) {
    std::lock_guard guard(table_lock);
    if (now > latest_) latest_ = now;
    const std::uint32_t number = table.take_number(random(), latest_);
    if (number == 0) return fail_null(ENOMEM, "all queue pair numbers of this process are in use");
    setup.number = number;
    setup.regions = &regions;
    std::unique_ptr<transport::QueuePair> qp = transport::QueuePair::create(setup);
    if (!qp) {
        table.give_back_number(number, 0);
        return nullptr;  // errno and reason are the transport's
    }
    QpRecord* record = take_record(number);
    if (!record) {
        table.give_back_number(number, 0);
        return fail_null(ENOMEM, "the process's table of queue pairs is full (%zu)",
                         segment.queue_pairs().size());
    }
    Slot& slot = table.take_slot();
    transport::QueuePair* result = qp.get();
    {
        std::lock_guard slot_guard(slot.lock);
        slot.qp = std::move(qp);
        slot.number = number;
        slot.record = record;
        slot.was_connected = false;
        slot.mark_sent = slot.mark_received = slot.mark_retransmitted = 0;
        slot.state.store(result->state());
        record->created = static_cast<std::uint64_t>(latest_);
        describe(slot);
    }
    table.set(number, &slot);
    return result;
}

void Adapter::State::destroy_qp(transport::QueuePair& qp, Time now) {
    const std::uint32_t number = qp.number();
    std::lock_guard guard(table_lock);
    if (now > latest_) latest_ = now;
    Slot* slot = table.find(number);
    if (!slot) return;
    table.set(number, nullptr);
    std::unique_ptr<transport::QueuePair> gone;
    bool quarantine;
    {
        std::lock_guard slot_guard(slot->lock);
        transmit(*slot, now, true);  // the peer's last message was received: it must not look lost
        gone = std::move(slot->qp);
        slot->number = 0;
        quarantine = slot->was_connected;
        slot->record->number.store(0, std::memory_order_release);
        free_records_.push_back(static_cast<std::uint32_t>(slot->record - segment.queue_pairs().data()));
        slot->record = nullptr;
        timers.set(*slot, kNever);
    }
    table.give_back(*slot);
    table.give_back_number(number, quarantine ? latest_ + kNumberQuarantine : 0);
}

LockedQp Adapter::State::lock(const transport::QueuePair& qp) {
    return {table.find(qp.number()), qp.number(), segment.sections()};
}

void Adapter::State::describe(Slot& slot) {
    const transport::QueuePair& qp = *slot.qp;
    transport::Attributes attributes;
    qp.query(attributes);
    QpRecord& record = *slot.record;
    record.state = static_cast<std::uint32_t>(qp.state());
    record.service = static_cast<std::uint32_t>(qp.setup().service);
    record.pd = qp.setup().pd;
    record.local = attributes.path.source;
    record.peer = attributes.path.destination;
    record.peer_qp = attributes.destination_qp;
    record.path_mtu = attributes.path_mtu;
    record.counters = qp.counters();
}

Adapter::Adapter(const Setup& setup) : state_(std::make_unique<State>(setup)) {}
Adapter::~Adapter() = default;

memory::RegionTable& Adapter::regions() { return state_->regions; }
Segment& Adapter::segment() { return state_->segment; }
Time Adapter::next_deadline() const { return state_->timers.next(); }

void Adapter::add_numbers(std::uint32_t first, std::uint32_t count) {
    std::lock_guard guard(state_->table_lock);
    state_->table.add_range(first, count);
}

transport::QueuePair* Adapter::create_qp(transport::QpSetup setup, Time now) {
    return state_->create_qp(std::move(setup), now);
}

void Adapter::destroy_qp(transport::QueuePair* qp, Time now) { state_->destroy_qp(*qp, now); }

int Adapter::modify(transport::QueuePair& qp, const transport::Attributes& attributes, std::uint32_t mask,
                    Time now) {
    const bool ends = (mask & transport::kAttrState) &&
                      (attributes.state == QpState::error || attributes.state == QpState::reset);
    if (ends) settle(now);
    LockedQp locked = state_->lock(qp);
    if (!locked) return fail(EINVAL, "the queue pair does not exist any more");
    if (ends) state_->transmit(locked.slot(), now, true);
    const int error = qp.modify(attributes, mask, now);
    Slot& slot = locked.slot();
    if (qp.state() != QpState::reset && qp.state() != QpState::init) slot.was_connected = true;
    state_->transmit(slot, now, false);
    state_->describe(slot);
    if (error) errno = error;
    return error;
}

bool Adapter::awaits_acknowledgement(const transport::QueuePair& qp) {
    LockedQp locked = state_->lock(qp);
    return locked && qp.awaits_acknowledgement();
}

void Adapter::query(transport::QueuePair& qp, transport::Attributes& attributes) {
    if (LockedQp locked = state_->lock(qp)) qp.query(attributes);
}

int Adapter::post_send(transport::QueuePair& qp, std::span<const transport::SendRequest> requests,
                       std::size_t& index, Time now) {
    index = 0;
    LockedQp locked = state_->lock(qp);
    if (!locked) return fail(EINVAL, "the queue pair does not exist any more");
    int error = 0;
    for (; index < requests.size(); index++)
        if ((error = qp.post_send(requests[index], now)) != 0) break;
    if (index > 0) state_->transmit(locked.slot(), now, false);
    if (error) errno = error;
    return error;
}

// Without the queue pair's lock: the receive queue has its own, and a burst that is being received must not
// hold up a thread that posts.
int Adapter::post_receive(transport::QueuePair& qp, std::span<const transport::ReceiveRequest> requests,
                          std::size_t& index, Time now) {
    index = 0;
    Slot* slot = state_->table.find(qp.number());
    if (!slot || slot->state.load() == QpState::reset)
        return fail(EINVAL,
                    "the queue pair is in the reset state and takes no receive requests (IBA 10.3.1.1)");
    int error = 0;
    for (; index < requests.size(); index++)
        if ((error = qp.setup().receive_queue->post(requests[index])) != 0) break;
    // transmit() publishes the state and then flushes; so either it finds these requests or we see the state.
    if (index > 0 && slot->state.load() == QpState::error) {
        if (LockedQp locked = state_->lock(qp)) {
            qp.receives_posted();
            state_->transmit(locked.slot(), now, false);
        }
    }
    if (error) errno = error;
    return error;
}

unsigned Adapter::progress(Time now, bool idle) {
    std::unique_lock lock(state_->progress_lock, std::try_to_lock);
    return lock ? state_->run(now, idle) : 0;
}

void Adapter::settle(Time now) {
    // More than any receive buffer holds; what comes after the call need not be waited for.
    constexpr unsigned kRounds = 64;
    std::lock_guard lock(state_->progress_lock);
    for (unsigned i = 0; i < kRounds && state_->run(now, false) > 0; i++) {
    }
}

void Adapter::push_acknowledgements(transport::QueuePair& qp, Time now) {
    if (LockedQp locked = state_->lock(qp)) state_->transmit(locked.slot(), now, true);
}

}  // namespace verbena::adapter
