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
// as soon as a request has left: behind other READs only, since nothing else may change what is read. One
// whose data goes to the same place must have been answered by then, or be divided alike. The answer has no
// payload: both parts are there. If the peer may not write, it has one, and that of our part as well.
//
// What is sent again travels, or is fetched, and repeated READs are answered with their data.
#include <algorithm>
#include <cstdlib>

#include "transport/copy.h"
#include "transport/mutation.h"
#include "transport/rc_queue_pair.h"

namespace verbena::transport {
namespace {
// Rest::share, of what both copy.
constexpr std::uint8_t kWhole = 64, kLeastOurs = 16, kMostOurs = 48;
constexpr int kTimesOfReads = 4;
constexpr std::uint32_t kLeastOfUs = 32 << 10;  // bytes: less is not worth a call
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
        chosen = chosen && directly_ == Directly::hopefully && entry.sge_count == 1 &&
                 shared_.setup().shown && only_reads_before();
    else
        chosen = chosen && entry.operation == Operation::rdma_write && !(entry.flags & kInline);
    return chosen && direct_->both_copy(a.path, a.destination_qp, now);
}

bool RcRequester::only_reads_before() const {
    for (std::uint32_t index = 0; index < current_; index++)
        if (!queue_.at(index).is_read() && !mutated(Mutation::read_half_overtakes)) return false;
    return true;
}

// Whether something may still be written where a READ's data shall go, which has to lie on top in the end. By
// different keys it may be the same memory. What is divided alike is copied in the right order on both sides.
bool RcRequester::is_beneath_others(const SendEntry& read) const {
    const Sge& place = queue_.sges(read)[0];
    for (std::uint32_t index = 0; index < current_; index++) {
        const SendEntry& before = queue_.at(index);
        const bool alike = before.halved && before.share == read.share &&
                           before.sge.address == place.address && before.length == read.length;
        for (const Sge& each : queue_.sges(before))
            if (each.lkey != place.lkey || (!alike && each.address < place.address + place.length &&
                                            place.address < each.address + each.length))
                return true;
    }
    return false;
}

// The data of a READ comes along in the end, and is put over what may be a later one's, where ours is.
void RcRequester::doubt_halves() {
    for (std::uint32_t index = 0; index < queue_.size() && queue_.at(index).started; index++)
        if (SendEntry& each = queue_.at(index); each.is_read()) each.placed = false;
}

// One that begins.
void RcRequester::choose_halves(SendEntry& entry, Time now) {
    entry.halved = may_be_halved(entry, now);
    if (!entry.is_send()) entry.fetched = entry.halved;
    if (!entry.is_read()) return;
    entry.placed = entry.halved;
    entry.share = rest_->share;
    if (entry.halved) entry.chunk = kPart / shared_.mtu();
}

// How many packets of a WRITE travel behind its parts: what has the last word.
std::uint32_t RcRequester::tail_of(const SendEntry& entry) const {
    const std::uint32_t in_last = entry.length - (entry.packets - 1) * shared_.mtu();
    return in_last < sizeof(std::uint64_t) ? 2 : 1;
}

// Of a halved one's packets up to `last`: how what lies around `at` is divided.
RcRequester::Split RcRequester::split_of(const SendEntry& entry, std::uint32_t at, std::uint32_t last) const {
    const std::uint32_t most = kPart / shared_.mtu();
    const std::uint32_t begin = at - at % std::min(entry.packets, most), size = std::min(last - begin, most);
    std::uint32_t ours = size * (entry.is_read() ? entry.share : rest_->share) / kWhole;
    if (ours * shared_.mtu() < kLeastOfUs) ours = 0;
    return {begin + size - ours, begin + size};
}

// What is to leave next of it, if it is large. (A READ's requests are for both parts.)
RcRequester::Part RcRequester::next_part(const SendEntry& entry) const {
    const std::uint32_t at = current_packet_, rest = entry.packets - at;
    if (!entry.fetched || entry.is_read()) return {rest, false};
    if (!entry.halved)
        return {std::min(rest, kPart / shared_.mtu()),
                entry.is_send() && entry.length >= ShownReceives::kFrom};
    const std::uint32_t last = entry.packets - (entry.is_write() ? tail_of(entry) : 0);
    if (at >= last) return {rest, false};
    const auto [between, end] = split_of(entry, at, last);
    return at < between ? Part{between - at, false} : Part{end - at, true};
}

// One of ours has been copied. Who then finds the peer still at work, so many times more often than not, does
// more of it from now on, and else less, so that both end at the same time.
void RcRequester::copied_half(int times) {
    const Connection& a = shared_.connection();
    const bool behind = direct_->is_behind(a.path, a.destination_qp);
    rest_->lean = static_cast<std::int8_t>(rest_->lean + (behind ? 1 : -1));
    if (std::abs(rest_->lean) < times) return;
    rest_->lean = 0;
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
    copied_half(1);
    riding.placed = kThere;
    return Direct::done;
}

// Our part of what the request at the cursor, which has just left, asks for. The others of this READ are
// there by now, or entry.placed is false.
void RcRequester::read_half(wire::PacketSink& sink, SendEntry& entry, Time now) {
    const auto [between, end] = split_of(entry, current_packet_, entry.packets);
    if (between == end) return;
    const std::uint32_t offset = between * shared_.mtu();
    const std::uint32_t length = std::min(end * shared_.mtu(), entry.length) - offset;
    unsigned pieces = 0;
    sink.flush();
    DirectTarget target = target_of(shared_, entry, entry.length, offset, 1, now);
    target.by_both = true;
    Direct read = Direct::declined;
    if (gather(shared_.regions(), shared_.basics().pd, queue_.sges(entry), offset, length,
               rest_->iovecs.data(), pieces, memory::kLocalWrite) == memory::LookupError::none)
        read = direct_->read(target, {rest_->iovecs.data(), pieces});
    // One that is divided otherwise may have to wait (is_beneath_others).
    if (read == Direct::done) return copied_half(kTimesOfReads);
    entry.placed = false;
    if (read == Direct::declined) directly_ = Directly::not_now;
}

}  // namespace verbena::transport
