#include "transport/ud_queue_pair.h"

#include <algorithm>
#include <array>
#include <cerrno>

#include "base/failures.h"
#include "base/reason.h"
#include "transport/copy.h"
#include "transport/mutation.h"
#include "transport/particulars.h"
#include "transport/post_checks.h"
#include "transport/qp_state_table.h"
#include "wire/ip_header.h"
#include "wire/mad.h"
#include "wire/psn.h"

namespace verbena::transport {
namespace {

constexpr std::uint8_t kIpv6WithUdp = 0x9;
constexpr std::uint8_t kIpv4WithUdp = 0xa;

using completion::Status;

constexpr std::uint32_t kUseOwnQkey = 0x80000000;

bool receives(QpState state) {
    return state == QpState::rtr || state == QpState::rts || state == QpState::sqd || state == QpState::sqe;
}

}  // namespace

UdQueuePair::UdQueuePair(const QpSetup& setup)
    : QueuePair(std::make_unique<Rest>(setup)),
      queue_(setup.capabilities, setup.send_cq),
      destinations_(queue_.slots()),
      iovecs_(std::max<std::uint32_t>(setup.capabilities.max_send_sge, 1)),
      receive_sges_(setup.receive_queue ? setup.receive_queue->max_sge() : 0) {
    reset();
}

int UdQueuePair::modify(const Attributes& attributes, std::uint32_t mask, Time now) {
    last_now_ = now;
    QpState to;
    if (int error = check_modify(Service::ud, state_, attributes, mask, to)) return error;
    take_attributes(attributes_, attributes, mask);
    if (mask & kAttrRateLimit) pace();
    if (to == QpState::error) {
        if (state_ != QpState::error) enter_error(now);
        return 0;
    }
    const QpState from = state_;
    state_ = to;
    if (to == QpState::reset) {
        reset();
        forget_completions(setup());
    }
    if (to == QpState::rts && from == QpState::rtr) psn_ = attributes_.sq_psn;
    // Nothing that was sent is outstanding: the queue is drained at once (IBA 10.3.1.5).
    if (to == QpState::sqd && from != QpState::sqd && (mask & kAttrSqdAsyncNotify) &&
        attributes.sqd_async_notify && setup().listener)
        setup().listener->qp_event(*this, QpEvent::send_queue_drained);
    return 0;
}

// IBA 10.3.1.1: nothing is left of earlier requests, and nothing is said about them.
void UdQueuePair::reset() {
    attributes_ = Attributes{};
    attributes_.capabilities = setup().capabilities;
    attributes_.path_mtu = setup().port_mtu;
    pace();
    queue_.clear();
    if (ReceiveQueue* const own = setup().own_receives()) own->clear();
}

void UdQueuePair::pace() {
    pacer_.limit(attributes_.rate_limit, attributes_.max_burst);
    rate_allows_at_ = kNever;
}

void UdQueuePair::enter_error(Time now) {
    state_ = QpState::error;
    flush_sends(now);
    flush_receives(setup(), now);
    // IBA 10.2.9.4: the QP takes no more from the shared queue.
    if (basics_.shared_receive_queue && setup().listener && !mutated(Mutation::last_wqe_not_reported))
        setup().listener->qp_event(*this, QpEvent::last_wqe_reached);
}

void UdQueuePair::query(Attributes& attributes) const {
    attributes = attributes_;
    attributes.state = attributes.current_state = state_;
    attributes.draining = false;
}

int UdQueuePair::post_send(const SendRequest& request, Time now) {
    last_now_ = now;
    std::uint32_t length = 0;
    if (int error = transport::check_send(setup(), attributes_, state_, request, length)) return error;
    if (int error = queue_.check_room()) return error;
    const SendEntry& entry =
        queue_.push(request, length, basics_.signal_all || (request.flags & kSignaled) != 0);
    Destination& destination = destinations_[queue_.slot_of(entry)];
    destination.path = *request.path;
    if (destination.path.udp_source_port == 0)
        destination.path.udp_source_port = wire::udp_source_port_for_ud(basics_.number);
    destination.qp = request.remote_qp;
    // IBA 10.2.5: the high bit asks for the queue pair's own Q_Key.
    destination.qkey = request.remote_qkey & kUseOwnQkey ? attributes_.qkey : request.remote_qkey;
    if (state_ == QpState::error || state_ == QpState::sqe) flush_sends(now);
    return 0;
}

bool UdQueuePair::may_gather(std::span<const SendRequest> requests) const {
    return state_ == QpState::rts && !pacer_.limited() &&
           std::ranges::all_of(requests, [this](const SendRequest& request) {
               return request.sges.size() <= setup().capabilities.max_send_sge &&
                      total_length(request.sges) <= setup().port_mtu;
           });
}

int UdQueuePair::check_send(std::span<const SendRequest> requests) const {
    return check_sends(setup(), attributes_, state_, requests, queue_.room());
}

void UdQueuePair::receives_posted() {
    if (state_ == QpState::error) flush_receives(setup(), last_now_);
}

bool UdQueuePair::transmit(wire::PacketSink& sink, Time now, unsigned max_packets, bool) {
    last_now_ = now;
    if (state_ != QpState::rts) return true;
    const std::uint32_t most = std::min<std::uint32_t>(queue_.size(), max_packets);
    std::uint32_t sent = 0;
    bool failed = false;
    while (sent < most && !failed && rate_allows_at_ == kNever) {
        const SendEntry& entry = queue_.at(sent);
        failed = !emit(sink, queue_.at(sent));
        if (failed) break;
        sent++;
        pacer_.sent(entry.length + Flow::kPacketOverhead, now);
        if (!pacer_.allows(now)) rate_allows_at_ = pacer_.next();
    }
    counters_.messages_sent += sent;
    for (; sent > 0; sent--) complete_oldest(Status::success, VendorError::none, now);
    if (failed) {
        const VendorError error = queue_.at(0).local_error;
        const Status status =
            error == VendorError::send_too_long ? Status::local_length_error : Status::local_protection_error;
        const SendEntry& entry = queue_.at(0);
        if (error == VendorError::send_too_long)
            record_failure(FailedPart::send, basics_.number, entry.wr_id, "%s (%u bytes; the MTU is %u)",
                           to_string(error), entry.length, setup().port_mtu);
        else
            record_failure(
                FailedPart::send, basics_.number, entry.wr_id, "%s%s", to_string(error),
                refused_element(*basics_.regions, basics_.pd, queue_.sges(entry), memory::Access{}).c_str());
        rare().send_errors++;
        complete_oldest(status, error, now);
        state_ = QpState::sqe;
        flush_sends(now);
    }
    after(now);
    return queue_.empty() || rate_allows_at_ != kNever;
}

// False: the request has a local error, which it then carries.
bool UdQueuePair::emit(wire::PacketSink& sink, SendEntry& entry) {
    // One packet, not longer than the port can send (IBA 9.8.3.1, 11.6.2).
    if (entry.length > setup().port_mtu) {
        entry.local_error = VendorError::send_too_long;
        return false;
    }
    unsigned pieces = 0;
    if (entry.flags & kInline) {
        iovecs_[0] = {queue_.inline_data(entry), entry.length};
        pieces = entry.length != 0;
    } else if (auto error = gather(*basics_.regions, basics_.pd, queue_.sges(entry), 0, entry.length,
                                   iovecs_.data(), pieces);
               error != memory::LookupError::none) {
        entry.local_error = offset_by(VendorError::send_lkey_unknown, error);
        return false;
    }

    const Destination& destination = destinations_[queue_.slot_of(entry)];
    wire::Headers headers;
    headers.bth.opcode = entry.operation == Operation::send_with_immediate
                             ? wire::Opcode::ud_send_only_immediate
                             : wire::Opcode::ud_send_only;
    headers.bth.solicited = (entry.flags & kSolicited) != 0;
    headers.bth.migration_request = true;
    headers.bth.pkey = kDefaultPkey;
    headers.bth.destination_qp = destination.qp;
    headers.bth.psn = psn_;
    headers.deth = {destination.qkey, basics_.number};
    headers.immediate = entry.immediate_or_key;
    psn_ = wire::psn_next(psn_);
    if (destination.path.destination.is_multicast()) {
        group_source_ = destination.path.source;
        rare().multicast_sent++;
    }
    send_packet(sink, destination.path, headers, {iovecs_.data(), pieces}, entry.length, counters_);
    return true;
}

void UdQueuePair::complete_oldest(Status status, VendorError error, Time now) {
    const SendEntry& entry = queue_.at(0);
    count_completed(setup(), entry.operation, status == Status::success, entry.length);
    if (entry.signaled || status != Status::success) {
        completion::Completion c;
        c.wr_id = entry.wr_id;
        c.status = status;
        c.opcode = completion::Opcode::send;
        c.vendor_error = static_cast<std::uint32_t>(error);
        c.qp_number = basics_.number;
        c.timestamp = static_cast<std::uint64_t>(now);
        queue_.completed(basics_.send_cq->push(c, false));
    }
    queue_.pop();
}

void UdQueuePair::flush_sends(Time now) {
    while (!queue_.empty()) complete_oldest(Status::work_request_flushed, VendorError::flushed, now);
}

// IBA 9.6.1, 9.8.3: header checks whose failure drops the packet silently.
bool UdQueuePair::accepts(const wire::Headers& headers, const wire::Path& sender_view) const {
    const wire::Bth& bth = headers.bth;
    if (!receives(state_) || wire::info(bth.opcode).service != wire::Service::ud) return false;
    if (!pkey_matches(bth.pkey)) return false;
    if (headers.deth.qkey != attributes_.qkey && !mutated(Mutation::ud_qkey_ignored)) return false;
    if (basics_.block_own_multicast && !mutated(Mutation::own_multicast_not_blocked) &&
        headers.deth.source_qp == basics_.number && sender_view.source == group_source_ &&
        sender_view.destination.is_multicast())
        return false;
    // IBA 9.6.1.2: a group's packets name the multicast QP, and only they do.
    return sender_view.destination.is_multicast() == (bth.destination_qp == wire::kMulticastQp);
}

void UdQueuePair::receive(const wire::Packet& packet, const wire::Path& sender_view, Time now) {
    last_now_ = now;
    std::uint64_t wr_id = 0;
    std::uint32_t sge_count = 0;
    if (!accepts(packet.headers, sender_view) || !setup().receive_queue ||
        !setup().receive_queue->take(wr_id, receive_sges_, sge_count)) {
        rare().dropped++;
        tell_of_drop(packet.headers);
        return;
    }
    counters_.packets_received++;
    if (sender_view.destination.is_multicast()) rare().multicast_received++;
    counters_.bytes_received += packet.payload.size();

    const memory::PdNumber pd = setup().receive_queue->pd_of_requests(basics_.pd);
    const std::span<const Sge> sges{receive_sges_.data(), sge_count};
    const std::uint64_t length = wire::kGrhLength + packet.payload.size();
    if (length > total_length(sges))
        return fail_receive(wr_id, Status::local_length_error, VendorError::receive_too_small,
                            " (which have " + std::to_string(total_length(sges)) +
                                " bytes; the datagram needs " + std::to_string(length) +
                                ", the first 40 for the GRH)",
                            now);
    std::array<std::uint8_t, wire::kGrhLength> grh;
    write_grh(sender_view, wire::udp_payload_length(packet), grh.data());
    auto error = mutated(Mutation::ud_grh_omitted) ? memory::LookupError::none
                                                   : scatter(*basics_.regions, pd, sges, 0, grh);
    if (error == memory::LookupError::none)
        error = scatter(*basics_.regions, pd, sges, wire::kGrhLength, packet.payload);
    if (error != memory::LookupError::none)
        return fail_receive(wr_id, Status::local_protection_error,
                            offset_by(VendorError::receive_lkey_unknown, error),
                            refused_element(*basics_.regions, pd, sges, memory::kLocalWrite), now);

    completion::Completion c;
    c.wr_id = wr_id;
    c.opcode = completion::Opcode::receive;
    c.byte_length = static_cast<std::uint32_t>(length);
    c.qp_number = basics_.number;
    c.source_qp = packet.headers.deth.source_qp;
    c.flags = completion::kHasGrh;
    // Annex A17.4.5.1: the completion says which network header came. RoCE has no service level; adapters put
    // it there (bit 3: UDP, bits 2..0: the header), and UCX tells by it how long the addresses in the first
    // 40 bytes are.
    c.service_level = sender_view.is_ipv4() ? kIpv4WithUdp : kIpv6WithUdp;
    if (wire::info(packet.headers.bth.opcode).has_immdt) {
        c.flags |= completion::kHasImmediate;
        c.immediate = packet.headers.immediate;
    }
    c.timestamp = static_cast<std::uint64_t>(now);
    counters_.messages_received++;
    count_completed(setup(), Counted::receive, true, length);
    basics_.receive_cq->push(c, packet.headers.bth.solicited);
    after(now);
}

// IBA 11.6.3.2: a queue pair whose completions find no place is in error for good.
void UdQueuePair::after(Time now) {
    if (state_ == QpState::error || !completion_lost()) return;
    record_failure(FailedPart::queue_pair, basics_.number, 0, "%s", kCompletionLost);
    if (setup().listener) setup().listener->qp_event(*this, QpEvent::fatal);
    enter_error(now);
}

// A datagram vanishes without a trace for both sides: the first time it happens is worth a line.
void UdQueuePair::tell_of_drop(const wire::Headers& headers) {
    if (drop_told_ || !receives(state_) || wire::info(headers.bth.opcode).service != wire::Service::ud)
        return;
    const wire::Deth& deth = headers.deth;
    const bool stranger = deth.qkey != attributes_.qkey;
    if (!stranger && (!setup().receive_queue || setup().receive_queue->waiting() > 0)) return;
    drop_told_ = true;
    if (stranger)
        log(LogLevel::warn,
            "QP 0x%06x: dropped a datagram of QP 0x%06x: its Q_Key is 0x%x, this QP's is 0x%x",
            basics_.number, deth.source_qp, deth.qkey, attributes_.qkey);
    else
        log(LogLevel::warn, "QP 0x%06x: dropped a datagram of QP 0x%06x: no receive is posted",
            basics_.number, deth.source_qp);
}

void UdQueuePair::fail_receive(std::uint64_t wr_id, Status status, VendorError error,
                               const std::string& particulars, Time now) {
    record_failure(FailedPart::receive, basics_.number, wr_id, "%s%s", to_string(error), particulars.c_str());
    complete_receive_in_error(setup(), wr_id, status, error, now);
    enter_error(now);
}

}  // namespace verbena::transport
