// Sending: from the cursor on, while windows and limits allow. How a packet is made: rc_emit.cpp.
#include "transport/rc_requester.h"

#include <algorithm>

#include "transport/copy.h"
#include "transport/mutation.h"

namespace verbena::transport {
namespace {

constexpr Duration kPause = 40 * kMicrosecond;
constexpr Duration kFullPause = 200 * kMicrosecond;  // the receiver may be stopped: not too many looks
constexpr Duration kCompletionDelay = 20 * kMicrosecond;
constexpr std::uint32_t kWorthWaiting = 16 * 1024;       // bytes: longer than an acknowledgement takes
constexpr std::uint32_t kLargestReadChunk = 256 * 1024;  // bytes

}  // namespace

RcRequester::Memory::Memory(const QpSetup& setup)
    : places(SendQueue::make_places(setup.capabilities)),
      rest(std::make_unique<Rest>(std::max<std::uint32_t>(setup.capabilities.max_send_sge, 1))) {}

RcRequester::RcRequester(RcShared shared, Memory&& memory) noexcept
    : shared_(shared),
      direct_(shared.setup().direct),
      rest_(std::move(memory.rest)),
      queue_(shared.setup().capabilities, shared.basics().send_cq, std::move(memory.places)) {}

void RcRequester::join_flow(const Attributes& a) {
    flow_.join(shared_.setup().flows ? shared_.setup().flows->find(a.path.destination, a.destination_qp)
                                     : std::make_shared<Flow>());
}

void RcRequester::start(std::uint32_t psn) {
    una_ = next_psn_ = max_psn_ = psn;
    const Connection& a = shared_.connection();
    if (direct_)
        directly_ = direct_->reaches(a.path, a.destination_qp) ? Directly::hopefully : Directly::not_now;
    configure();
}

void RcRequester::configure() {
    const Attributes& a = shared_.attributes();
    retransmission_.configure(a.timeout, a.retry_count, a.rnr_retry);
}

void RcRequester::pace() {
    rest_->pacer.limit(shared_.attributes().rate_limit, shared_.attributes().max_burst);
    paced_ = rest_->pacer.limited();
    rest_->rate_allows_at = kNever;
}

// A READ's data is the peer's to send.
std::uint32_t RcRequester::wire_size(const SendEntry& entry, std::uint32_t packet,
                                     std::uint32_t count) const {
    return entry.is_read() ? Flow::kPacketOverhead : size(entry, packet, packet + count);
}

void RcRequester::count_against_rate(std::uint32_t bytes, Time now) {
    if (!paced_) return;
    rest_->pacer.sent(bytes, now);
    if (!rest_->pacer.allows(now)) rest_->rate_allows_at = rest_->pacer.next();
}

// How many PSNs the packet at `packet` of the request takes: a READ request asks up to its chunk's end.
std::uint32_t RcRequester::step(const SendEntry& entry, std::uint32_t packet) const {
    if (!entry.is_read()) return 1;
    const std::uint32_t chunk_end = std::min(entry.packets, (packet / entry.chunk + 1) * entry.chunk);
    return chunk_end - packet;
}

// What packets [from, to) of a request are on a wire.
std::uint32_t RcRequester::size(const SendEntry& entry, std::uint32_t from, std::uint32_t to) const {
    const std::uint64_t mtu = shared_.mtu();
    const std::uint64_t bytes =
        std::min<std::uint64_t>(to * mtu, entry.length) - std::min<std::uint64_t>(from * mtu, entry.length);
    return static_cast<std::uint32_t>(bytes) + (to - from) * Flow::kPacketOverhead;
}

// What they take of the window. Payloads that are fetched need no room at the peer; they count an eighth, so
// that a few MiB may wait there.
std::uint32_t RcRequester::cost(const SendEntry& entry, std::uint32_t from, std::uint32_t to) const {
    constexpr std::uint32_t kFetchedPart = 8;
    const std::uint32_t size = this->size(entry, from, to);
    return entry.fetched ? size / kFetchedPart : size;
}

bool RcRequester::wants_to_send() const {
    if (current_ == queue_.size() || resume_at_ != kNever || failed_) return false;
    const SendEntry& entry = queue_.at(current_);
    if (entry.local_error != VendorError::none) return false;
    if (entry.is_local()) return may_run(entry);
    if (rests_between_bursts() || waits_for_rate() || probe_.holds_back() ||
        (draining_ && !entry.started && rest_->direct_done == 0))
        return false;
    if (entry.fetched && rest_->held_at == una_) [[unlikely]]
        return false;
    // What is large waits until the link can execute it, unless such things leave as packets.
    if (!entry.started && directly_ == Directly::hopefully && !by_packets_ &&
        (drain_first_ || entry.length >= kWorthWaiting) && outstanding() && may_go_directly(entry))
        return false;
    // IBA 10.8.3.3: a fenced request waits for the READs and atomics before it.
    if (current_packet_ == 0 && (entry.flags & kFence) && outstanding_reads_ > 0 &&
        !mutated(Mutation::fence_ignored))
        return false;
    return !entry.awaits_response() || may_ask();
}

// IBA 9.4.4, 11.2.5.1: the initiator depth. A READ that is several requests on the wire is one for its
// program, which may have a peer of a smaller depth than that and post one at a time: no more of them are out
// than the program ever posted at once.
bool RcRequester::may_ask() const {
    if (outstanding_reads_ >= shared_.connection().max_rd_atomic) return false;
    return outstanding_reads_ < reads_at_once_ || awaits_more_than(outstanding_reads_);
}

// Whether the program has posted more requests that get a response and are not complete; far behind the
// oldest they do not count.
bool RcRequester::awaits_more_than(std::uint32_t count) const {
    constexpr std::uint32_t kMostLookedAt = 64;
    for (std::uint32_t i = 0; i < std::min(queue_.size(), kMostLookedAt); i++)
        if (queue_.at(i).awaits_response() && count-- == 0) return true;
    return false;
}

bool RcRequester::has_room() const {
    const SendEntry& entry = queue_.at(current_);
    if (entry.is_local()) return true;
    // The cost of a READ is known once it has started; that it may start is enough here.
    return flow_.allows(entry.started
                            ? cost(entry, current_packet_, current_packet_ + step(entry, current_packet_))
                            : std::min(entry.length, shared_.mtu()) + Flow::kPacketOverhead);
}

bool RcRequester::line_up(bool sent_something) {
    bool again = false;
    if (wants_to_send()) {
        if (has_room()) {
            again = true;
        } else if (flow_.alone()) {
            again = flow_.idle();
        } else {
            flow_.wait(shared_.basics().number, sent_something);
            // What is not in flight cannot be overdue.
            if (next_psn_ == una_) retransmission_.stop();
        }
    }
    flow_.turn(false);
    return again && !mutated(Mutation::flow_turn_missed);
}

bool RcRequester::may_run(const SendEntry& local) const {
    if (local.done) return true;  // the cursor went back and comes by again
    if (local.started) return grace_look_at_ == kNever;
    if (draining_) return false;
    if (local.operation == Operation::local_invalidate) return current_ == 0;
    return !(local.flags & kFence) || outstanding_reads_ == 0;
}

// The local request at the cursor (local_operations.h). True: the cursor stands behind it now.
bool RcRequester::run_local(SendEntry& entry, Time now) {
    if (!entry.started) {
        if (auto error = execute_local(shared_.setup(), entry); error != VendorError::none) {
            local_error(entry, error, now);
            return false;
        }
        entry.started = true;
        rest_->grace.start();
    }
    if (!entry.done && !rest_->grace.over(shared_.basics().regions->sections())) {
        grace_look_at_ = now + kGraceStep;
        return false;
    }
    if (!entry.done) wait_for_outsiders(shared_.setup(), entry);
    entry.done = true;
    if (current_ == 0)
        complete_head(now);
    else
        current_++;
    return true;
}

// Assigns PSNs to a request that goes out for the first time. Local keys are checked now (IBA 10.8.3.2), for
// the whole request, so that a bad one sends nothing.
bool RcRequester::prepare(SendEntry& entry, Time now) {
    const memory::Access need = entry.awaits_data() ? memory::kLocalWrite : 0;
    if (auto error = check(shared_.regions(), shared_.basics().pd, queue_.sges(entry), need);
        error != memory::LookupError::none) {
        local_error(entry, offset_by(VendorError::send_lkey_unknown, error), now);
        return false;
    }
    entry.first_psn = next_psn_;
    entry.packets = entry.is_atomic() ? 1 : packets_of(entry.length, shared_.mtu());
    if (entry.is_read()) entry.chunk = read_chunk();
    entry.started = true;
    return true;
}

// One is under way while another one is asked for, if both may be; else it is all that the window takes.
std::uint32_t RcRequester::read_chunk() const {
    const bool several =
        shared_.connection().max_rd_atomic > 1 && (reads_at_once_ > 1 || awaits_more_than(1));
    const std::uint32_t window = std::min(flow_.window(), kLargestReadChunk);
    return std::max(several ? window / 2 / shared_.mtu() : window / full_cost(), 1u);
}

// Requests complete in order (IBA 10.8.5): the error waits until all before it are acknowledged.
void RcRequester::local_error(SendEntry& entry, VendorError error, Time now) {
    entry.local_error = error;
    if (&entry == &queue_.at(0)) fail_head(local_status(error), error, now);
}

bool RcRequester::takes_along(wire::PacketSink& sink) const {
    const SendEntry& entry = queue_.at(current_);
    return (entry.is_send() || entry.is_write()) && packets_at_once(sink, shared_, false) > 0;
}

unsigned RcRequester::transmit(wire::PacketSink& sink, Time now, unsigned budget, wire::Aside& riding) {
    unsigned sent = 0;
    took_long_ = false;
    if (!shared_.reliable()) {
        complete_sent(now);
        if (now >= rest_->pause_over) next_burst(sink, now);
    }
    if (probe_due_ && budget > 0 && send_probe(sink, now)) sent++;
    while (sent < budget && may_send()) {
        if (const unsigned whole = send_whole(sink, now, budget - sent, riding)) {
            sent += whole;
            continue;
        }
        SendEntry& entry = queue_.at(current_);
        if (entry.is_local()) {
            if (!run_local(entry, now)) break;
            continue;
        }
        if (!entry.started) {
            if (direct_ && may_go_directly(entry)) {
                if (rest_->direct_done == 0)
                    choose_way(entry.length, entry.is_read(), queue_.size() - current_, now);
                if (!wants_to_send()) break;
                if (!by_packets_ && execute_directly(now)) {
                    if (rest_->direct_done > 0) break;
                    budget--;
                    continue;
                }
            }
            if (!prepare(entry, now)) break;
        }
        if (!has_room()) break;
        const unsigned packets = send_next(sink, now, budget - sent, riding);
        if (packets == 0) break;
        sent += packets;
        took_long_ |= entry.placed;
        if (took_long_ && !goes_on_beside(entry)) break;
    }
    if (sent == 0) return 0;
    if (shared_.reliable()) {
        retransmission_.sent(now);
    } else {
        rest_->complete_at = now + kCompletionDelay;
        rest_->pause_over = now + kPause;
    }
    return sent;
}

// UC: the pause after a burst is over; it goes on where the link says that packets pile up.
void RcRequester::next_burst(wire::PacketSink& sink, Time now) {
    const Connection& a = shared_.connection();
    const bool full = sink.is_full(a.path, a.destination_qp);
    rest_->burst = full ? kBurst : 0;
    if (full) rest_->pause_over = now + kFullPause;
}

void RcRequester::complete_sent(Time now) {
    rest_->complete_at = kNever;
    if (!outstanding()) return;
    acknowledge_before(next_psn_, now);
    if (!failed_) finish_progress(now);
}

// Packets. Of a window that losses keep small half: the other one is under way while the answer to the first
// is.
std::uint32_t RcRequester::ack_request_interval() const {
    constexpr std::uint32_t kMost = 16;
    if (!retransmission_.among_losses()) [[likely]]
        return kMost;
    const std::uint32_t half = flow_.window() / 2 / full_cost();
    return std::clamp<std::uint32_t>(half, 1, kMost);
}

bool RcRequester::asks_acknowledgement(const SendEntry& entry, std::uint32_t packets, std::uint32_t cost) {
    if (!shared_.reliable()) {
        rest_->burst += cost;
        return false;
    }
    // The last packet of each message; every few packets between; and before the window closes.
    since_ack_request_ += packets;
    const bool ask = current_packet_ + packets == entry.packets ||
                     since_ack_request_ >= ack_request_interval() || flow_.closes(cost, full_cost());
    if (ask) since_ack_request_ = 0;
    return ask;
}

// What leaves at once from `packet` on: one packet, perhaps a large one, or a run of at most `most`.
RcRequester::Portion RcRequester::at_once(wire::PacketSink& sink, const SendEntry& entry,
                                          std::uint32_t packet, unsigned most) const {
    const std::uint32_t rest = entry.packets - packet;
    if (rest == 1 || !(entry.is_send() || entry.is_write()) || !shared_.reliable())
        return {step(entry, packet), false};
    const Connection& a = shared_.connection();
    if (const std::uint32_t large = packets_at_once(sink, shared_, entry.fetched))
        return {std::min(large, rest), false};
    // Packets that leave for the first time and have room; the middle ones alone are alike, and the last of
    // a run is the one that asks for an acknowledgement.
    const bool again = wire::psn_add(entry.first_psn, packet) != max_psn_;
    if (packet == 0 || rest == 2 || again || paced_) return {};
    const std::uint32_t interval = ack_request_interval();
    const std::uint32_t longest =
        std::min({sink.longest_run(a.path, a.destination_qp),
                  interval - std::min(interval, since_ack_request_), flow_.room() / full_cost(), most});
    return {std::clamp<std::uint32_t>(longest, 1, rest - 1), true};
}

// What comes next: a packet or a run. How many packets that were; 0 if the request fails, or waits.
unsigned RcRequester::send_next(wire::PacketSink& sink, Time now, unsigned most, wire::Aside& riding) {
    SendEntry& entry = queue_.at(current_);
    const std::uint32_t packet = current_packet_;
    if (packet == 0 && entry.packets > 1) {
        if (entry.is_send()) choose_fetching(entry, now);
        choose_halves(entry, now);
        if (entry.is_read() && entry.halved && is_beneath_others(entry)) {
            rest_->held_at = una_;
            return 0;
        }
    }
    const Part part = next_part(entry);
    const bool writes = part.ours && at_once(sink, entry, packet, most).psns >= part.packets;
    Direct written = Direct::declined;
    if (writes)
        written = entry.is_send() ? write_ahead(sink, entry, part.packets, now, riding)
                                  : write_half(sink, entry, part.packets, now, riding);
    rest_->held_at = written == Direct::not_yet ? una_ : kNotHeld;
    if (written == Direct::not_yet) return 0;
    if (!entry.is_read()) entry.placed = written == Direct::done;
    auto [count, is_run] = at_once(sink, entry, packet, most);
    if (entry.halved || entry.placed) count = std::min(count, part.packets);
    const std::uint32_t expected_cost = cost(entry, packet, packet + count);
    const bool ask = asks_acknowledgement(entry, count, expected_cost);
    // Before it is copied: counting takes a locked instruction, which waits for all stores before it.
    flow_.sent(expected_cost);
    const bool left = emit(sink, entry, packet, count, ask, now, riding);
    if (left && packet == 0 && count == 1) entry.fetched = entry.halved = false;  // it went as on a wire
    flow_.corrects(expected_cost, left ? cost(entry, packet, packet + count) : 0);
    if (!left) return 0;
    entry.beside_window = false;
    count_against_rate(wire_size(entry, packet, count), now);
    if (entry.awaits_response()) reads_at_once_ = std::max(reads_at_once_, ++outstanding_reads_);
    if (by_packets_ && may_go_directly(entry) && (!outstanding() || packets_since_ == kNever)) {
        served_since(now, now);
        if (!outstanding() && entry.length > kSmallWrite && !measures(entry.length, way_of(entry)))
            begin_pace(entry.length, way_of(entry), now);
    }
    if (!measures(entry.length, way_of(entry))) measure_anew(entry, count > 1 && !is_run, now);
    next_psn_ = wire::psn_add(next_psn_, count);
    if (wire::psn_less(max_psn_, next_psn_)) {
        if (entry.awaits_response())
            begin_sample(max_psn_, now);
        else if (ask)
            sample_sometimes(wire::psn_add(next_psn_, ~0u), wire::psn_add(next_psn_, ~0u),
                             now);  // the last asks
        max_psn_ = next_psn_;
    } else {
        shared_.rare().retransmitted++;
    }
    if (entry.is_read() && entry.halved) read_half(sink, entry, now);
    current_packet_ += count;
    if (current_packet_ == entry.packets) {
        current_++;
        current_packet_ = 0;
    }
    return is_run ? count : 1;
}

void RcRequester::advance(Time now) {
    if (now >= grace_look_at_) grace_look_at_ = kNever;
    if (now >= rate_deadline()) rest_->rate_allows_at = kNever;
    if (!shared_.reliable()) {
        if (now >= rest_->complete_at) complete_sent(now);
        if (now >= rest_->pause_over) rest_->burst = 0;
        return;
    }
    if (resume_at_ != kNever) {
        if (now >= resume_at_) resume_at_ = kNever;
        return;
    }
    const Retransmission::Due due = retransmission_.due(now);
    if (due != Retransmission::Due::nothing && direct_ &&
        direct_->stands_still(shared_.connection().path, shared_.connection().destination_qp))
        return;  // the timers are set anew
    switch (due) {
        case Retransmission::Due::nothing:
            break;
        case Retransmission::Due::probe:
            probe_due_ = outstanding();
            break;
        case Retransmission::Due::doubt:
            if (probe_.silent()) lost();
            break;
        case Retransmission::Due::timeout:
            if (!retransmission_.take_retry()) {
                shared_.rare().timeouts++;
                return give_up(now);
            }
            [[fallthrough]];
        case Retransmission::Due::late_timeout:
            shared_.rare().timeouts++;
            // Where others have packets under way, it is not their receive queue that takes nothing.
            if (flow_.alone()) flow_.collapsed();
            went_back_ = false;
            // Who holds back asks once more only: the answer tells whether to go back.
            if (probe_.holds_back())
                probe_due_ = true;
            else
                go_back();
            break;
    }
}

Standing RcRequester::standing() const {
    Standing standing{.sends = queue_.size(), .psn = una_};
    if (queue_.empty()) return standing;
    standing.waits = shared_.reliable() && outstanding();
    standing.wr_id = queue_.at(0).wr_id;
    for (std::uint32_t i = 0; i < queue_.size() && !standing.signaled; i++)
        standing.signaled = queue_.at(i).signaled;
    return standing;
}

void RcRequester::flush(Time now) {
    for (; !queue_.empty(); queue_.pop())
        push(queue_.at(0), completion::Status::work_request_flushed, VendorError::flushed, now);
    go_back();
    max_psn_ = una_;
    rest_->ahead.clear();
    rest_->direct_done = 0;
    retransmission_.stop();
    if (packets_since_ != kNever) served_since(kNever, now);
    resume_at_ = grace_look_at_ = kNever;
    failed_ = false;
}

}  // namespace verbena::transport
