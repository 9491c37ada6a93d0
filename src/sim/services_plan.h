// What one seed of all services does, drawn before the run.
#pragma once

#include <vector>

#include "sim/plan.h"
#include "sim/pool.h"
#include "sim/stream.h"

namespace verbena::sim {

struct ServicesPlan {
    struct Membership {
        unsigned stream = 0;
        Time joins = 0, leaves = 0;  // 0: never leaves
        bool sender_too = false;
    };
    struct Ends {
        unsigned from = 0, to = 0;  // stations
    };

    unsigned hosts = 2;
    Faults faults;
    bool lossless = false;  // and every receive is posted in time
    bool crowd = false;     // streams 0.. begin at the same instant and must get their turns in that order
    std::vector<ProcessPlan> stations;
    std::vector<Pool::Plan> shared;  // of each station
    std::vector<Ends> ends;          // of each stream
    std::vector<StreamPlan> streams;
    std::vector<Membership> members;
    std::vector<Ends> windows;
};

// The receive buffers' size: the longest SEND, and a datagram's GRH.
inline constexpr std::uint32_t kLongestSend = 4096;
inline constexpr std::uint32_t kReceiveCapacity = kLongestSend + 40;

ServicesPlan draw_services(std::uint64_t seed);

}  // namespace verbena::sim
