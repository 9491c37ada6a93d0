// Making and ending queue pairs: their numbers and slots, and the records of them that tools and peers of
// this host see.

#include <algorithm>
#include <bit>
#include <cerrno>

#include "adapter/state.h"
#include "base/failures.h"
#include "base/reason.h"
#include "transport/common.h"

namespace verbena::adapter {

using transport::QpState;

// SplitMix64: queue pair numbers need to be spread, not to be secret.
std::uint64_t Adapter::State::random() {
    std::uint64_t z = random_state_ += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
}

QpRecord* Adapter::State::take_record(std::uint32_t number) {
    std::uint32_t index;
    if (!free_records_.take(index)) {
        if (used_records_ == segment.queue_pairs().size()) return nullptr;
        index = used_records_++;
    }
    QpRecord& record = segment.queue_pairs()[index];
    record.counters = {};
    segment.busy_counters_of(record) = {};
    record.peer_device = kNoDevice;
    record.created = static_cast<std::uint64_t>(latest_ > 0 ? latest_ : 1);
    record.number.store(number, std::memory_order_release);
    return &record;
}

void Adapter::State::give_back_record(QpRecord& record) {
    record.number.store(0, std::memory_order_seq_cst);
    record.state.store(0, std::memory_order_seq_cst);
    record.shown.withdraw();
    free_records_.give_back(static_cast<std::uint32_t>(&record - segment.queue_pairs().data()));
}

// Its counters go on in its device's totals, and in those of the peer's; who sums both meanwhile begins anew.
void Adapter::State::retire(QpRecord& record) {
    segment.header().retirements.fetch_add(1, std::memory_order_acq_rel);
    const transport::QpCounters counters = segment.counters_of(record);
    segment.totals_of(record.device).own += counters;
    if (record.peer_device != kNoDevice) segment.totals_of(record.peer_device).add_mirrored(counters);
    give_back_record(record);
    segment.header().retirements.fetch_add(1, std::memory_order_release);
}

// So that nothing that is done later for one of so many queue pairs finds no memory.
void Adapter::State::make_room_for(std::uint32_t queue_pairs) {
    if (queue_pairs <= room_.load(std::memory_order_relaxed)) return;
    constexpr std::uint32_t kFew = 64, kOwnTimers = 2;
    std::lock_guard progress(progress_lock);
    if (queue_pairs <= room_.load(std::memory_order_relaxed)) return;
    const std::uint32_t room = std::max(kFew, std::bit_ceil(queue_pairs));
    timers.make_room_for(room + kOwnTimers);
    touched_.reserve(room);
    owing_.reserve(room);
    room_.store(room, std::memory_order_relaxed);
}

transport::QueuePair* Adapter::State::create_qp(const transport::QpSetup& setup, Time now) {
    const std::uint32_t queue_pairs = queue_pairs_.fetch_add(1, std::memory_order_relaxed) + 1;
    transport::QueuePair* made = nullptr;
    try {
        make_room_for(queue_pairs);
        made = make_qp(setup, now);
    } catch (...) {  // std::bad_alloc, of which the call tells
        queue_pairs_.fetch_sub(1, std::memory_order_relaxed);
        throw;
    }
    if (!made) queue_pairs_.fetch_sub(1, std::memory_order_relaxed);
    return made;
}

transport::QueuePair* Adapter::State::make_qp(transport::QpSetup setup, Time now) {
    std::lock_guard guard(table_lock);
    if (now > latest_) latest_ = now;
    free_records_.make_room_for(used_records_ + 1);
    const std::uint32_t number = table.take_number(random(), latest_);
    if (number == 0) return fail_null(ENOMEM, "all queue pair numbers of this process are in use");
    forget_failures(number);
    setup.number = number;
    setup.regions = &regions;
    setup.flows = &flows;
    setup.direct = direct;
    setup.xrc_queues = &shared_queues;
    QpRecord* record = take_record(number);
    if (!record) {
        table.give_back_number(number, 0);
        return fail_null(ENOMEM, "the process's table of queue pairs is full (%zu)",
                         segment.queue_pairs().size());
    }
    setup.busy_counters = &segment.busy_counters_of(*record);
    setup.rare_counters = &record->counters;
    setup.shown = &record->shown;
    const auto give_back = [&] {
        give_back_record(*record);
        table.give_back_number(number, 0);
    };
    std::unique_ptr<transport::QueuePair> qp;
    Slot* taken = nullptr;
    try {
        qp = transport::QueuePair::create(setup);
        if (qp) taken = &table.take_slot();
    } catch (...) {
        give_back();
        throw;
    }
    if (!qp) {
        give_back();
        return nullptr;  // errno and reason are the transport's
    }
    Slot& slot = *taken;
    transport::QueuePair* result = qp.get();
    {
        std::lock_guard slot_guard(slot.lock);
        slot.qp = std::move(qp);
        slot.number = number;
        slot.record = record;
        slot.was_connected = slot.again = false;
        slot.out = 0;
        slot.mark_sent = slot.mark_received = slot.mark_retransmitted = 0;
        record->device = setup.device;
        record->send_cq = setup.send_cq_number;
        record->receive_cq = setup.receive_cq_number;
        show_state(slot);
    }
    table.set(number, &slot, result);
    return result;
}

void Adapter::State::destroy_qp(transport::QueuePair& qp, Time now) {
    const std::uint32_t number = qp.number();
    std::lock_guard guard(table_lock);
    if (now > latest_) latest_ = now;
    Slot* slot = table.find(number);
    if (!slot) return;
    table.set(number, nullptr, nullptr);
    std::unique_ptr<transport::QueuePair> gone;
    std::shared_ptr<transport::Flow> left;
    bool quarantine;
    {
        std::lock_guard slot_guard(slot->lock);
        // The peer's last message was received: it must not look lost.
        static_cast<void>(transmit(*slot, now, true));
        left = slot->qp->flow();
        gone = std::move(slot->qp);
        slot->number = 0;
        quarantine = slot->was_connected;
        retire(*slot->record);
        slot->record = nullptr;
        timers.set(*slot, kNever);
    }
    regions.unbind_windows_of(number);
    // As adapters do: what a program's wr_id points to may be gone as well.
    transport::forget_completions(gone->setup());
    gone.reset();
    if (left) serve(left, now);
    table.give_back(*slot);
    table.give_back_number(number, quarantine ? latest_ + kNumberQuarantine : 0);
    queue_pairs_.fetch_sub(1, std::memory_order_relaxed);
}

void Adapter::State::show_state(Slot& slot) {
    using Takes = transport::ReceiveQueue::Takes;
    slot.state = slot.qp->state();
    table.show_outside(slot.number, *slot.qp);
    describe(slot);
    if (transport::ReceiveQueue* const queue = slot.qp->setup().own_receives())
        queue->set_takes(slot.state == QpState::reset   ? Takes::nothing
                         : slot.state == QpState::error ? Takes::to_flush
                                                        : Takes::requests);
}

void Adapter::State::describe(Slot& slot) {
    const transport::QueuePair& qp = *slot.qp;
    transport::Attributes attributes;
    qp.query(attributes);
    QpRecord& record = *slot.record;
    record.service = static_cast<std::uint32_t>(qp.setup().service);
    record.pd = qp.setup().pd;
    record.local = attributes.path.source;
    record.peer = attributes.path.destination;
    record.peer_qp = attributes.destination_qp;
    record.path_mtu = attributes.path_mtu;
    const transport::CompletionCounters* counted = qp.setup().counted;
    record.access = attributes.access & ~(counted ? counted->by_packets_only() : memory::Access{0});
    record.max_destination_rd_atomic = attributes.max_destination_rd_atomic;
    record.rq_psn = attributes.rq_psn;
    record.sq_psn = attributes.sq_psn;
    if (direct && device_of_ && record.peer_device == kNoDevice && !record.peer.is_zero())
        record.peer_device = device_of_(record.peer);
    // Last: peers of this host look at it before they read the rest.
    record.state.store(static_cast<std::uint32_t>(qp.state()), std::memory_order_seq_cst);
}

}  // namespace verbena::adapter
