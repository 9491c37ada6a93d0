// What everything in one run shares.
#pragma once

#include "sim/coverage.h"
#include "sim/network.h"
#include "sim/scheduler.h"
#include "sim/verdict.h"
#include "sim/wire_watch.h"

namespace verbena::sim {

struct World {
    explicit World(std::uint64_t seed)
        : watch(scheduler, coverage, verdict), network(scheduler, mix(seed) ^ 0x6e657477, watch) {}

    Time now() const { return scheduler.now(); }

    Scheduler scheduler;
    Coverage coverage;
    Verdict verdict;
    WireWatch watch;
    Network network;
};

}  // namespace verbena::sim
