// The straight path: what most messages are, a SEND or WRITE in one packet, a SEND that is copied as one to a
// peer of this host, or an atomic, on a connection where nothing else is going on, without the questions that
// only other cases have to ask. (Where nothing leaves, for a WRITE or READ of such a peer's memory:
// rc_direct.cpp.) Requester and responder are the same objects in the same states as if it had gone the long
// way; whatever is unusual goes there.
#include "transport/copy.h"
#include "transport/rc_queue_pair.h"
#include "transport/rc_short.h"
#include "transport/rc_whole.h"
#include "wire/plain_ack.h"

namespace verbena::transport {

namespace {
constexpr std::uint32_t kAtomicLength = 8;  // bytes: operand, and answer
}  // namespace

[[gnu::flatten]] QueuePair::Taken RcQueuePair::post_straight(std::span<const SendRequest> requests,
                                                             wire::PacketCopier& copier,
                                                             wire::PacketSink* sink, const LazyTime& now) {
    if (state_ != QpState::rts || !is_plain() || (by_wire_ && !sink)) [[unlikely]]
        return {};
    const bool owes = responder_.owes();
    if (!(by_wire_ && requests.size() == 1 && leave_behind(requests[0], copier, sink, now)) &&
        !leave_straight(requests, copier, sink, now)) [[unlikely]]
        return {};
    const std::size_t left =
        requests.size() == 1 ? 1 : 1 + others_leave(requests.subspan(1), copier, sink, now);
    request_leaves(owes ? responder_.owes_since() : kNever, now);
    return {left, requester_.waits(!by_wire_, now) ? kDone | kWaits : kDone};
}

// Apart, since mostly there are none.
[[gnu::flatten, gnu::noinline]] std::size_t RcQueuePair::others_leave(std::span<const SendRequest> requests,
                                                                      wire::PacketCopier& copier,
                                                                      wire::PacketSink* sink,
                                                                      const LazyTime& now) {
    std::size_t left = 0;
    while (left < requests.size() && (leave_behind(requests[left], copier, sink, now) ||
                                      leave_straight(requests.subspan(left), copier, sink, now)))
        left++;
    return left;
}

// What is short, behind another that left the same way: into the sink's burst, or to the peer's ring.
bool RcQueuePair::leave_behind(const SendRequest& request, wire::PacketCopier& copier, wire::PacketSink* sink,
                               const LazyTime& now) {
    const bool too_long = !request.sges.empty() && request.sges[0].length > wire::kMostShort;
    ShortPayload payload;
    if ((by_wire_ ? !sink : too_long) || responder_.owes() || !requester_.is_short(request, payload) ||
        (by_wire_ && !requester_.may_leave(payload.length)))
        return false;
    const auto take = [&](const wire::ShortPacket& packet) {
        return by_wire_ ? sink->go_on(packet) : copier.copy_short(packet);
    };
    if (!leave_short(request, payload, false, take)) return false;
    requester_.left_straight(request, 1, payload.length, !by_wire_, now);
    return true;
}

// The first one's only packet. An atomic takes no acknowledgement along, and goes the long way if one is
// owed.
bool RcQueuePair::leave_straight(std::span<const SendRequest> requests, wire::PacketCopier& copier,
                                 wire::PacketSink* sink, const LazyTime& now) {
    const SendRequest& request = requests[0];
    const auto together = static_cast<std::uint32_t>(requests.size());
    const bool owes = responder_.owes();
    iovec payload;
    wire::OutPacket out;
    if (requester_.goes_straight(request, together, payload, now)) [[likely]] {
        requester_.make_straight(request, payload, out);
        if (owes) out.aside = responder_.riding();
        if (payload.iov_len > connection_.path_mtu) [[unlikely]]
            out.aside.psns = packets_of(payload.iov_len, connection_.path_mtu);
    } else {
        if (!request.is_atomic() || owes || !requester_.asks_straight(request, out)) return false;
        payload.iov_len = kAtomicLength;
    }
    const auto length = static_cast<std::uint32_t>(payload.iov_len);
    const bool copied = copier.copy(out);
    if (!copied && (!sink || out.aside.psns != 1 || !send_straight(out, length, *sink))) [[unlikely]]
        return false;
    if (sink) by_wire_ = !copied;
    if (owes) responder_.rides();
    count_sent(out, out.payload.empty() ? 0 : length, counters_);
    requester_.left_straight(request, out.aside.psns, length, copied, now);
    return true;
}

// By a wire, where no packet takes anything along, an acknowledgement that would ride leaves in front of it.
[[gnu::noinline]] bool RcQueuePair::send_straight(wire::OutPacket& out, std::uint32_t length,
                                                  wire::PacketSink& sink) {
    if (!requester_.may_leave(length)) [[unlikely]]
        return false;
    if (out.aside.acknowledges) {
        if (packets_at_once(sink, RcShared(*this), false) > 0) [[unlikely]]
            return false;  // no wire, but a ring without room
        responder_.acknowledge_straight(nullptr, &sink);
        out.aside = {};
    }
    sink.send(out);
    return true;
}

[[gnu::flatten]] QueuePair::Taken RcQueuePair::receive_straight(std::span<const wire::InPacket> packets,
                                                                const wire::Path& sender_view, Time now) {
    if (!is_plain() || !is_peer(sender_view)) [[unlikely]]
        return {};
    const bool writes = static_cast<wire::Opcode>(packets[0].bytes[0]) == wire::Opcode::rc_write_only;
    std::size_t taken = writes ? receive_whole<wire::WholeWrite>(packets, now) : receive_short(packets, now);
    if (!writes && taken < packets.size()) [[unlikely]]
        taken += receive_whole<wire::WholeSend>(packets.subspan(taken), now);
    if (taken == 0) [[unlikely]]
        return {};
    counters_.packets_received += taken;
    return {taken, came_straight(now)};
}

template <class Whole>
std::size_t RcQueuePair::receive_whole(std::span<const wire::InPacket> packets, Time now) {
    std::size_t taken = 0;
    do {
        if (!take_whole<Whole>(packets[taken], now)) [[unlikely]]
            break;
        taken++;
    } while (taken < packets.size() && !completion_lost());
    return taken;
}

template <class Whole>
bool RcQueuePair::take_whole(const wire::InPacket& packet, Time now) {
    const wire::Aside& aside = packet.aside;
    Whole message;
    if (!message.parse(packet.bytes) || (aside.acknowledges && state_ != QpState::rts) ||
        message.pkey() != kDefaultPkey) [[unlikely]]
        return false;
    std::uint8_t* const place = responder_.place_straight(message, aside.psns);
    if (!place) [[unlikely]]
        return false;
    // Before the message completes, as if the acknowledgement had come in front of it.
    if (aside.acknowledges && !requester_.acknowledge_straight(aside.acknowledged, now)) [[unlikely]]
        return false;
    responder_.receive_straight(message, place, aside.psns, now);
    counters_.packets_received += aside.psns - 1;
    return true;
}

[[gnu::flatten]] QueuePair::Straight RcQueuePair::acknowledge_straight(const wire::BthWords& bth,
                                                                       const wire::Path& sender_view,
                                                                       Time now) {
    if (state_ != QpState::rts || basics_.service != Service::rc || bth.pkey() != kDefaultPkey ||
        !is_peer(sender_view) || !requester_.receive_acknowledgement(bth.psn(), now)) [[unlikely]]
        return kDeclined;
    counters_.packets_received++;
    plain_ = plain_ && requester_.stays_plain();  // it may have told of a loss
    if (requester_.failed()) [[unlikely]]
        after(now);
    return came_straight(now);
}

[[gnu::flatten]] bool RcQueuePair::settle_straight(wire::PacketCopier& copier, wire::PacketSink* sink,
                                                   Time now) {
    if (!is_plain() || !responder_.owes() || (requests_ && requester_.is_crowded())) [[unlikely]]
        return false;
    const Time owed_since = responder_.owes_since();
    if (!responder_.acknowledge_straight(&copier, sink)) [[unlikely]]
        return false;
    company_.alone(owed_since);
    last_now_ = now;
    return true;
}

[[gnu::flatten]] QueuePair::Straight RcQueuePair::answer_straight(const wire::WholeAtomic& request,
                                                                  wire::PacketCopier& copier,
                                                                  const wire::Path& sender_view, Time now) {
    if (!is_plain() || request.pkey() != kDefaultPkey || !is_peer(sender_view) ||
        !responder_.answer_straight(request, copier)) [[unlikely]]
        return kDeclined;
    counters_.packets_received++;
    if (responder_.must_answer()) [[unlikely]]
        doubt();
    return came_straight(now);
}

[[gnu::flatten]] QueuePair::Straight RcQueuePair::conclude_straight(const wire::WholeAtomicAnswer& answer,
                                                                    const wire::Path& sender_view, Time now) {
    if (state_ != QpState::rts || !is_plain() || answer.pkey() != kDefaultPkey || !is_peer(sender_view) ||
        !requester_.conclude_straight(answer, now)) [[unlikely]]
        return kDeclined;
    counters_.packets_received++;
    return came_straight(now);
}

[[gnu::flatten]] QueuePair::Straight RcQueuePair::what_follows(Time now) {
    const bool quiet_now =
        is_plain() ? !responder_.acknowledgement_due(now, false) : is_established() && quiet(now, false);
    if (!quiet_now || (requests_ && requester_.is_crowded())) [[unlikely]]
        return kDone | kGoesOn;
    requests_ = requests_ && requester_.outstanding();
    return kDone | (responder_.owes() ? kOwes : 0) | (requests_ ? kWaits : 0);
}

QueuePair::Straight RcQueuePair::came_straight(Time now) {
    last_now_ = now;
    if (completion_lost()) [[unlikely]]
        after(now);
    return what_follows(now);
}

bool RcQueuePair::looks_plain() const {
    return is_established() && basics_.service == Service::rc && requester_.is_plain() &&
           responder_.is_plain();
}

// False: it goes the long way, or is nothing of that kind.
bool RcRequester::goes_straight(const SendRequest& request, std::uint32_t together, iovec& payload,
                                const LazyTime& now) {
    if (!may_be_whole(request)) [[unlikely]]
        return false;
    const bool write = request.operation == Operation::rdma_write;
    const std::size_t count = request.sges.size();
    if (count > 1 || count > queue_.max_sge()) [[unlikely]]
        return false;
    if (queue_.full()) [[unlikely]]
        return false;
    payload = {};
    if (count == 1) payload.iov_len = request.sges[0].length;
    if (payload.iov_len > shared_.mtu() && (write || !several_go_straight(payload.iov_len, now))) [[unlikely]]
        return false;
    if (payload.iov_len == 0) return !write;
    if (write && !leaves_as_packet(static_cast<std::uint32_t>(payload.iov_len), together, now)) return false;
    const Sge& sge = request.sges[0];
    if (request.flags & kInline) {
        payload.iov_base = reinterpret_cast<void*>(static_cast<std::uintptr_t>(sge.address));
        return payload.iov_len <= queue_.max_inline();
    }
    const auto found = shared_.regions().local(sge.lkey, shared_.basics().pd, sge.address, sge.length, 0);
    payload.iov_base = found.address;
    return static_cast<bool>(found);
}

// A SEND of several packets is copied as one to a peer of this host, unless that is to fetch it.
bool RcRequester::several_go_straight(std::size_t length, const LazyTime& now) const {
    if (length > kMostStraight) return false;
    const Connection& a = shared_.connection();
    return !direct_ ||
           !direct_->fetching_is_faster(a.path, a.destination_qp, static_cast<std::uint32_t>(length),
                                        outstanding(), now.get());
}

void RcRequester::make_straight(const SendRequest& request, const iovec& payload,
                                wire::OutPacket& out) const {
    make_whole(shared_, request, next_psn_, payload, out);
}

// Whether it is an atomic that can be asked for now, by that packet.
bool RcRequester::asks_straight(const SendRequest& request, wire::OutPacket& out) const {
    constexpr std::uint32_t kUsual = kSignaled | kSolicited;
    if ((request.flags & ~kUsual) || request.sges.size() != 1 || request.sges[0].length != kAtomicLength ||
        request.remote_address % kAtomicLength != 0 || queue_.max_sge() == 0 ||
        outstanding_reads_ >= shared_.connection().max_rd_atomic || queue_.full()) [[unlikely]]
        return false;
    const Sge& sge = request.sges[0];
    if (!shared_.regions().local(sge.lkey, shared_.basics().pd, sge.address, kAtomicLength,
                                 memory::kLocalWrite)) [[unlikely]]
        return false;
    wire::Bth bth;
    address_rc(bth, shared_, atomic_opcode(request.operation), next_psn_);
    bth.ack_request = true;
    out.path = &shared_.connection().path;
    out.header_length =
        static_cast<std::uint8_t>(wire::emit_whole_atomic(bth, atomic_eth_of(request), out.header.data()));
    return true;
}

bool RcRequester::conclude_straight(const wire::WholeAtomicAnswer& answer, Time now) {
    const SendEntry* head = alone_answered(answer.psn());
    if (!head || !head->is_atomic()) [[unlikely]]
        return false;
    const Sge& sge = queue_.sges(*head)[0];
    const std::uint64_t value = answer.original();
    const auto found = shared_.regions().local(sge.lkey, shared_.basics().pd, sge.address, sizeof value,
                                               memory::kLocalWrite);
    if (!found) [[unlikely]]
        return false;
    place(found.address, reinterpret_cast<const std::uint8_t*>(&value), sizeof value);
    if (outstanding_reads_ > 0) outstanding_reads_--;
    complete_straight(*head, now);
    return true;
}

// A positive acknowledgement of the oldest request, and of nothing else.
bool RcRequester::acknowledge_straight(std::uint32_t psn, Time now) {
    const SendEntry* head = alone_answered(psn);
    if (!head || head->awaits_response()) [[unlikely]]
        return false;
    complete_straight(*head, now);
    return true;
}

void RcRequester::complete_straight(const SendEntry& head, Time now) {
    una_ = wire::psn_add(una_, head.packets);
    if (!head.beside_window) flow_.acknowledged(head.length + Flow::kPacketOverhead);
    tell_passed(head, now);
    complete_oldest(now);
    progress_undisturbed(now);
    if (sampled()) end_sample(now);
}

// Where the payload belongs, or nullptr: the packet goes the long way.
std::uint8_t* RcResponder::place_straight(const wire::WholeSend& send, std::uint32_t psns) {
    const std::uint64_t size = send.payload().size(), mtu = shared_.mtu();
    if (send.psn() != expected_psn_ || size > psns * mtu || (psns != 1 && size <= (psns - 1) * mtu))
        [[unlikely]]
        return nullptr;
    return place_of_whole(static_cast<std::uint32_t>(send.payload().size()));
}

std::uint8_t* RcResponder::place_straight(const wire::WholeWrite& write, std::uint32_t psns) {
    const wire::Reth& reth = write.reth();
    if (psns != 1 || write.psn() != expected_psn_ || reth.length == 0 ||
        reth.length != write.payload().size() || reth.length > shared_.mtu() ||
        !(shared_.connection().access & memory::kRemoteWrite)) [[unlikely]]
        return nullptr;
    return look_up(reth.rkey, reth.virtual_address, reth.length, memory::kRemoteWrite).address;
}

template <class Whole>
std::uint32_t RcResponder::take_whole(const Whole& message, std::uint8_t* to, std::uint32_t psns, Time now) {
    const std::size_t length = message.payload().size();
    place(to, message.payload().data(), length);
    took(psns, length, true);
    if (psns > 1) [[unlikely]]
        unacknowledged_ += static_cast<std::uint32_t>(length / kLargePacket);
    if (message.ack_request()) owe(now);
    return static_cast<std::uint32_t>(length);
}

void RcResponder::receive_straight(const wire::WholeWrite& write, std::uint8_t* to, std::uint32_t psns,
                                   Time now) {
    shared_.count_completed(Counted::remote_write, true, take_whole(write, to, psns, now));
}

void RcResponder::receive_straight(const wire::WholeSend& send, std::uint8_t* to, std::uint32_t psns,
                                   Time now) {
    const std::uint32_t length = take_whole(send, to, psns, now);
    complete_whole(length, send.solicited(), now, [&](completion::Completion& c) {
        if (!send.has_immediate()) return;
        c.flags = completion::kHasImmediate;
        c.immediate = send.immediate();
    });
}

bool RcResponder::acknowledge_straight(wire::PacketCopier* copier, wire::PacketSink* sink) {
    wire::Bth bth;
    address_rc(bth, shared_, wire::Opcode::rc_ack, riding().acknowledged);
    wire::OutPacket out;
    out.path = &shared_.connection().path;
    out.header_length = static_cast<std::uint8_t>(wire::emit_plain_ack(bth, msn_, out.header.data()));
    if (!copier || !copier->copy(out)) {
        if (!sink) return false;
        sink->send(out);
    }
    count_sent(out, 0, shared_.counters());
    acknowledged_everything();
    return true;
}

bool RcResponder::answer_straight(const wire::WholeAtomic& request, wire::PacketCopier& copier) {
    if (request.psn() != expected_psn_) [[unlikely]]
        return false;
    VendorError error;
    std::uint8_t* const target = atomic_target(request.eth(), error);
    if (target == nullptr) [[unlikely]]
        return false;
    Resource* const resource =
        take_atomic(request.psn(), request.opcode() == wire::Opcode::rc_fetch_add, request.eth(), target);
    if (!resource) [[unlikely]]
        return false;
    wire::Bth bth;
    address_rc(bth, shared_, wire::Opcode::rc_atomic_ack, request.psn());
    wire::OutPacket out;
    out.path = &shared_.connection().path;
    out.header_length = static_cast<std::uint8_t>(wire::emit_whole_atomic_answer(
        bth, {wire::ack_syndrome(), resource->msn}, resource->original, out.header.data()));
    if (copier.copy(out))
        count_sent(out, 0, shared_.counters());
    else
        activate(*resource, 0, 1);
    return true;
}

}  // namespace verbena::transport
