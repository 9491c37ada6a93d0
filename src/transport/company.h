// Whether a queue pair's acknowledgements find a request of its own to leave with, if they wait for one, and
// how long they may. Where two programs answer each other they do, and the answer that comes with the
// acknowledgement is taken by whoever polls for that. Where one only listens they do not, and waiting in vain
// delays the other's completions. As it was lately, so it will be.
//
// What is soon depends on the machine: where a change of threads takes long, as in an emulator, an answer
// does, too, and so do round trips.
//
// Thread safety: the queue pair's lock.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/time.h"

namespace verbena::transport {

inline constexpr Duration kAcknowledgeDelay = 100 * kMicrosecond;
inline constexpr Duration kLongestAcknowledgeDelay = 800 * kMicrosecond;

class Company {
   public:
    // How long an acknowledgement may wait. An answer within half of it would have been worth waiting for.
    static Duration patience(Duration round_trip) {
        return std::clamp(8 * round_trip, kAcknowledgeDelay, kLongestAcknowledgeDelay);
    }

    bool likely() const { return score_ > 0; }
    // Whether a request that leaves with what was owed since then tells anything.
    bool is_told_by(Time owed_since) const { return owed_since != kNever || alone_since_ != kLongAgo; }
    // A request leaves, and with it an acknowledgement that was owed since then; kNever: without one.
    void request(Time owed_since, Time now, Duration patience) {
        const bool in_time = now - (owed_since == kNever ? alone_since_ : owed_since) <= patience / 2;
        if (in_time) score_ = std::min(score_ + 1, kMost);
        if (in_time || owed_since == kNever) alone_since_ = kLongAgo;
    }
    // An acknowledgement that was owed since then left without one.
    void alone(Time since) {
        score_ = std::max(score_ - 2, 0);
        alone_since_ = since;
    }

   private:
    static constexpr int kMost = 16;
    static constexpr Time kLongAgo = -kSecond;

    int score_ = 0;
    Time alone_since_ = kLongAgo;
};

}  // namespace verbena::transport
