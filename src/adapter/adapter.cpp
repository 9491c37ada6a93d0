// The calls from above: each finds the queue pair's slot, takes its lock, lets the transport decide, and
// sends what became ready.

#include "adapter/adapter.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>

#include "adapter/state.h"
#include "base/failures.h"
#include "base/reason.h"

namespace verbena::adapter {

using transport::QpState;

Adapter::State::State(const Setup& setup)
    : link(*setup.link),
      segment(*setup.segment),
      direct(setup.direct),
      regions(segment.regions(), segment.sections()),
      outsiders_(setup.outsiders),
      gathers_(setup.gathers),
      device_of_(setup.device_of),
      random_state_(setup.random_seed) {
    regions.set_outsiders(outsiders_);
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

Adapter::Adapter(const Setup& setup) : state_(std::make_unique<State>(setup)) {}
Adapter::~Adapter() = default;

memory::RegionTable& Adapter::regions() { return state_->regions; }
Segment& Adapter::segment() { return state_->segment; }
Time Adapter::next_deadline() const {
    return std::min(state_->timers.next(), state_->event_deadlines.next());
}

const std::atomic<Time>& Adapter::gathers_until() const { return state_->gathers_until; }

void Adapter::look_at_gathered(Time now) { state_->look_at_gathered(now); }

std::uint64_t Adapter::long_rounds() const { return state_->long_rounds.load(std::memory_order_relaxed); }

void Adapter::post_took(Duration time) { state_->post_took(time); }

completion::EventDeadlines& Adapter::event_deadlines() { return state_->event_deadlines; }

void Adapter::add_numbers(std::uint32_t first, std::uint32_t count) {
    std::lock_guard guard(state_->table_lock);
    state_->table.add_range(first, count);
}

bool Adapter::has_numbers(Time now) {
    std::lock_guard lock(state_->table_lock);
    return state_->table.has_numbers(now);
}

transport::QueuePair* Adapter::create_qp(const transport::QpSetup& setup, Time now) {
    return state_->create_qp(setup, now);
}

void Adapter::destroy_qp(transport::QueuePair* qp, Time now) {
    const std::uint32_t number = qp->number();
    state_->destroy_qp(*qp, now);
    state_->wait_for_outsiders(number);
}

namespace {
int no_queue_pair() { return fail(EINVAL, "the queue pair does not exist any more"); }
}  // namespace

int Adapter::modify(transport::QueuePair& qp, const transport::Attributes& attributes, std::uint32_t mask,
                    Time now) {
    const bool ends = (mask & transport::kAttrState) &&
                      (attributes.state == QpState::error || attributes.state == QpState::reset);
    if (ends) {
        settle(now);
        push_acknowledgements(qp, now);
    }
    int error = 0;
    std::shared_ptr<transport::Flow> left;  // if it is reset
    const bool there = state_->work_on(qp.number(), now, [&](Slot& slot) {
        left = qp.flow();
        state_->let_leave(slot);
        // Before the flushed completions are there to be asked about.
        if (ends && attributes.state == QpState::error && qp.state() != QpState::error) {
            const char* call = current_call_name();
            record_failure(FailedPart::queue_pair, qp.number(), 0, "%s moved it to the error state",
                           call ? call : "the program");
        }
        error = qp.modify(attributes, mask, now);
        if (qp.state() != QpState::reset && qp.state() != QpState::init) slot.was_connected = true;
        state_->describe(slot);
    });
    if (!there) return no_queue_pair();
    if (left) state_->serve(left, now);
    if (ends) state_->wait_for_outsiders(qp.number());
    if (error) errno = error;
    return error;
}

int Adapter::attach(transport::QueuePair& qp, const std::shared_ptr<transport::CompletionCounter>& counter,
                    std::uint32_t operations) {
    LockedQp locked = state_->lock(qp.number());
    if (!locked) return no_queue_pair();
    if (int error = qp.attach(counter, operations)) return error;
    state_->describe(locked.slot());
    return 0;
}

bool Adapter::awaits_acknowledgement(const transport::QueuePair& qp) {
    LockedQp locked = state_->lock(qp.number());
    return locked && qp.awaits_acknowledgement();
}

void Adapter::query(transport::QueuePair& qp, transport::Attributes& attributes) {
    if (LockedQp locked = state_->lock(qp.number())) qp.query(attributes);
}

int Adapter::post_send(std::uint32_t number, std::span<const transport::SendRequest> requests,
                       std::size_t& index, Time now, bool may_go_straight, bool list_goes_on) {
    index = 0;
    if (requests.size() == 1 && may_go_straight && post_straight(number, requests[0], now)) {
        index = 1;
        return 0;
    }
    int error = 0;
    CrowdedFlow crowded;
    if (state_->many()) state_->comes_to(number);
    {
        LockedQp locked = state_->lock(number);
        if (!locked) return no_queue_pair();
        error = state_->post(locked.slot(), requests, index, list_goes_on, now, crowded);
    }
    if (crowded) state_->serve(crowded, now);
    if (error) errno = error;
    return error;
}

int Adapter::post_send_together(transport::QueuePair& qp, std::span<const transport::SendRequest> requests,
                                Time now) {
    int error = 0;
    CrowdedFlow crowded;
    {
        LockedQp locked = state_->lock(qp.number());
        if (!locked) return no_queue_pair();
        std::size_t index = 0;
        error = qp.check_send(requests);
        if (!error) error = state_->post(locked.slot(), requests, index, false, now, crowded);
    }
    if (crowded) state_->serve(crowded, now);
    if (error) errno = error;
    return error;
}

// Without the queue pair's lock: the receive queue has its own, and a burst that is being received must not
// hold up a thread that posts.
int Adapter::post_receive(transport::QueuePair& qp, std::span<const transport::ReceiveRequest> requests,
                          std::size_t& index, LazyTime now) {
    index = 0;
    transport::ReceiveQueue& queue = *qp.setup().receive_queue;
    if (queue.takes() == transport::ReceiveQueue::Takes::nothing)
        return fail(EINVAL,
                    "the queue pair is in the reset state and takes no receive requests (IBA 10.3.1.1)");
    int error = 0;
    for (; index < requests.size(); index++)
        if ((error = queue.post(requests[index])) != 0) break;
    if (index > 0) state_->receives_posted(qp.number(), queue, now);
    if (error) errno = error;
    return error;
}

std::uint32_t Adapter::add_shared_queue(std::shared_ptr<transport::ReceiveQueue> queue) {
    return state_->shared_queues.add(std::move(queue));
}

void Adapter::remove_shared_queue(std::uint32_t number) {
    if (const auto queue = state_->shared_queues.find(number)) queue->close();
    state_->shared_queues.remove(number);
}

int Adapter::post_shared_receive(transport::ReceiveQueue& queue,
                                 std::span<const transport::ReceiveRequest> requests, std::size_t& index,
                                 LazyTime now) {
    int error = 0;
    for (index = 0; index < requests.size(); index++)
        if ((error = queue.post(requests[index])) != 0) break;
    std::array<std::uint32_t, transport::ReceiveQueue::kMaxWaiters> waiters;
    const std::size_t count = queue.take_waiters(waiters);
    for (std::size_t i = 0; i < count; i++)
        // At once: what completes here is in nobody's list of those who owe.
        state_->work_on(
            waiters[i], now.get(), [](Slot& slot) { slot.qp->receives_posted(); }, true);
    if (error) errno = error;
    return error;
}

// Packets are not received while memberships change (link.h).
int Adapter::attach(transport::QueuePair& qp, const Gid& group, std::uint32_t interface_index) {
    std::lock_guard lock(state_->progress_lock);
    return state_->groups.attach(state_->link, qp.number(), group, interface_index);
}

int Adapter::detach(transport::QueuePair& qp, const Gid& group, std::uint32_t interface_index) {
    std::lock_guard lock(state_->progress_lock);
    return state_->groups.detach(state_->link, qp.number(), group, interface_index);
}

unsigned Adapter::progress(Time now, bool idle, Caller caller) {
    if (caller == Caller::waits) state_->somebody_waits(now);
    std::unique_lock lock(state_->progress_lock, std::try_to_lock);
    return lock ? state_->run(now, idle ? State::Owed::leaves : State::Owed::stays, caller) : 0;
}

unsigned Adapter::progress_in_turn(LazyTime now) {
    std::lock_guard lock(state_->progress_lock);
    return state_->run(now.get(), State::Owed::may_wait, Caller::stands_in);
}

bool Adapter::glance(LazyTime now, unsigned& done, bool in_turn) {
    const Time until = state_->gathers_until.load(std::memory_order_relaxed);
    if (!in_turn && until != kNever) state_->somebody_waits(now.get());
    std::unique_lock lock(state_->progress_lock, std::try_to_lock);
    if (!lock || (state_->link.looks_empty() && (!in_turn || until == kNever || now.get() < until)))
        return false;
    if (!in_turn && until == kNever) state_->somebody_waits(now.get());
    done = in_turn ? state_->run(now.get(), State::Owed::may_wait, Caller::stands_in)
                   : state_->run(now.get(), State::Owed::leaves, Caller::waits);
    return true;
}

void Adapter::settle(Time now) {
    // More than any receive buffer or ring holds; what comes after the call need not be waited for. A round
    // may bring one packet only, if its payload is fetched; of those the window lets some two hundred wait.
    constexpr unsigned kPackets = 65536, kRounds = 512;
    state_->somebody_waits(now);
    std::lock_guard lock(state_->progress_lock);
    for (unsigned rounds = 0, packets = 0; rounds < kRounds && packets < kPackets; rounds++) {
        state_->link.look_everywhere();
        const unsigned done = state_->run(now, State::Owed::stays, Caller::posts);
        if (done == 0) break;
        packets += done;
    }
}

void Adapter::set_crowded(bool crowded) {
    std::atomic<std::uint32_t>& told = state_->segment.header().crowded;
    if (told.load(std::memory_order_relaxed) != crowded) told.store(crowded, std::memory_order_relaxed);
}

std::atomic<std::uint32_t>& Adapter::presence() { return state_->segment.header().present; }

bool Adapter::owes() const {
    std::unique_lock lock(state_->progress_lock, std::try_to_lock);
    return !lock || state_->owes();
}

void Adapter::push_all_acknowledgements(Time now) {
    std::lock_guard lock(state_->progress_lock);
    state_->push_gathered(now, State::Gathered::all);
    state_->push_owed(now, false);
    state_->leave_together();
}

void Adapter::push_acknowledgements(transport::QueuePair& qp, Time now) {
    state_->work_on(
        qp.number(), now, [](Slot&) {}, true);
}

}  // namespace verbena::adapter
