// Large messages to a process of this host that both processors copy at the same time, each byte once: the
// message is divided into parts, of which the peer fetches the first from our memory
// (link/local_reference.h), we write the second into the peer's, and so on by turns. One processor alone
// needs twice as long, and has twice as much to pass through its cache; through the ring each byte is copied
// twice.
//
// A WRITE that leaves as packets in place of being executed (rc_direct.cpp). Our parts are written as the
// link executes requests: when everything before the request has been acknowledged. The last packet travels,
// or the last two, and is placed when all else is there, so that the last word is written last, and whole.
//
// A SEND whose receive the peer shows (shown_receives.h). Our parts are written there as a whole message is.
//
// What is sent again travels, or is fetched.
#include <algorithm>

#include "transport/copy.h"
#include "transport/mutation.h"
#include "transport/rc_queue_pair.h"

namespace verbena::transport {
namespace {
// Rest::share, of what both copy.
constexpr std::uint8_t kWhole = 64, kLeastOurs = 16, kMostOurs = 48;
constexpr std::uint32_t kLeastWritten = 32 << 10;  // bytes: less is not worth a call
}  // namespace

bool RcRequester::may_be_halved(const SendEntry& entry, Time now) const {
    const bool chosen =
        entry.is_send() ? entry.fetched
                        : by_packets_ && entry.operation == Operation::rdma_write && !(entry.flags & kInline);
    const Connection& a = shared_.connection();
    return chosen && entry.length >= kHalved && next_psn_ == max_psn_ &&
           shared_.basics().service == Service::rc && direct_ &&
           direct_->both_copy(a.path, a.destination_qp, now) &&
           (!entry.is_send() || direct_->shown(a.path, a.destination_qp));
}

// One that begins.
void RcRequester::choose_halves(SendEntry& entry, Time now) {
    entry.halved = may_be_halved(entry, now);
    if (entry.is_write()) entry.fetched = entry.halved;
}

// How many packets of a WRITE travel behind its parts: what has the last word.
std::uint32_t RcRequester::tail_of(const SendEntry& entry) const {
    const std::uint32_t in_last = entry.length - (entry.packets - 1) * shared_.mtu();
    return in_last < sizeof(std::uint64_t) ? 2 : 1;
}

// What is to leave next of it, if it is large.
RcRequester::Part RcRequester::next_part(const SendEntry& entry) const {
    const std::uint32_t at = current_packet_, rest = entry.packets - at;
    if (!entry.fetched) return {rest, false};
    const std::uint32_t most = kPart / shared_.mtu();
    if (!entry.halved) return {std::min(rest, most), entry.is_send() && entry.length >= ShownReceives::kFrom};
    const std::uint32_t last = entry.packets - (entry.is_write() ? tail_of(entry) : 0);
    if (at >= last) return {rest, false};
    const std::uint32_t begin = at - at % std::min(entry.packets, most), size = std::min(last - begin, most);
    std::uint32_t ours = size * rest_->share / kWhole;
    if (ours * shared_.mtu() < kLeastWritten) ours = 0;
    const std::uint32_t between = begin + size - ours;
    return at < between ? Part{between - at, false} : Part{begin + size - at, true};
}

// One of ours has been written. Who then finds the peer still at work does more of it from now on, and else
// less, so that both end at the same time.
void RcRequester::wrote_half() {
    const Connection& a = shared_.connection();
    const bool behind = direct_->is_behind(a.path, a.destination_qp);
    if (behind && rest_->share < kMostOurs) rest_->share++;
    if (!behind && rest_->share > kLeastOurs) rest_->share--;
}

// A part has been written, which took long. What leaves next takes the peer on, and us no time: the rest of a
// WRITE, or the beginning of the one behind it.
bool RcRequester::goes_on_beside(const SendEntry& written) const {
    if (!written.halved || current_ == queue_.size()) return false;
    return current_packet_ == 0 || !next_part(queue_.at(current_)).ours;
}

Direct RcRequester::write_half(wire::PacketSink& sink, const SendEntry& entry, std::uint32_t packets,
                               Time now, wire::Aside& riding) {
    constexpr std::uint32_t kThere = 1;
    if (next_psn_ != max_psn_) return Direct::declined;
    if (current_ != 0 && !mutated(Mutation::half_overtakes)) return Direct::not_yet;
    const std::uint32_t offset = current_packet_ * shared_.mtu();
    unsigned pieces = 0;
    if (gather(shared_.regions(), shared_.basics().pd, queue_.sges(entry), offset, packets * shared_.mtu(),
               rest_->iovecs.data(), pieces) != memory::LookupError::none)
        return Direct::declined;
    sink.flush();
    DirectTarget target = target_of(shared_, entry, entry.length, offset, 0, now);
    target.by_both = true;
    if (direct_->write(target, {rest_->iovecs.data(), pieces}) != Direct::done) return Direct::declined;
    wrote_half();
    riding.placed = kThere;
    return Direct::done;
}

}  // namespace verbena::transport
