// A queue pair's rate limit (ibv_modify_qp_rate_limit(3)): packets leave while its allowance is positive. It
// grows with the rate up to one burst; a packet takes its bytes, so that a long one is made up for by the
// pause behind it.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/time.h"

namespace verbena::transport {

class Pacer {
   public:
    // What leaves without a pause if the program does not say; who sleeps until the pause is over is late by
    // some 50 us.
    static constexpr Duration kUsualBurst = 500 * kMicrosecond;
    static constexpr std::uint64_t kLeastBurst = 1500;  // bytes

    // `rate`: kbit/s, 0 for no limit; `burst`: bytes, 0 for the usual one.
    void limit(std::uint32_t rate, std::uint32_t burst) {
        rate_ = rate;
        burst_ = static_cast<std::int64_t>(burst ? burst : std::max(bytes_in(kUsualBurst), kLeastBurst));
        allowance_ = burst_;
        since_ = 0;
    }

    bool limited() const { return rate_ != 0; }

    void sent(std::uint32_t bytes, Time now) {
        if (rate_ == 0) return;
        grow(now);
        allowance_ -= bytes;
    }
    bool allows(Time now) {
        if (rate_ == 0) return true;
        grow(now);
        return allowance_ > 0;
    }
    // When it will allow the next packet; after allows() said no.
    Time next() const { return since_ + time_of(static_cast<std::uint64_t>(1 - allowance_)); }

   private:
    void grow(Time now) {
        const Duration passed = std::max<Duration>(now - since_, 0);
        if (passed >= time_of(static_cast<std::uint64_t>(burst_ - allowance_))) {
            allowance_ = burst_;
            since_ = now;
            return;
        }
        const std::uint64_t earned = bytes_in(passed);
        allowance_ += static_cast<std::int64_t>(earned);
        since_ += time_of(earned);  // what is less than a byte's time stays to its credit
    }
    // A kbit/s is a byte in 8 ms.
    std::uint64_t bytes_in(Duration time) const {
        return static_cast<std::uint64_t>(time) * rate_ / (8 * kMillisecond);
    }
    // Rounded up: then they have all been earned.
    Duration time_of(std::uint64_t bytes) const {
        return static_cast<Duration>((bytes * (8 * kMillisecond) + rate_ - 1) / rate_);
    }

    std::uint32_t rate_ = 0;
    std::int64_t burst_ = 0;
    std::int64_t allowance_ = 0;
    Time since_ = 0;  // until when the allowance has grown
};

}  // namespace verbena::transport
