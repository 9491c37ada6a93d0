// What is left to do of the requests that were posted to a queue pair, for who asks why nothing happens.
#pragma once

#include <cstdint>

namespace verbena::transport {

struct Standing {
    std::uint32_t sends = 0;  // requests that have not completed
    bool signaled = false;    // one of them will have a completion, even if it succeeds
    bool waits = false;       // the oldest has left, and the peer has not acknowledged it:
    std::uint64_t wr_id = 0;  // that one
    std::uint32_t psn = 0;    // from here on nothing is acknowledged

    friend bool operator==(const Standing&, const Standing&) = default;
};

}  // namespace verbena::transport
