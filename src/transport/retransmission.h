// When to repeat: the requester's timers and retry counters, without any knowledge of packets.
//
// Two timers run while something is unacknowledged.
//  - The acknowledge timeout of the attributes: 4.096 us * 2^timeout, 0 for ever. A responder in user space
//    may not be running just now, so there is a floor of 256 ms; for the usual 14 (67 ms) that is within the
//    four times that IBA 9.7.6.1.3 permits. Each expiry costs one of retry_cnt.
//  - The probe: after a few round trips of silence the oldest unacknowledged packet goes again and asks for
//    an acknowledgement. It costs no retry, since it only finds out whether the tail or its acknowledgement
//    was lost; the interval doubles each time, until progress. Its answer may leave a doubt (probe.h), which
//    ends when nothing more has come for a moment. Where packets have been lost lately, probe and doubt come
//    sooner: others may be lost, and nothing else tells of the last ones. What was copied into the memory of
//    a peer that answers is not lost: there it is late, and the deadline does not move with each message that
//    follows it.
// A timeout that is noticed late costs no retry, up to a bound: who does not get a processor here may have a
// peer that does not get one either.
//
// Progress (anything newly acknowledged) reloads both counters (IBA 9.9.2.1.1, 9.7.5.2.8); an RNR NAK, which
// is an answer too, that of timeouts.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/time.h"
#include "transport/mutation.h"

namespace verbena::transport {

inline constexpr Duration kAcknowledgeTimeoutFloor = 256 * kMillisecond;
inline constexpr Duration kProbeFloor = 2 * kMillisecond;
inline constexpr Duration kProbeFloorAmongLosses = 100 * kMicrosecond;
inline constexpr Duration kProbeCopied = 64 * kMillisecond;     // of what is in the peer's memory
inline constexpr Duration kProbeUnmeasured = 8 * kMillisecond;  // before the first round trip was measured
inline constexpr Duration kDoubt = 1 * kMillisecond;  // after an answer that leaves open what else comes
inline constexpr Duration kDoubtAmongLosses = 200 * kMicrosecond;
inline constexpr std::uint8_t kAmongLosses = 255;            // times of progress since the last loss
inline constexpr Duration kLongestPause = 8 * kMillisecond;  // that is expected again
inline constexpr Duration kProbeCeiling = 1 * kSecond;
inline constexpr std::uint8_t kRnrRetryForEver = 7;
inline constexpr std::uint8_t kLateTimeouts = 32;  // without progress

// The waiting time that an RNR NAK's 5-bit timer field asks for (IBA 9.7.5.2.8, table 45).
Duration rnr_wait(std::uint8_t timer);

class Retransmission {
   public:
    void configure(std::uint8_t timeout, std::uint8_t retry_count, std::uint8_t rnr_retry);

    // A packet left; something is outstanding. `copied`: it is in the peer's memory already, so that there is
    // no haste to find out about it, only a peer that was not ready. Behind others like it the time is not
    // asked for: the timers run. True: next_deadline() has come nearer.
    [[gnu::always_inline]] bool sent(const LazyTime& when, bool copied = false) {
        if (copied && copied_ && probe_at_ != kNever && (timeout_at_ != kNever || acknowledge_timeout_ == 0))
            return false;
        const Time now = when.get(), before = next_deadline();
        copied_ = copied;
        probe_at_ = now + probe_interval();
        if (timeout_at_ == kNever && acknowledge_timeout_ != 0) timeout_at_ = now + acknowledge_timeout_;
        return next_deadline() < before;
    }
    // Something new was acknowledged.
    void progress(Time now, bool outstanding) {
        backoff_ = 0;
        if (!mutated(Mutation::retry_counter_not_reset)) retries_used_ = 0;
        rnr_retries_used_ = late_timeouts_ = 0;
        if (among_losses_ > 0 && --among_losses_ == 0) [[unlikely]]
            first_interval_ = interval_after(0);
        stop();
        if (outstanding) sent(now, copied_);
    }
    // Packets have been lost lately.
    bool among_losses() const { return among_losses_ > 0; }
    // What has just been acknowledged was probed, and what is outstanding behind it should come soon.
    void doubt(Time now) { doubt_ends_ = now + (among_losses() ? kDoubtAmongLosses : kDoubt); }
    // A packet was lost: others may be, and it costs less to ask too early than to find out late.
    void lost() {
        among_losses_ = kAmongLosses;
        first_interval_ = interval_after(0);
    }
    // Nothing is outstanding, or an RNR NAK is waited for.
    void stop() { probe_at_ = timeout_at_ = doubt_ends_ = kNever; }
    // Of a packet that was sent once. Jacobson's estimator (RFC 6298), gains 1/8 and 1/4.
    void measured(Duration round_trip);

    // The peer was silent for that long, and had lost nothing: next time it is given twice as much.
    void paused(Duration pause);

    enum class Due : std::uint8_t { nothing, doubt, probe, timeout, late_timeout };
    Due due(Time now);      // each expiry is reported once, and its timer set anew
    bool take_retry();      // false: retry_cnt is used up
    bool take_rnr_retry();  // false: rnr_retry is used up; 7 is for ever

    Time next_deadline() const { return std::min({probe_at_, timeout_at_, doubt_ends_}); }
    Duration smoothed_round_trip() const { return smoothed_; }
    // As well as another measurement would tell.
    bool knows_the_round_trip() const { return measured_ == kEnough && deviation_ <= smoothed_; }

   private:
    static constexpr std::uint8_t kEnough = 16;

    Duration probe_interval() const {
        if (backoff_ > 0) return interval_after(backoff_);
        return copied_ && measured_ > 0 ? std::max(kProbeCopied, first_interval_) : first_interval_;
    }
    Duration interval_after(unsigned probes) const;

    Duration acknowledge_timeout_ = 0;  // 0: for ever
    Time timeout_at_ = kNever;
    Time probe_at_ = kNever;
    Time doubt_ends_ = kNever;
    Duration smoothed_ = 0;  // round trip; 0: not measured
    Duration deviation_ = 0;
    Duration first_interval_ = kProbeUnmeasured;  // interval_after(0), which is asked for with each packet
    bool copied_ : 1 = false;                     // the newest packet
    std::uint8_t measured_ : 7 = 0;               // round trips, up to kEnough
    std::uint8_t among_losses_ = 0;               // for so much progress yet
    std::uint8_t backoff_ = 0;                    // probes since progress
    std::uint8_t retry_count_ = 0;
    std::uint8_t rnr_retry_ = 0;
    std::uint8_t retries_used_ = 0;
    std::uint8_t rnr_retries_used_ = 0;
    std::uint8_t late_timeouts_ = 0;
};

}  // namespace verbena::transport
