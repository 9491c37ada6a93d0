// Large messages to or from a process of this host that both processors copy at the same time, each byte
// once: the message is divided into parts, of which the peer copies the first from or to our memory
// (link/local_reference.h), we the second from or to the peer's, and so on by turns. One processor alone
// needs twice as long, and has twice as much to pass through its cache; through the ring each byte is copied
// twice.
//
// A WRITE that leaves as packets in place of being executed (rc_direct.cpp). Our parts are written as the
// link executes requests: when everything before the request has been acknowledged. The last packet travels,
// or the last two, and is placed when all else is there, so that the last word is written last, and whole.
//
// A SEND whose receive the peer shows (shown_receives.h). Our parts are written there as a whole message is.
//
// A READ that leaves as packets. Its requests say where the peer's parts of the answer go, and ours are read
// as soon as a request has left, if nothing is under way before it that might change what is read. The answer
// has no payload: both parts are there. If the peer may not write, it has one, and that of ours as well.
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
    if (entry.length < kHalved || next_psn_ != max_psn_ || !direct_ ||
        shared_.basics().service != Service::rc)
        return false;
    const Connection& a = shared_.connection();
    bool chosen = by_packets_;
    if (entry.is_send())
        chosen = entry.fetched && direct_->shown(a.path, a.destination_qp);
    else if (entry.is_read())
        chosen = chosen && entry.sge_count == 1 && shared_.setup().shown && only_reads_before();
    else
        chosen = chosen && entry.operation == Operation::rdma_write && !(entry.flags & kInline);
    return chosen && direct_->both_copy(a.path, a.destination_qp, now);
}

bool RcRequester::only_reads_before() const {
    for (std::uint32_t index = 0; index < current_; index++)
        if (!queue_.at(index).is_read() && !mutated(Mutation::read_half_overtakes)) return false;
    return true;
}

// One that begins.
void RcRequester::choose_halves(SendEntry& entry, Time now) {
    entry.halved = may_be_halved(entry, now);
    if (!entry.is_send()) entry.fetched = entry.halved;
    if (!entry.is_read()) return;
    entry.placed = entry.halved;
    if (entry.halved) entry.chunk = kPart / shared_.mtu();
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

// One of ours has been copied. Who then finds the peer still at work does more of it from now on, and else
// less, so that both end at the same time.
void RcRequester::copied_half() {
    const Connection& a = shared_.connection();
    const bool behind = direct_->is_behind(a.path, a.destination_qp);
    if (behind && rest_->share < kMostOurs) rest_->share++;
    if (!behind && rest_->share > kLeastOurs) rest_->share--;
}

// A part has been written, which took long. What leaves next takes the peer on, and us no time: the rest of a
// WRITE, or the beginning of the one behind it. With a request of a READ leaves what takes us time.
bool RcRequester::goes_on_beside(const SendEntry& written) const {
    if (!written.halved || written.is_read() || current_ == queue_.size()) return false;
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
    copied_half();
    riding.placed = kThere;
    return Direct::done;
}

// Our part of what the request at the cursor, which has just left, asks for. The others of this READ are
// there by now, or entry.placed is false.
void RcRequester::read_half(wire::PacketSink& sink, SendEntry& entry, Time now) {
    const std::uint32_t theirs = next_part(entry).packets, both = step(entry, current_packet_);
    if (theirs == both) return;
    const std::uint32_t offset = (current_packet_ + theirs) * shared_.mtu();
    const std::uint32_t length = std::min((current_packet_ + both) * shared_.mtu(), entry.length) - offset;
    unsigned pieces = 0;
    sink.flush();
    DirectTarget target = target_of(shared_, entry, entry.length, offset, 1, now);
    target.by_both = true;
    entry.placed = entry.placed &&
                   gather(shared_.regions(), shared_.basics().pd, queue_.sges(entry), offset, length,
                          rest_->iovecs.data(), pieces) == memory::LookupError::none &&
                   direct_->read(target, {rest_->iovecs.data(), pieces}) == Direct::done;
    if (entry.placed) copied_half();
}

}  // namespace verbena::transport
