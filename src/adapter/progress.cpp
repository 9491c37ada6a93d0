// The walk of packets: a burst from the link, each packet checked and given to its queue pair, each touched
// queue pair answering once at the burst's end; then the timers. (straight.cpp may answer before.)

#include <algorithm>
#include <new>
#include <utility>

#include "adapter/state.h"
#include "base/put_off.h"
#include "base/reason.h"
#include "link/hooks.h"
#include "wire/byte_order.h"
#include "wire/icrc.h"
#include "wire/mad.h"
#include "wire/packet.h"

namespace verbena::adapter {
namespace {

wire::IcrcCheck check_icrc(const link::Datagram& datagram, std::uint32_t& ip_id) {
    if (datagram.icrc && datagram.icrc->length() == datagram.bytes.size())
        return wire::icrc_verify(*datagram.icrc, datagram.bytes, datagram.likely_ip_id, &ip_id);
    wire::IcrcSeries one(*datagram.path, datagram.destination_port, datagram.bytes.size());
    return wire::icrc_verify(one, datagram.bytes, datagram.likely_ip_id, &ip_id);
}

// How many packets, from the first on, are a message each and for one queue pair; up to `most`.
std::size_t count_alike(std::span<const std::uint8_t> burst, std::size_t size, std::size_t most) {
    if (size < wire::kBthLength + wire::kIcrcLength || burst.size() < size ||
        !wire::is_whole_message(wire::BthWords(burst.data()).opcode()))
        return 0;
    std::size_t count = 1;
    while (count < most && (count + 1) * size <= burst.size() &&
           wire::is_alike(burst.data(), burst.data() + count * size))
        count++;
    return count;
}

}  // namespace

[[gnu::always_inline]] inline unsigned Adapter::State::take_turn(Time now, Owed owed, Caller caller) {
    now_ = now;
    unsigned done = 0;
    for (unsigned round = 0; round == 0 || (round < kReceiveRounds && link.goes_on()); round++) {
        if (!files.is_of_now()) [[unlikely]]
            break;
        if (round > 0) PutOff::catch_up();
        done += link.receive(*this, kReceiveBudget);
        if (held_ || !touched_.empty()) finish_touched();
        leave_together();
    }
    timers.fire(now, [&](TimerNode& node) {
        if (&node == &owed_timer_)
            push_due(now);
        else if (&node == &gathering_timer_)
            gathered_in_time(now, caller == Caller::stands_in);
        else
            done += fire(static_cast<Slot&>(node), now);
    });
    event_deadlines.fire(now);
    if (link.answers_first()) {
        push_owed(now, false);
    } else if (done == 0 && owed != Owed::stays) {
        push_owed(now, owed == Owed::may_wait || unseen_);
        if (caller != Caller::stands_in) unseen_ = false;
    } else if (std::min(owing_.size(), owed_anew_) >= kOwedTogether) {
        push_owed(now, true);
    }
    if (done > 0) unseen_ = caller == Caller::stands_in;
    if (!crowded_.empty()) serve_crowded(now);
    leave_together();
    return done;
}

// Where there is no memory, what was under way is as good as lost on the way: it comes again.
template <class Turn>
[[gnu::always_inline]] inline auto Adapter::State::or_lost(Turn turn) -> decltype(turn()) {
    try {
        return turn();
    } catch (const std::bad_alloc&) {
        log(LogLevel::error, "no memory for a packet");
        held_.reset();
        return {};
    }
}

unsigned Adapter::State::run(Time now, Owed owed, Caller caller) {
    return or_lost([&] { return take_turn(now, owed, caller); });
}

// What a glance has found. For a poller, a message that is alone is taken without what a turn asks besides,
// for which the next poll has the time.
[[gnu::noinline]] unsigned Adapter::State::look_closer(const LazyTime& now, bool in_turn) {
    if (in_turn) return run(now.get(), Owed::may_wait, Caller::stands_in);
    somebody_looks();
    return take_alone(now) ? 1 : run(now.get(), Owed::leaves, Caller::waits);
}

[[gnu::always_inline]] inline bool Adapter::State::take_alone(const LazyTime& now) {
    if (!local || !files.is_of_now()) return false;
    const bool taken = or_lost([&] {
        return local->take_alone([&](const link::Datagram& datagram) {
            // Or else the last turn's, a few glances ago: asking would take as long as those.
            if (tells_time.load(std::memory_order_relaxed)) now_ = now.get();
            return straight(datagram);
        });
    });
    if (!taken) return false;
    leave_together();
    unseen_ = false;
    if (!crowded_.empty()) [[unlikely]]
        serve_crowded(now_);
    return true;
}

unsigned Adapter::progress(Time now, bool idle, Caller caller) {
    if (caller == Caller::waits) state_->somebody_waits(now);
    const PutOff behind_locks;
    std::unique_lock lock(state_->progress_lock, std::try_to_lock);
    return lock ? state_->run(now, idle ? State::Owed::leaves : State::Owed::stays, caller) : 0;
}

unsigned Adapter::progress_in_turn(LazyTime now) {
    const PutOff behind_locks;
    std::lock_guard lock(state_->progress_lock);
    return state_->run(now.get(), State::Owed::may_wait, Caller::stands_in);
}

// Mostly it finds nothing, and costs little.
bool Adapter::glance(LazyTime now, unsigned& done, bool in_turn) {
    const Time until = state_->gathers_until.load(std::memory_order_relaxed);
    if (!in_turn && until != kNever) [[unlikely]]
        state_->somebody_waits(now.get());
    std::unique_lock lock(state_->progress_lock, std::try_to_lock);
    if (!lock || (state_->looks_empty() && (!in_turn || until == kNever || now.get() < until))) return false;
    const PutOff behind_locks;
    done = state_->look_closer(now, in_turn);
    lock.unlock();
    return true;
}

void Adapter::State::datagram(const link::Datagram& datagram) {
    AdapterCounters& counters = segment.counters();
    count(counters.received);
    if (datagram.forwarded) count(counters.strays_received);
    if (datagram.bytes.size() < wire::kBthLength + wire::kIcrcLength) return count(counters.runts);

    // Whose is it? A kernel or an adapter may have merged packets for several processes into one delivery.
    const std::uint32_t number = wire::load_be24(datagram.bytes.data() + 5);
    if (number == wire::kMulticastQp) return to_group(datagram);
    Slot* slot = table.find(number);
    if (!slot) {
        if (table.is_ours(number) || datagram.forwarded) return count(counters.no_queue_pair);
        count(counters.strays);
        return link.stray(datagram, number);
    }
    std::uint32_t ip_id = 0;
    if (is_whole(datagram, ip_id)) take(*slot, number, datagram, ip_id);
}

void Adapter::State::take(Slot& slot, std::uint32_t number, const link::Datagram& datagram,
                          std::uint32_t ip_id) {
    if (!datagram.by_memory && !datagram.forwarded && !link::packet_observer()) {
        expect_unless_held(slot, number, wire::BthWords(datagram.bytes.data()).opcode());
        if (goes_straight(slot, datagram)) return;
    }
    wire::Packet packet;
    if (is_good(datagram, ip_id, packet)) deliver(&slot, number, datagram, packet);
}

// Behind the first of those.
void Adapter::State::expect_behind(std::span<const std::uint8_t> packets, std::size_t size) const {
    const auto bth = [&](std::size_t behind) {
        const std::size_t at = behind * size;
        return at + wire::kBthLength <= packets.size() ? wire::BthWords(packets.data() + at)
                                                       : wire::BthWords();
    };
    table.expect(bth(QpOrder::kSoon));
    table.expect_later(bth(QpOrder::kFar).destination_qp());
}

[[gnu::flatten]] void Adapter::State::burst(const link::Datagram& all, std::size_t size) {
    const bool together = all.icrc && all.icrc->length() == size && !all.forwarded &&
                          !link::packet_observer() && !link::packet_faults();
    for (std::size_t at = 0; at == 0 || at < all.bytes.size();) {
        const std::span<const std::uint8_t> rest = all.bytes.subspan(at);
        const std::size_t alike = together ? count_alike(rest, size, alike_.size()) : 0;
        if (alike > 1) {
            receive_alike(all, at / size, size, alike);
            at += alike * size;
            continue;
        }
        const wire::ReceivedRun run = wire::leading_run(rest, size);
        const std::size_t packets = std::max<std::size_t>(run.packets, 1);
        if (many()) expect_behind(rest, size);
        if (packets == 1 || !receive_run(run, all, at / size))
            for (std::size_t i = 0; i < packets; i++) datagram(one_of_burst(all, at + i * size, size));
        at += packets * size;
    }
}

// Those from `place` on: a message each, and for one queue pair.
void Adapter::State::receive_alike(const link::Datagram& all, std::size_t place, std::size_t size,
                                   std::size_t packets) {
    const std::span<const std::uint8_t> bytes = all.bytes.subspan(place * size);
    const wire::BthWords bth(bytes.data());
    const std::uint32_t number = bth.destination_qp();
    Slot* const slot = table.find(number);
    if (slot) expect_unless_held(*slot, number, bth.opcode());
    if (many()) expect_behind(bytes.subspan((packets - 1) * size), size);
    std::size_t whole = 0;
    std::array<std::uint32_t, kAlike> ip_ids;
    for (; slot && whole < packets; whole++) {
        alike_[whole].bytes = bytes.subspan(whole * size, size);
        if (wire::icrc_verify(*all.icrc, alike_[whole].bytes, static_cast<std::uint16_t>(place + whole),
                              &ip_ids[whole]) != wire::IcrcCheck::good)
            break;
    }
    const std::size_t taken =
        whole > 0 ? take_together(*slot, number, std::span(alike_).first(whole), *all.path) : 0;
    count(segment.counters().received, whole - taken);
    for (std::size_t i = taken; i < packets; i++) {
        const link::Datagram one = one_of_burst(all, (place + i) * size, size);
        if (i < whole)
            take(*slot, number, one, ip_ids[i]);
        else
            datagram(one);
    }
}

// False: its packets go singly, as for everybody who looks at single packets. `place`: of the first one.
bool Adapter::State::receive_run(const wire::ReceivedRun& run, const link::Datagram& all, std::size_t place) {
    if (link::packet_observer() || link::packet_faults()) return false;
    const std::uint32_t number = run.bth.destination_qp;
    Slot* slot = table.find(number);
    if (!slot) return false;
    for (std::uint32_t i = 0; i < run.packets; i++) {
        std::uint32_t ip_id = 0;
        if (check_icrc(one_of_burst(all, (place + i) * run.stride, run.stride), ip_id) !=
            wire::IcrcCheck::good)
            return false;
    }
    expect_unless_held(*slot, number, run.bth.opcode);
    hold(*slot, number);
    if (!*held_ || !held_->qp().receive_run(run, *all.path, now_)) return false;
    count(segment.counters().received, run.packets);
    if (all.forwarded) count(segment.counters().strays_received, run.packets);
    held_->qp().count_wire_bytes(run.packets * run.stride);
    tell(*slot);
    return true;
}

// IBA 10.5.2: a copy for each queue pair of this process that is attached to the group, the sender's own
// among them.
void Adapter::State::to_group(const link::Datagram& datagram) {
    if (!groups.members(datagram.path->destination, datagram.path->interface_index, members_))
        return count(segment.counters().no_queue_pair);
    std::uint32_t ip_id = 0;
    wire::Packet packet;
    if (!is_whole(datagram, ip_id) || !is_good(datagram, ip_id, packet)) return;
    for (const std::uint32_t number : members_)
        if (Slot* slot = table.find(number)) deliver(slot, number, datagram, packet);
}

// As its sender made it, by its ICRC.
bool Adapter::State::is_whole(const link::Datagram& datagram, std::uint32_t& ip_id) {
    if (datagram.by_memory || check_icrc(datagram, ip_id) == wire::IcrcCheck::good) return true;
    count(segment.counters().bad_icrc);
    count_error(datagram);
    return false;
}

bool Adapter::State::is_good(const link::Datagram& datagram, std::uint32_t ip_id, wire::Packet& packet) {
    if (wire::parse(datagram.bytes, packet) != wire::ParseError::none) {
        count(segment.counters().malformed);
        count_error(datagram);
        return false;
    }

    // What came through memory was seen when it left.
    if (link::PacketObserver* observer = link::packet_observer(); observer && !datagram.by_memory)
        observer->packet({false, datagram.path, datagram.destination_port, static_cast<std::uint16_t>(ip_id),
                          datagram.bytes});

    packet.aside = datagram.aside;
    packet.elsewhere = datagram.elsewhere;
    return true;
}

// Of the port that it came to.
void Adapter::State::count_error(const link::Datagram& datagram) {
    const std::uint32_t device = device_of_ ? device_of_(datagram.path->destination) : kNoDevice;
    if (device == kNoDevice) return;
    held_.reset();  // the table's lock comes before a queue pair's
    std::lock_guard guard(table_lock);
    segment.totals_of(device).receive_errors++;
}

void Adapter::State::deliver(Slot* slot, std::uint32_t number, const link::Datagram& datagram,
                             const wire::Packet& packet) {
    hold(*slot, number);
    if (!*held_) return count(segment.counters().no_queue_pair);
    const bool has_payload = wire::info(packet.headers.bth.opcode).may_have_payload;
    const std::size_t elsewhere = datagram.elsewhere && has_payload ? datagram.elsewhere->length() : 0;
    held_->qp().count_wire_bytes(datagram.bytes.size() + elsewhere);
    if (link::PacketFaults* faults = link::packet_faults()) [[unlikely]] {
        using Arrival = link::PacketFaults::Arrival;
        const Arrival arrival = faults->arrives(number, packet, *datagram.path, now_);
        if (arrival == Arrival::damaged) {
            count(segment.counters().bad_icrc);
            return count_error(datagram);
        }
        if (arrival == Arrival::twice) held_->qp().receive(packet, *datagram.path, now_);
        if (arrival != Arrival::lost) held_->qp().receive(packet, *datagram.path, now_);
    } else {
        held_->qp().receive(packet, *datagram.path, now_);
    }
    tell(*slot);
}

void Adapter::State::finish_touched() {
    for (Slot* slot : touched_) {
        const Slot::Touched how = slot->touched;
        slot->touched = Slot::Touched::no;
        // The number is read under the lock: the queue pair may be gone, the slot even have another one.
        const bool holding = held_ && *held_ && &held_->slot() == slot;
        if (!holding) {
            held_.reset();
            std::unique_lock lock(slot->lock);
            if (!slot->qp) continue;
            memory::Section section(segment.sections());
            finish(*slot, how);
        } else {
            finish(*slot, how);
        }
    }
    touched_.clear();
    held_.reset();
}

// A thread that holds it may be about to send to the peer that the row is for.
std::unique_lock<Lock> Adapter::State::lock_owing(Slot& slot) {
    std::unique_lock lock(slot.lock, std::try_to_lock);
    if (lock) return lock;
    link.end_row();
    lock.lock();
    return lock;
}

// Nothing happens and somebody waits, or many are owed: acknowledgements that were held back for a better
// moment leave. `patient`: but not those that a request will probably take along before their timer sends
// them.
void Adapter::State::push_owed(Time now, bool patient) {
    if ((std::exchange(owed_anew_, 0) == 0 && patient) || owing_.empty()) return;
    wire::PacketCopier& copier = copier_of_owed();
    std::erase_if(owing_, [&](Slot* slot) {
        const std::unique_lock lock = lock_owing(*slot);
        if (patient && slot->qp && slot->qp->awaits_company()) return false;
        slot->owing = false;
        if (slot->qp) settle_owed(*slot, now, copier);
        return true;
    });
    link.end_row();
}

// Acknowledgements that have waited for as long as they may.
void Adapter::State::push_due(Time now) {
    Time next = kNever;
    wire::PacketCopier& copier = copier_of_owed();
    std::erase_if(owing_, [&](Slot* slot) {
        const std::unique_lock lock = lock_owing(*slot);
        const Time deadline = slot->qp ? slot->qp->acknowledgement_deadline() : kNever;
        if (deadline > now && deadline != kNever) {
            next = std::min(next, deadline);
            return false;
        }
        slot->owing = false;
        if (deadline != kNever)
            settle_owed(*slot, now, copier);  // else it has left, or there is no queue pair any more
        return true;
    });
    link.end_row();
    timers.set(owed_timer_, next);
}

// False: there was nothing to be done now.
bool Adapter::State::fire(Slot& slot, Time now) {
    std::unique_lock lock(slot.lock);
    if (!slot.qp) return false;
    if (const Time deadline = deadline_of(slot); deadline > now && !slot.again) {
        timers.set(slot, deadline);
        return false;
    }
    memory::Section section(segment.sections());
    if (slot.again) leave_together();  // it may take long
    slot.qp->advance(now);
    transmit_in_run(slot, now, true);
    return true;
}

Time Adapter::State::deadline_of(const Slot& slot) {
    const Time deadline = slot.qp->next_deadline();
    link::PacketFaults* const faults = link::packet_faults();
    return faults ? std::min(deadline, faults->next_deadline(slot.number)) : deadline;
}

}  // namespace verbena::adapter
