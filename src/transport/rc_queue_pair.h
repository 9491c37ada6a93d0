// A queue pair of the RC service: the state machine (IBA 10.3.1) around a requester and a responder.
//
// Thread safety: the queue pair's lock (queue_pair.h).
#pragma once

#include <optional>

#include "transport/rc_requester.h"
#include "transport/rc_responder.h"

namespace verbena::transport {

class RcQueuePair final : public QueuePair {
   public:
    explicit RcQueuePair(const QpSetup& setup);

    int modify(const Attributes& attributes, std::uint32_t mask, Time now) override;
    void query(Attributes& attributes) const override;
    int post_send(const SendRequest& request, Time now) override;
    void receives_posted() override;
    void receive(const wire::Packet& packet, const wire::Path& sender_view, Time now) override;
    bool transmit(wire::PacketSink& sink, Time now, unsigned max_packets,
                  bool push_acknowledgements) override;
    Time next_deadline() const override;
    void advance(Time now) override;
    bool awaits_acknowledgement() const override { return requester_runs() && requester_->outstanding(); }

   private:
    RcShared shared() { return {setup_, attributes_, counters_, *this}; }
    bool accepts(const wire::Bth& bth, const wire::Path& sender_view) const;
    bool requester_runs() const { return state_ == QpState::rts || state_ == QpState::sqd; }
    void apply(const Attributes& attributes, std::uint32_t mask);
    void enter(QpState to, Time now);
    void reset();
    void enter_error(bool keep_answers, Time now);
    void flush_receives(Time now);
    void after(Time now);
    bool ready(Time now, bool push) const;

    Attributes attributes_;
    std::optional<RcRequester> requester_;
    std::optional<RcResponder> responder_;
    bool established_ = false;  // the event was raised
    bool drain_reported_ = false;
    Time last_now_ = 0;  // for flushes that no call with a time causes
};

}  // namespace verbena::transport
