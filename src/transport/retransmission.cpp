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
    first_interval_ = interval_after(0);
}

void Retransmission::measured(Duration round_trip) {
    round_trip = std::max<Duration>(round_trip, 1);  // what two threads are told may be out of order
    if (smoothed_ == 0) {
        smoothed_ = round_trip;
        deviation_ = round_trip / 2;
    } else {
        const Duration error = round_trip - smoothed_;
        deviation_ += ((error < 0 ? -error : error) - deviation_) / 4;
        smoothed_ += error / 8;
    }
    if (measured_ < kEnough) measured_++;
    first_interval_ = interval_after(0);
}

void Retransmission::paused(Duration pause) {
    deviation_ = std::max(deviation_, std::min(pause, kLongestPause) / 2);
    first_interval_ = interval_after(0);
}

Duration Retransmission::interval_after(unsigned probes) const {
    const Duration floor = among_losses_ > 0 ? kProbeFloorAmongLosses : kProbeFloor;
    const Duration base = smoothed_ == 0 ? kProbeUnmeasured : std::max(2 * smoothed_ + 4 * deviation_, floor);
    const Duration interval = std::min(base << std::min(probes, 10u), kProbeCeiling);
    // However long the round trips seem to be, the first probe comes before the timeout that costs a retry.
    return probes == 0 && acknowledge_timeout_ != 0 ? std::min(interval, acknowledge_timeout_ / 2) : interval;
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
    if (now >= doubt_ends_) {
        doubt_ends_ = kNever;
        return Due::doubt;
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
