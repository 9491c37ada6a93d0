#include "transport/rc_queue_pair.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/reason.h"
#include "transport/mutation.h"
#include "transport/post_checks.h"
#include "transport/qp_state_table.h"

namespace verbena::transport {
namespace {

// IBA 9.6.1.1.3, 10.9.3: equal but for the membership bit, and not both limited members; ours is full.
bool pkey_matches(std::uint16_t theirs) { return (theirs & 0x7fff) == (kDefaultPkey & 0x7fff); }

}  // namespace

RcQueuePair::RcQueuePair(const QpSetup& setup) : QueuePair(setup) {
    attributes_.capabilities = setup.capabilities;
    reset();
}

int RcQueuePair::modify(const Attributes& attributes, std::uint32_t mask, Time now) {
    last_now_ = now;
    QpState to;
    if (int error = check_modify(Service::rc, state_, attributes, mask, to)) return error;
    apply(attributes, mask);
    enter(to, now);
    return 0;
}

void RcQueuePair::apply(const Attributes& from, std::uint32_t mask) {
    const auto take = [&](std::uint32_t bit, auto Attributes::*field) {
        if (mask & bit) attributes_.*field = from.*field;
    };
    take(kAttrAccessFlags, &Attributes::access);
    take(kAttrPkeyIndex, &Attributes::pkey_index);
    take(kAttrPort, &Attributes::port);
    take(kAttrAv, &Attributes::path);
    take(kAttrPathMtu, &Attributes::path_mtu);
    take(kAttrTimeout, &Attributes::timeout);
    take(kAttrRetryCount, &Attributes::retry_count);
    take(kAttrRnrRetry, &Attributes::rnr_retry);
    take(kAttrRqPsn, &Attributes::rq_psn);
    take(kAttrSqPsn, &Attributes::sq_psn);
    take(kAttrMaxQpRdAtomic, &Attributes::max_rd_atomic);
    take(kAttrMaxDestRdAtomic, &Attributes::max_destination_rd_atomic);
    take(kAttrMinRnrTimer, &Attributes::min_rnr_timer);
    take(kAttrDestQpn, &Attributes::destination_qp);
    take(kAttrSqdAsyncNotify, &Attributes::sqd_async_notify);
    attributes_.rq_psn &= wire::kPsnMask;
    attributes_.sq_psn &= wire::kPsnMask;
}

void RcQueuePair::enter(QpState to, Time now) {
    const QpState from = state_;
    if (to == QpState::error) {
        if (from != QpState::error) enter_error(false, now);
        return;
    }
    state_ = to;
    if (to == QpState::reset) return reset();
    if (to == QpState::rtr && from == QpState::init) responder_->start(attributes_.rq_psn);
    if (to == QpState::rts && from == QpState::rtr) requester_->start(attributes_.sq_psn);
    if (to == QpState::sqd) {
        if (from != QpState::sqd) drain_reported_ = false;
        responder_->configure();
        requester_->configure();
    }
    requester_->drain(to == QpState::sqd);
    after(now);
}

// IBA 10.3.1.1: nothing is left of earlier requests, and nothing is said about them.
void RcQueuePair::reset() {
    const Capabilities capabilities = attributes_.capabilities;
    attributes_ = Attributes{};
    attributes_.capabilities = capabilities;
    requester_.emplace(shared(), capabilities);
    responder_.emplace(shared());
    if (!setup_.shared_receive_queue && setup_.receive_queue) setup_.receive_queue->clear();
    established_ = drain_reported_ = false;
}

// IBA 10.3.1.7: all requests of both queues complete, in order, as flushed.
void RcQueuePair::enter_error(bool keep_answers, Time now) {
    state_ = QpState::error;
    responder_->close(keep_answers, now);
    requester_->flush(now);
    flush_receives(now);
    // IBA 10.2.9.4: the QP takes no more from the shared queue.
    if (setup_.shared_receive_queue && setup_.listener)
        setup_.listener->qp_event(*this, QpEvent::last_wqe_reached);
}

void RcQueuePair::flush_receives(Time now) {
    if (setup_.shared_receive_queue || !setup_.receive_queue) return;
    completion::Completion c;
    c.status = completion::Status::work_request_flushed;
    c.opcode = completion::Opcode::receive;
    c.vendor_error = static_cast<std::uint32_t>(VendorError::flushed);
    c.qp_number = setup_.number;
    c.timestamp = static_cast<std::uint64_t>(now);
    bool skip = mutated(Mutation::flush_skips_one);
    while (setup_.receive_queue->take_id(c.wr_id)) {
        if (!std::exchange(skip, false)) setup_.receive_cq->push(c, false);
    }
}

void RcQueuePair::query(Attributes& attributes) const {
    attributes = attributes_;
    attributes.state = attributes.current_state = state_;
    attributes.draining = state_ == QpState::sqd && !requester_->drained();
}

int RcQueuePair::post_send(const SendRequest& request, Time now) {
    last_now_ = now;
    std::uint32_t length = 0;
    if (int error = check_rc_send(setup_, attributes_, state_, request, length)) return error;
    if (requester_->full())
        return fail(ENOMEM, "the send queue is full (%u requests that have not completed)",
                    setup_.capabilities.max_send_wr);
    requester_->post(request, length);
    if (state_ == QpState::error) requester_->flush(now);
    return 0;
}

void RcQueuePair::receives_posted() {
    if (state_ == QpState::error)
        flush_receives(last_now_);
    else
        responder_->look_again();
}

// IBA 9.6.1, 9.7.3: header checks whose failure drops the packet silently.
bool RcQueuePair::accepts(const wire::Bth& bth, const wire::Path& sender_view) const {
    if (state_ != QpState::rtr && !requester_runs()) return false;
    if (wire::info(bth.opcode).service != wire::Service::rc || !pkey_matches(bth.pkey)) return false;
    return sender_view.source == attributes_.path.destination &&
           sender_view.destination == attributes_.path.source;
}

void RcQueuePair::receive(const wire::Packet& packet, const wire::Path& sender_view, Time now) {
    last_now_ = now;
    const wire::Bth& bth = packet.headers.bth;
    if (!accepts(bth, sender_view)) {
        counters_.dropped++;
        return;
    }
    counters_.packets_received++;
    if (wire::info(bth.opcode).response) {
        if (requester_runs()) requester_->receive(packet, now);
    } else {
        // IBA 11.5.1: the first message in RTR tells a server whose RTU was lost.
        if (state_ == QpState::rtr && !std::exchange(established_, true) && setup_.listener)
            setup_.listener->qp_event(*this, QpEvent::communication_established);
        responder_->receive(packet, now);
    }
    after(now);
}

bool RcQueuePair::ready(Time now, bool push) const {
    return responder_->ready(now, push) || (requester_runs() && requester_->ready());
}

bool RcQueuePair::transmit(wire::PacketSink& sink, Time now, unsigned max_packets,
                           bool push_acknowledgements) {
    last_now_ = now;
    if (state_ == QpState::reset || state_ == QpState::init) return true;
    // An acknowledgement leaves in front of the caller's next request, in the same burst: a peer that
    // disconnects on receiving our message must have its own requests completed by then. In the error state
    // nothing waits.
    const bool requests = requester_runs() && requester_->ready();
    const bool push = push_acknowledgements || requests || state_ == QpState::error;
    unsigned budget = max_packets;
    budget -= responder_->transmit(sink, now, requests ? (budget + 1) / 2 : budget, push);
    if (requests) {
        budget -= requester_->transmit(sink, now, budget);
        responder_->transmit(sink, now, budget, push);
    }
    after(now);
    return !ready(now, push_acknowledgements);
}

Time RcQueuePair::next_deadline() const {
    const Time answers = responder_->next_deadline();
    return requester_runs() ? std::min(answers, requester_->next_deadline()) : answers;
}

void RcQueuePair::advance(Time now) {
    last_now_ = now;
    if (requester_runs()) requester_->advance(now);
    after(now);
}

// What requester and responder want of the state machine.
void RcQueuePair::after(Time now) {
    if (state_ != QpState::error && (requester_->failed() || responder_->failed()))
        enter_error(responder_->failed(), now);
    if (state_ != QpState::sqd || !requester_->drained() || std::exchange(drain_reported_, true)) return;
    if (attributes_.sqd_async_notify && setup_.listener)
        setup_.listener->qp_event(*this, QpEvent::send_queue_drained);
}

}  // namespace verbena::transport
