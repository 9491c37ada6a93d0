// The calls from above: each finds the queue pair's slot, takes its lock, lets the transport decide, and
// sends what became ready.

#include "adapter/adapter.h"

#include <algorithm>
#include <array>
#include <cerrno>

#include "adapter/state.h"
#include "base/failures.h"
#include "base/reason.h"

namespace verbena::adapter {

using transport::QpState;

Adapter::State::State(const Setup& setup)
    : link(*setup.link),
      local(setup.local),
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
void Adapter::tell_time() { state_->tells_time.store(true, std::memory_order_relaxed); }

void Adapter::make_room_for_numbers(std::uint32_t first, std::uint32_t count) {
    std::lock_guard guard(state_->table_lock);
    state_->table.make_room(first, count);
}

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
    memory::Access revoked = 0;
    const auto rights = [&] {
        transport::Attributes current;
        qp.query(current);
        return current.access;
    };
    const bool there = state_->work_on(qp.number(), now, [&](Slot& slot) {
        left = qp.flow();
        state_->let_leave(slot);
        // Before the flushed completions are there to be asked about.
        if (ends && attributes.state == QpState::error && qp.state() != QpState::error) {
            const char* call = current_call_name();
            record_failure(FailedPart::queue_pair, qp.number(), 0, "%s moved it to the error state",
                           call ? call : "the program");
        }
        if ((mask & transport::kAttrAccessFlags) && slot.was_connected) revoked = rights();
        error = qp.modify(attributes, mask, now);
        if (revoked) revoked &= ~rights();
        if (qp.state() != QpState::reset && qp.state() != QpState::init) slot.was_connected = true;
        state_->describe(slot);
    });
    if (!there) return no_queue_pair();
    if (left) state_->serve(left, now);
    if (ends || revoked) state_->wait_for_outsiders(qp.number());
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

transport::Standing Adapter::standing(const transport::QueuePair& qp) {
    LockedQp locked = state_->lock(qp.number());
    return locked ? qp.standing() : transport::Standing{};
}

transport::QpCounters Adapter::counters(const transport::QueuePair& qp) {
    LockedQp locked = state_->lock(qp.number());
    return locked ? qp.counters() : transport::QpCounters{};
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
        std::optional<State::Boarding> boarding;
        LockedQp locked = state_->lock(number);
        if (!locked) return no_queue_pair();
        error = state_->post(locked.slot(), boarding.emplace(*state_, locked.slot()), requests, index,
                             list_goes_on, now, crowded);
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
        std::optional<State::Boarding> boarding;
        LockedQp locked = state_->lock(qp.number());
        if (!locked) return no_queue_pair();
        std::size_t index = 0;
        error = qp.check_send(requests);
        if (!error)
            error = state_->post(locked.slot(), boarding.emplace(*state_, locked.slot()), requests, index,
                                 false, now, crowded);
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
