// A queue pair of a connected service, RC, XRC or UC: the state machine (IBA 10.3.1) around a requester and a
// responder.
//
// XRC (annex A14) is RC whose initiator only requests and whose target only responds; each request names the
// receive queue that it is for.
//
// UC (IBA 9.8.2) is RC whose packets count as acknowledged as soon as they have left, and whose responder
// answers nothing. A send request of UC that fails takes the queue pair to the send queue error state:
// requests flush, receiving goes on (IBA 10.3.1.6).
//
// Thread safety: the queue pair's lock (queue_pair.h).
#pragma once

#include "base/dense_memory.h"
#include "transport/company.h"
#include "transport/copy.h"
#include "transport/rc_requester.h"
#include "transport/rc_responder.h"

namespace verbena::transport {

class RcQueuePair final : public Dense, public ConnectedQueuePair {
   public:
    explicit RcQueuePair(const QpSetup& setup);

    int modify(const Attributes& attributes, std::uint32_t mask, Time now) override;
    void query(Attributes& attributes) const override;
    int post_send(const SendRequest& request, Time now) override;
    int check_send(std::span<const SendRequest> requests) const override;
    void receives_posted() override;
    void receive(const wire::Packet& packet, const wire::Path& sender_view, Time now) override;
    Taken post_straight(std::span<const SendRequest> requests, wire::PacketCopier& copier,
                        wire::PacketSink* sink, const LazyTime& now) override;
    // rc_short.h: the same of one that is short, to a peer of this host.
    template <class Copier>
    Straight post_short(const SendRequest& request, Copier& copier, const LazyTime& now);
    bool execute_straight(const SendRequest& request, const LazyTime& now) override;
    bool is_early(const wire::BthWords& bth) const override;
    bool receive_run(const wire::ReceivedRun& run, const wire::Path& sender_view, Time now) override;
    Taken receive_straight(std::span<const wire::InPacket> packets, const wire::Path& sender_view,
                           Time now) override;
    Straight acknowledge_straight(const wire::BthWords& bth, const wire::Path& sender_view,
                                  Time now) override;
    bool settle_straight(wire::PacketCopier& copier, wire::PacketSink* sink, Time now) override;
    Straight answer_straight(const wire::WholeAtomic& request, wire::PacketCopier& copier,
                             const wire::Path& sender_view, Time now) override;
    Straight conclude_straight(const wire::WholeAtomicAnswer& answer, const wire::Path& sender_view,
                               Time now) override;
    Outside outside() const override {
        const ReceiveQueue* const own = setup().own_receives();
        return {&counters_, requester_.first_place(), own, own ? own->only_line() : nullptr};
    }
    bool took_long() const override { return requester_.took_long(); }
    bool quiet(Time now, bool push) const override {
        return reliable() && !responder_.ready(now, push || state_ == QpState::error) &&
               !responder_.completions_wait() && (!requester_runs() || requester_.quiet());
    }
    Straight what_follows(Time now) override;
    bool transmit(wire::PacketSink& sink, Time now, unsigned max_packets,
                  bool push_acknowledgements) override;
    bool may_gather(std::span<const SendRequest> requests) const override;
    std::uint32_t under_way(bool) const override { return requester_runs() ? requester_.under_way() : 0; }
    void newest_wait(unsigned requests) override { requester_.newest_wait(requests); }
    bool awaits_company() const override {
        return state_ == QpState::rts && responder_.may_ride() && company_.likely();
    }
    std::shared_ptr<Flow> flow() const override { return requester_.flow(); }
    std::shared_ptr<Flow> crowded_flow() const override { return requester_.crowded_flow(); }
    void your_turn() override {
        doubt();
        requester_.your_turn();
    }
    Time next_deadline() const override { return std::min(acknowledgement_deadline(), other_deadline()); }
    Time acknowledgement_deadline() const override { return responder_.acknowledgement_deadline(); }
    Time other_deadline() const override {
        const Time refusal = responder_.refusal_deadline();
        return requester_runs() ? std::min(refusal, requester_.next_deadline()) : refusal;
    }
    void advance(Time now) override;
    bool awaits_acknowledgement() const override {
        return requester_runs() && reliable() && requester_.outstanding();
    }
    Standing standing() const override { return requester_runs() ? requester_.standing() : Standing{}; }

   private:
    bool reliable() const { return basics_.service != Service::uc; }
    std::size_t receive_short(std::span<const wire::InPacket> packets, Time now);
    std::size_t take_short(std::span<const wire::InPacket> packets, Time now);
    template <class Whole>
    std::size_t receive_whole(std::span<const wire::InPacket> packets, Time now);
    template <class Whole>
    bool take_whole(const wire::InPacket& packet, Time now);
    bool leave_straight(std::span<const SendRequest> requests, wire::PacketCopier& copier,
                        wire::PacketSink* sink, const LazyTime& now);
    template <class Take>
    bool leave_short(const SendRequest& request, const ShortPayload& payload, bool owes, Take&& take);
    template <bool kUsual, class Take>
    bool leave_short_as(const SendRequest& request, const ShortPayload& payload, bool owes, Take&& take);
    std::size_t others_leave(std::span<const SendRequest> requests, wire::PacketCopier& copier,
                             wire::PacketSink* sink, const LazyTime& now);
    bool leave_behind(const SendRequest& request, wire::PacketCopier& copier, wire::PacketSink* sink,
                      const LazyTime& now);
    bool send_straight(wire::OutPacket& out, std::uint32_t length, wire::PacketSink& sink);
    // What only other calls than the straight ones change is as straight messages want it. Each of those
    // calls takes that back, so that it is found out once and not with each message.
    bool is_plain() { return plain_ || (plain_ = looks_plain()); }
    bool looks_plain() const;
    void doubt() {
        plain_ = false;
        requests_ = true;
    }
    // A program that only receives may stay in RTR; it has been told of its first message.
    bool is_established() const { return state_ == QpState::rts || (state_ == QpState::rtr && established_); }
    Straight came_straight(Time now);
    bool accepts(const wire::Bth& bth, const wire::Path& sender_view) const;
    bool is_peer(const wire::Path& sender_view) const {
        return sender_view.source == connection_.path.destination &&
               sender_view.destination == connection_.path.source;
    }
    bool requester_runs() const { return state_ == QpState::rts || state_ == QpState::sqd; }
    // With an acknowledgement that was owed since then, or kNever. What those that follow may wait for is
    // reckoned anew when there is something to be told, which is mostly not and takes the time.
    void request_leaves(Time owed_since, const LazyTime& now) {
        requests_ = true;
        if (!company_.is_told_by(owed_since)) return;
        const Duration patience = Company::patience(requester_.smoothed_round_trip());
        company_.request(owed_since, now.get(), patience);
        responder_.wait_up_to(patience);
    }
    void enter(QpState to, Time now);
    void reset();
    void enter_error(bool keep_answers, Time now);
    void after(Time now);

    // In the line of connection_, ...
    bool plain_ = false;
    bool by_wire_ = false;      // what left last was not copied
    bool requests_ = true;      // something may be outstanding; if not, only its responder is looked at
    bool established_ = false;  // the event was raised
    bool drain_reported_ = false;
    // ... four, ...
    alignas(64) RcRequester requester_;
    // ... and two.
    alignas(64) Company company_;
    Time last_now_ = 0;  // for flushes that no call with a time causes
    RcResponder responder_;
};

}  // namespace verbena::transport
