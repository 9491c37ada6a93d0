#include "transport/rc_queue_pair.h"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <memory>
#include <type_traits>
#include <utility>

#include "base/failures.h"
#include "transport/common.h"
#include "transport/mutation.h"
#include "transport/post_checks.h"
#include "transport/qp_state_table.h"
#include "transport/shown_receives.h"

namespace verbena::transport {
namespace {

template <class T, class... Arguments>
void make_anew(T& object, Arguments&&... arguments) noexcept {
    static_assert(std::is_nothrow_constructible_v<T, Arguments...>);
    std::destroy_at(&object);
    std::construct_at(&object, std::forward<Arguments>(arguments)...);
}

}  // namespace

// Who waits for an acknowledgement does not ask for it meanwhile.
static_assert(kLongestAcknowledgeDelay < kProbeFloor / 2 && kLongestAcknowledgeDelay < kDoubt);
static_assert(QueuePair::kSoonestDeadline <= kAcknowledgeDelay);

RcQueuePair::RcQueuePair(const QpSetup& setup)
    : ConnectedQueuePair(setup),
      requester_(RcShared(*this), RcRequester::Memory(setup)),
      responder_(RcShared(*this), std::make_unique<RcResponder::Rest>(setup)) {
    // Among thousands of queue pairs, what a message costs is how many lines of the cache it touches: there
    // are eight, of which kRequesterLines and kResponderLines tell.
    static_assert(sizeof(RcQueuePair) == 8 * 64 && offsetof(RcQueuePair, connection_) == 64 &&
                  offsetof(RcQueuePair, requester_) == 2 * 64 && offsetof(RcQueuePair, company_) == 6 * 64 &&
                  sizeof(RcRequester) == 4 * 64);
}

int RcQueuePair::modify(const Attributes& attributes, std::uint32_t mask, Time now) {
    last_now_ = now;
    doubt();
    QpState to;
    if (int error = check_modify(basics_.service, state_, attributes, mask, to)) return error;
    Attributes changed = this->attributes();
    take_attributes(changed, attributes, mask);
    if (to == QpState::sqd && state_ != QpState::sqd && !(mask & kAttrSqdAsyncNotify))
        changed.sqd_async_notify = false;  // it is asked for each time
    // What takes memory comes first: without it nothing has changed.
    responder_.make_room(changed);
    if (to == QpState::rts && state_ == QpState::rtr) requester_.join_flow(changed);
    set_attributes(changed);
    if (mask & kAttrRateLimit) requester_.pace();
    enter(to, now);
    return 0;
}

void RcQueuePair::enter(QpState to, Time now) {
    const QpState from = state_;
    if (to == QpState::error) {
        if (from != QpState::error) enter_error(false, now);
        return;
    }
    if (to == QpState::reset) {
        reset();
        return forget_completions(setup());
    }
    state_ = to;
    if (to == QpState::rtr && from == QpState::init) responder_.start(attributes().rq_psn);
    if (to == QpState::rts && from == QpState::rtr) requester_.start(attributes().sq_psn);
    if (to == QpState::sqd) {
        if (from != QpState::sqd) drain_reported_ = false;
        responder_.configure();
        requester_.configure();
    }
    requester_.drain(to == QpState::sqd);
    after(now);
}

// IBA 10.3.1.1: nothing is left of earlier requests, and nothing is said about them.
void RcQueuePair::reset() {
    // Where there is no memory, nothing has changed.
    RcRequester::Memory sending(setup());
    auto receiving = std::make_unique<RcResponder::Rest>(setup());
    state_ = QpState::reset;
    withdraw_shown(RcShared(*this));
    forget_attributes();
    make_anew(requester_, RcShared(*this), std::move(sending));
    make_anew(responder_, RcShared(*this), std::move(receiving));
    company_ = {};
    if (ReceiveQueue* const own = setup().own_receives()) own->clear();
    established_ = drain_reported_ = false;
}

// IBA 10.3.1.7: all requests of both queues complete, in order, as flushed.
void RcQueuePair::enter_error(bool keep_answers, Time now) {
    state_ = QpState::error;
    withdraw_shown(RcShared(*this));
    responder_.close(keep_answers, now);
    requester_.flush(now);
    flush_receives(setup(), now);
    // IBA 10.2.9.4: the QP takes no more from the shared queue.
    if (basics_.shared_receive_queue && setup().listener && !mutated(Mutation::last_wqe_not_reported))
        setup().listener->qp_event(*this, QpEvent::last_wqe_reached);
}

void RcQueuePair::query(Attributes& attributes) const {
    attributes = this->attributes();
    attributes.state = attributes.current_state = state_;
    attributes.draining = state_ == QpState::sqd && !requester_.drained();
}

int RcQueuePair::post_send(const SendRequest& request, Time now) {
    last_now_ = now;
    doubt();
    std::uint32_t length = 0;
    if (int error = transport::check_send(setup(), attributes(), state_, request, length)) return error;
    if (int error = requester_.check_room()) return error;
    requester_.post(request, length).signaled |= mutated(Mutation::unsignaled_completion);
    if (state_ == QpState::error || state_ == QpState::sqe) requester_.flush(now);
    return 0;
}

int RcQueuePair::check_send(std::span<const SendRequest> requests) const {
    return check_sends(setup(), attributes(), state_, requests, requester_.room());
}

void RcQueuePair::receives_posted() {
    doubt();
    if (state_ == QpState::error)
        flush_receives(setup(), last_now_);
    else
        responder_.look_again();
}

bool RcQueuePair::may_gather(std::span<const SendRequest> requests) const {
    return state_ == QpState::rts && (plain_ || !requester_.is_paced()) &&
           std::ranges::all_of(requests, [this](const SendRequest& request) {
               return request.operation <= Operation::send_with_immediate && !(request.flags & kFence) &&
                      request.sges.size() <= setup().capabilities.max_send_sge &&
                      total_length(request.sges) <= connection_.path_mtu;
           });
}

// IBA 9.6.1, 9.7.3: header checks whose failure drops the packet silently.
bool RcQueuePair::accepts(const wire::Bth& bth, const wire::Path& sender_view) const {
    if (state_ != QpState::rtr && state_ != QpState::sqe && !requester_runs()) return false;
    const wire::OpcodeInfo& info = wire::info(bth.opcode);
    if (info.service != wire_service(basics_.service) || !pkey_matches(bth.pkey)) return false;
    // Annex A14: an initiator takes no requests, a target no responses.
    if (basics_.service == (info.response ? Service::xrc_receive : Service::xrc_send)) return false;
    return is_peer(sender_view);
}

// RC only: an XRC target's receives are of the queue that the message names, and UC drops what finds none.
bool RcQueuePair::is_early(const wire::BthWords& bth) const {
    const wire::OpcodeInfo& info = wire::info(bth.opcode());
    return info.operation == wire::Operation::send && info.starts_message() && is_established() &&
           basics_.service == Service::rc && basics_.receive_cq->waiting() > 0 &&
           responder_.lacks_receive(bth.psn());
}

void RcQueuePair::receive(const wire::Packet& packet, const wire::Path& sender_view, Time now) {
    last_now_ = now;
    const wire::Bth& bth = packet.headers.bth;
    if (!accepts(bth, sender_view)) {
        rare().dropped++;
        return;
    }
    counters_.packets_received += packet.aside.psns;
    if (packet.aside.acknowledges && requester_runs()) requester_.receive_aside(packet.aside, now);
    if (!reliable() && requester_runs()) requester_.complete_sent(now);
    if (wire::info(bth.opcode).response) {
        if (requester_runs()) requester_.receive(packet, now);
    } else {
        // IBA 11.5.1: the first message in RTR tells a server whose RTU was lost.
        if (state_ == QpState::rtr && !std::exchange(established_, true) && setup().listener)
            setup().listener->qp_event(*this, QpEvent::communication_established);
        responder_.receive(packet, now);
    }
    after(now);
}

bool RcQueuePair::transmit(wire::PacketSink& sink, Time now, unsigned max_packets,
                           bool push_acknowledgements) {
    last_now_ = now;
    if (state_ == QpState::reset || state_ == QpState::init) return true;
    // An acknowledgement leaves in front of the caller's next request, in the same burst: a peer that
    // disconnects on receiving our message must have its own requests completed by then. In the error state
    // nothing waits.
    const bool sends = requester_runs() && requester_.may_send();
    const bool requests = sends || (requester_runs() && requester_.probes());
    const bool push = push_acknowledgements || requests || state_ == QpState::error;
    unsigned budget = max_packets;
    const bool owes = responder_.may_ride();
    const Time owed_since = responder_.owes_since();
    wire::Aside riding;
    if (sends && owes && requester_.takes_along(sink)) riding = responder_.ride();
    budget -= responder_.transmit(sink, now, requests ? (budget + 1) / 2 : budget, push);
    unsigned sent = 0;
    if (requests) {
        sent = requester_.transmit(sink, now, budget, riding);
        if (riding.acknowledges) responder_.takes_back(riding);
        responder_.transmit(sink, now, budget - sent, push);
    }
    if (sends && sent > 0)
        request_leaves(owes ? owed_since : kNever, now);
    else if (owes && !responder_.may_ride())
        company_.alone(owed_since);
    if (responder_.completions_wait()) {
        sink.flush();
        responder_.release_completions();
    }
    const bool again = requester_runs() && requester_.line_up(sent > 0);
    after(now);
    return !again && !responder_.ready(now, push_acknowledgements) && !requester_.probes();
}

void RcQueuePair::advance(Time now) {
    last_now_ = now;
    if (requester_runs()) requester_.advance(now);
    after(now);
}

// What requester and responder want of the state machine.
void RcQueuePair::after(Time now) {
    doubt();
    // IBA 11.6.3.2: a queue pair whose completions find no place is in error for good.
    const bool xrc_lost = responder_.completion_lost();
    if (state_ != QpState::error && (xrc_lost || completion_lost())) {
        record_failure(FailedPart::queue_pair, basics_.number, 0, "%s",
                       xrc_lost ? kXrcCompletionLost : kCompletionLost);
        if (setup().listener) setup().listener->qp_event(*this, QpEvent::fatal);
        enter_error(true, now);
    }
    if (!reliable() && requester_.failed() && !responder_.failed()) {
        state_ = QpState::sqe;
        requester_.flush(now);
        return;
    }
    if (state_ != QpState::error && (requester_.failed() || responder_.failed()))
        enter_error(responder_.failed(), now);
    if (state_ != QpState::sqd || !requester_.drained() || std::exchange(drain_reported_, true)) return;
    if (attributes().sqd_async_notify && setup().listener)
        setup().listener->qp_event(*this, QpEvent::send_queue_drained);
}

}  // namespace verbena::transport
