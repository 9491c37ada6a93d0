// Requests to processes of this host, where the link has more ways than one (direct_access.h): which WRITEs
// and READs it executes itself, and which leave as packets although it could; which SENDs the peer fetches.
#include <algorithm>

#include "transport/copy.h"
#include "transport/mutation.h"
#include "transport/rc_queue_pair.h"

namespace verbena::transport {
namespace {
constexpr std::uint32_t kMany = 16;  // small WRITEs
}  // namespace

bool RcRequester::may_go_directly(const SendEntry& entry) const {
    return shared_.basics().service == Service::rc && entry.length != 0 &&
           (entry.is_read() || entry.operation == Operation::rdma_write);
}

// Of a WRITE or READ that the link might execute, the last of so many that wait. The peer's processor has
// nothing to do with what is executed; but much at a time, or many small WRITEs, are there sooner as packets,
// if the peer serves them. Waking it up must pay. What has been executed counts as well, if the program goes
// on at once without having heard of it.
void RcRequester::choose_way(std::uint32_t length, bool read, std::uint32_t waiting, Time now) {
    constexpr std::uint64_t kMuch = std::uint64_t{512} << 10;         // bytes
    constexpr std::uint64_t kMuchStraight = std::uint64_t{32} << 10;  // ... of WRITEs of one packet
    constexpr Duration kAtOnce = 2 * kMicrosecond;
    // While one is executed; too soon for the program to have heard from anybody.
    const auto at_once = [&](Duration since) {
        const Duration beside_bytes = since - static_cast<Duration>(length) / 8;
        return beside_bytes <= kAtOnce || beside_bytes <= direct_->call_takes() * 3 / 2;
    };
    Wave& wave = flow_.wave();
    const std::uint32_t streak = wave.follows(now, at_once);
    const bool before = by_packets_ && outstanding();
    const bool small = length <= kSmallWrite;
    const Connection& a = shared_.connection();
    if (read ? length <= kSmallRead || a.max_rd_atomic <= 1
             : small && outstanding()) {  // keeps its place, whatever the others do
        by_packets_ = before;
        return;
    }
    const completion::CompletionQueue* const cq = shared_.basics().send_cq;
    const std::uint64_t operations = waiting + std::min(streak, std::max(queue_.unheard(), cq->waiting()));
    const auto faster = [&] {
        return direct_->packets_are_faster(a.path, a.destination_qp, length, read, before, now);
    };
    if (small) {
        by_packets_ = directly_ == Directly::hopefully &&
                      wave.carries(cq, waiting > 1 || operations >= kMany, now, faster);
        drain_first_ = false;
        return;
    }
    const bool one_packet = !read && length <= shared_.mtu();
    bool many = operations > 1 && operations * length >= (one_packet ? kMuchStraight : kMuch);
    if (one_packet) many = many && streak % kMany == 0;  // asking with each would take its time
    by_packets_ = (before || many) && directly_ == Directly::hopefully && faster();
    drain_first_ = before && !by_packets_;
}

// Whether a WRITE that fits into one packet, of so many that are posted together, leaves as one at once.
// Behind what is outstanding none can be executed; but it can wait for that, if the other way is faster by
// now or is to be tried, which is not asked with each. (Of one alone, and nothing outstanding, it has just
// been asked.)
bool RcRequester::leaves_as_packet(std::uint32_t length, std::uint32_t together, const LazyTime& now) {
    if (directly_ == Directly::never) return true;
    if (outstanding()) {
        if (length > kSmallWrite && !drain_first_ && next_psn_ % kMany == 0)
            choose_way(length, false, together, now.get());
        return !drain_first_;
    }
    if (together > 1) choose_way(length, false, together, now.get());
    if (by_packets_ || directly_ == Directly::hopefully) return by_packets_;
    // A link that could not may be able to by now.
    return (together > 1 && length <= kSmallWrite) ||
           !direct_->reaches(shared_.connection().path, shared_.connection().destination_qp);
}

// The same of a small WRITE, which is not measured, where nothing else has to be asked.
bool RcRequester::goes_with_others() {
    if (directly_ == Directly::never) return true;
    if (outstanding()) return !drain_first_;
    if (directly_ != Directly::hopefully || shared_.basics().is_counted ||
        !flow_.wave().surely_goes_on(shared_.basics().send_cq))
        return false;
    by_packets_ = true;
    drain_first_ = false;
    return true;
}

// One leaves straight while others do in place of being executed: whether it is one of those, and measured.
void RcRequester::watch_straight(bool one_sided, std::uint32_t length, const LazyTime& now) {
    if (one_sided) {
        if (const Time at = now.is_known() ? now.get() : kUnwatched; packets_since_ == kNever)
            served_since(at, at);
        flow_.wave().has(shared_.basics().send_cq, queue_.size() + 1);
        if (length > kSmallWrite && !outstanding())
            return begin_pace(length, PacketPace::Way::packets, now.get());
        if (measures(length, PacketPace::Way::packets)) return;
    }
    end_pace();
}

// Something was acknowledged, while packets were out in place of what the link would have executed at once.
// If that took long the peer computes, or its processor is wanted elsewhere, or we came late ourselves: what
// is executed waits for nobody.
void RcRequester::watch_packets(Time now) {
    constexpr Duration kSlow = kMillisecond;
    const Connection& a = shared_.connection();
    const bool slow = now - packets_since_ > kSlow, rest = outstanding();
    // One that has its PSNs already, and waited for room, or for this answer, goes as the others did.
    const bool next = by_packets_ && current_ != queue_.size() && queue_.at(current_).started;
    served_since((rest || next) && !slow && may_go_directly(queue_.at(0)) ? now : kNever, now);
    tell_pace(now, packets_since_ != kNever);
    if ((rest || next) && !slow) return;
    drain_first_ = rest && (by_packets_ || drain_first_);
    by_packets_ = false;
    if (slow) direct_->packets_were_slow(a.path, a.destination_qp, now);
}

// A SEND that begins, of several packets: whether the peer is to fetch its payload (direct_access.h).
void RcRequester::choose_fetching(SendEntry& entry, Time now) {
    const Connection& a = shared_.connection();
    entry.fetched = direct_ && shared_.basics().service == Service::rc && !(entry.flags & kInline) &&
                    direct_->fetching_is_faster(a.path, a.destination_qp, entry.length, outstanding(), now);
}

// Which receive the SEND at the cursor will take, and whether it may be written there: not while the peer is
// still to fetch or copy what comes before it, so that of receives that overlap the later one lies on top.
// That is waited for if it is of the same kind: those behind go this way, too, unless the last one could not.
RcRequester::Place RcRequester::place_of(const SendEntry& entry) const {
    const Connection& a = shared_.connection();
    const auto next = direct_->shown(a.path, a.destination_qp);
    if (!next) return {Direct::declined, 0};
    std::uint32_t receive = next->receive;
    std::uint32_t psn = entry.first_psn;
    for (std::uint32_t index = current_; psn != next->psn;) {
        if (index-- == 0) return {Direct::declined, 0};
        const SendEntry& before = queue_.at(index);
        if (before.is_local()) continue;
        const bool alike = before.is_send() && before.fetched && before.length >= ShownReceives::kFrom;
        if (!alike) return {Direct::declined, 0};
        const bool placed = before.placed && !before.halved;
        if (!placed && !mutated(Mutation::placed_behind_fetched)) return {Direct::not_yet, 0};
        receive++;
        psn = before.first_psn;
    }
    return {Direct::done, receive};
}

// A large SEND that the peer would fetch, or the next part of it: written into its receive by us, if that is
// shown (shown_receives.h), and named by what rides along. No lock of the link's is held meanwhile, and what
// others wait for has left, but for an acknowledgement that rides with this one.
Direct RcRequester::write_ahead(wire::PacketSink& sink, const SendEntry& entry, std::uint32_t packets,
                                Time now, wire::Aside& riding) {
    if (next_psn_ != max_psn_ || (current_packet_ > 0 && !entry.placed && !entry.halved))
        return Direct::declined;
    const auto [when, receive] = place_of(entry);
    if (when == Direct::not_yet && declined_) return Direct::declined;
    if (when != Direct::done) return when;
    const std::uint32_t offset = current_packet_ * shared_.mtu();
    const std::uint32_t length = std::min(packets * shared_.mtu(), entry.length - offset);
    unsigned pieces = 0;
    if (gather(shared_.regions(), shared_.basics().pd, queue_.sges(entry), offset, length,
               rest_->iovecs.data(), pieces) != memory::LookupError::none)
        return Direct::declined;
    sink.flush();
    const Connection& a = shared_.connection();
    const PlaceTarget target{a.path, shared_.basics().number, a.destination_qp, receive, offset, now};
    const Direct placed = direct_->place(target, {rest_->iovecs.data(), pieces});
    declined_ = placed == Direct::declined;
    if (placed == Direct::done) {
        riding.placed = ShownReceives::name_of(receive);
        if (entry.halved) copied_half(1);
    }
    // A receive that is missing is for the peer to say.
    return placed == Direct::not_yet && current_ == 0 ? Direct::declined : placed;
}

// A packet has left of what was not being measured. Large ones go to processes of this host only.
void RcRequester::measure_anew(const SendEntry& entry, bool large, Time now) {
    if (entry.is_send() && large)
        begin_pace(entry.length, way_of(entry), now);
    else
        end_pace();
}

// Something was acknowledged of what is measured; more of it is out, or not.
void RcRequester::tell_pace(Time now, bool goes_on) {
    if (pacing_ != Pacing::measures) return;
    const auto sample = rest_->pace.take(now, goes_on);
    if (!goes_on) pacing_ = Pacing::pauses;
    if (!sample || !direct_) return;
    direct_->measured(shared_.connection().path, shared_.connection().destination_qp, *sample);
}

// A WRITE or READ that the link can execute by itself (direct_access.h): the oldest request, with nothing
// before it that the peer has not acknowledged. Whatever speaks against it is found again when it leaves as
// packets. A large one is done in parts, one for each call, so that nobody waits long for the queue pair's
// lock.
bool RcRequester::execute_directly(Time now) {
    SendEntry& entry = queue_.at(0);
    const bool read = entry.is_read();
    if (current_ != 0 || outstanding()) return false;
    const std::uint32_t offset = rest_->direct_done;
    const std::uint32_t length = std::min(entry.length - offset, part_at(entry.remote_address + offset));
    rest_->direct_done = 0;
    unsigned pieces = 0;
    if (entry.flags & kInline) {
        rest_->iovecs[0] = {queue_.inline_data(entry), entry.length};
        pieces = 1;
    } else if (const auto sges = queue_.sges(entry);
               check(shared_.regions(), shared_.basics().pd, sges, read ? memory::kLocalWrite : 0) !=
                   memory::LookupError::none ||
               gather(shared_.regions(), shared_.basics().pd, sges, offset, length, rest_->iovecs.data(),
                      pieces) != memory::LookupError::none) {
        return false;
    }
    const std::uint32_t reads_at_once =
        std::min<std::uint32_t>(queue_.size(), shared_.connection().max_rd_atomic);
    const DirectTarget target = target_of(shared_, entry, entry.length, offset, reads_at_once, now);
    if (!transfer_directly(target, {rest_->iovecs.data(), pieces}, read, length)) return false;
    if (offset + length < entry.length) {
        rest_->direct_done = offset + length;
        return true;
    }
    if (!entry.signaled) queue_.done_silently();
    push(entry, completion::Status::success, VendorError::none, now);
    queue_.pop();
    return true;
}

// The same of one that is posted where nothing else is going on, without a place in the queue. False: it goes
// another way.
bool RcQueuePair::execute_straight(const SendRequest& request, const LazyTime& now) {
    if (!request.is_one_sided() || state_ != QpState::rts || basics_.service != Service::rc ||
        !requester_.execute_straight(request, now)) [[unlikely]]
        return false;
    last_now_ = now.get();
    if (completion_lost()) [[unlikely]]
        after(last_now_);
    return true;
}

// In one piece: a large copy evicts from the cache what stands around it, line by line.
[[gnu::flatten]] bool RcRequester::execute_straight(const SendRequest& request, const LazyTime& now) {
    constexpr std::uint32_t kUsual = kSignaled | kSolicited | kFence;
    const bool read = request.operation == Operation::rdma_read;
    const bool overtakes = mutated(Mutation::direct_overtakes);
    if (directly_ != Directly::hopefully || (!queue_.empty() && !overtakes) || queue_.room() == 0 ||
        (outstanding() && !overtakes) || failed_ || resume_at_ != kNever || waits_for_rate() ||
        request.sges.size() != 1 || shared_.basics().is_counted) [[unlikely]]
        return false;
    const Connection& a = shared_.connection();
    const Sge& sge = request.sges[0];
    const bool inline_data = request.flags & kInline;
    const std::uint32_t most = part_at(request.remote_address);
    if ((request.flags & ~(kUsual | kInline)) || sge.length == 0 || sge.length > most ||
        queue_.max_sge() == 0 || (read && (inline_data || a.max_rd_atomic == 0)) ||
        (inline_data && sge.length > queue_.max_inline())) [[unlikely]]
        return false;
    if (!read && sge.length <= kSmallWrite && flow_.wave().goes_on(shared_.basics().send_cq)) {
        by_packets_ = true;
        drain_first_ = false;
        return false;
    }
    choose_way(sge.length, read, 1, now.get());
    if (by_packets_) return false;
    iovec piece{reinterpret_cast<void*>(static_cast<std::uintptr_t>(sge.address)), sge.length};
    if (!inline_data) {
        const auto found = shared_.regions().local(sge.lkey, shared_.basics().pd, sge.address, sge.length,
                                                   read ? memory::kLocalWrite : memory::Access{0});
        if (!found || shared_.regions().is_room(found.address)) [[unlikely]]
            return false;
        piece.iov_base = found.address;
    }
    const DirectTarget target = target_of(shared_, request, sge.length, 0, 1, now.get());
    if (!transfer_directly(target, {&piece, 1}, read, sge.length)) [[unlikely]]
        return false;
    if (!shared_.basics().signal_all && !(request.flags & kSignaled)) {
        queue_.done_silently();
        return true;
    }
    SendEntry entry;
    entry.wr_id = request.wr_id;
    entry.operation = request.operation;
    entry.length = sge.length;
    entry.signaled = true;
    push(entry, completion::Status::success, VendorError::none, now.get());
    return true;
}

// `length` bytes of it, beginning at target.offset.
bool RcRequester::transfer_directly(const DirectTarget& target, std::span<const iovec> list, bool read,
                                    std::uint32_t length) {
    const Direct answer = read ? direct_->read(target, list) : direct_->write(target, list);
    directly_ = answer != Direct::declined ? Directly::hopefully : Directly::not_now;
    if (answer != Direct::done) return false;
    count_direct(read, length, target.offset == 0, target.offset + length == target.length);
    if (!read) count_against_rate(length, target.now);
    return true;
}

// A part of a WRITE or READ, as the packets that it would have been: the READ's request goes with the first
// part, the WRITE's acknowledgement comes with the last.
void RcRequester::count_direct(bool read, std::uint32_t length, bool first, bool last) {
    RareCounters& counters = shared_.rare();
    const std::uint32_t packets = packets_of(length, shared_.mtu());
    counters.direct_packets_out += read ? first : packets;
    counters.direct_packets_in += read ? packets : last;
    (read ? counters.direct_bytes_in : counters.direct_bytes_out) += length;
}

}  // namespace verbena::transport
