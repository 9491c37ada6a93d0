#include "transport/retransmission.h"

#include <algorithm>

#include "transport/mutation.h"

namespace verbena::transport {

Duration rnr_wait(std::uint8_t timer) {
    // In units of 10 us.
    static constexpr std::uint32_t kTable[32] = {
        65536, 1,   2,   3,   4,    6,    8,    12,   16,   24,   32,   48,    64,    96,    128,   192,
        256,   384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152};
    return Duration{kTable[timer & 31]} * 10 * kMicrosecond;
}

void Retransmission::configure(std::uint8_t timeout, std::uint8_t retry_count, std::uint8_t rnr_retry) {
    acknowledge_timeout_ = timeout == 0 ? 0 : std::max(iba_timeout(timeout), kAcknowledgeTimeoutFloor);
    retry_count_ = retry_count;
    rnr_retry_ = rnr_retry;
}

Duration Retransmission::probe_interval() const {
    const Duration base =
        smoothed_ == 0 ? kProbeUnmeasured : std::max(2 * smoothed_ + 4 * deviation_, kProbeFloor);
    Duration interval = std::min(base << std::min<unsigned>(backoff_, 10), kProbeCeiling);
    // However long the round trips seem to be, the first probe comes before the timeout that costs a retry.
    if (backoff_ == 0 && acknowledge_timeout_ != 0) interval = std::min(interval, acknowledge_timeout_ / 2);
    return interval;
}

void Retransmission::sent(Time now) {
    probe_at_ = now + probe_interval();
    if (timeout_at_ == kNever && acknowledge_timeout_ != 0) timeout_at_ = now + acknowledge_timeout_;
}

void Retransmission::progress(Time now, bool outstanding) {
    backoff_ = 0;
    if (!mutated(Mutation::retry_counter_not_reset)) retries_used_ = 0;
    rnr_retries_used_ = late_timeouts_ = 0;
    stop();
    if (outstanding) sent(now);
}

void Retransmission::measured(Duration round_trip) {
    // Jacobson's estimator (RFC 6298), gains 1/8 and 1/4.
    if (smoothed_ == 0) {
        smoothed_ = std::max<Duration>(round_trip, 1);
        deviation_ = round_trip / 2;
        return;
    }
    const Duration error = round_trip - smoothed_;
    deviation_ += ((error < 0 ? -error : error) - deviation_) / 4;
    smoothed_ = std::max<Duration>(smoothed_ + error / 8, 1);
}

Retransmission::Due Retransmission::due(Time now) {
    if (now >= timeout_at_) {
        const bool late = now - timeout_at_ > acknowledge_timeout_ / 4 && late_timeouts_ < kLateTimeouts;
        if (late) late_timeouts_++;
        timeout_at_ = now + acknowledge_timeout_;
        backoff_ = 0;
        probe_at_ = now + probe_interval();
        return late ? Due::late_timeout : Due::timeout;
    }
    if (now >= probe_at_) {
        if (backoff_ < 10) backoff_++;
        probe_at_ = now + probe_interval();
        return Due::probe;
    }
    return Due::nothing;
}

bool Retransmission::take_retry() {
    if (retries_used_ >= retry_count_) return false;
    retries_used_++;
    return true;
}

bool Retransmission::take_rnr_retry() {
    // The peer has answered, and says when to ask again: silence is counted anew (IBA 9.7.5.2.8, 9.9.2.1.1).
    retries_used_ = backoff_ = 0;
    if (rnr_retry_ == kRnrRetryForEver) return true;
    if (rnr_retries_used_ >= rnr_retry_) return false;
    rnr_retries_used_++;
    return true;
}

}  // namespace verbena::transport
