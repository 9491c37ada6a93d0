// Whether a queue pair's acknowledgements find a request of its own to leave with, if they wait for one
// (kAcknowledgeDelay). Where two programs answer each other they do, and the answer that comes with the
// acknowledgement is taken by whoever polls for that. Where one only listens they do not, and waiting in vain
// delays the other's completions. As it was lately, so it will be.
//
// Thread safety: the queue pair's lock.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/time.h"

namespace verbena::transport {

class Company {
   public:
    // An answer that would have been worth waiting for. Where changing threads takes long, as in an emulator,
    // a program that watches its memory is not faster.
    static constexpr Duration kSoon = 400 * kMicrosecond;

    bool likely() const { return score_ > 0; }
    // A request leaves, with an acknowledgement or not.
    void request(bool together, Time now) {
        if (!together && now - alone_since_ > kSoon) return;
        score_ = std::min(score_ + 1, kMost);
        alone_since_ = kLongAgo;
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
