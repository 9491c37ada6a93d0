// One seed of the queue pair simulation: builds what the plan says, lets virtual time run until everything
// has completed or failed, and judges the rest.
#pragma once

#include <cstdint>
#include <string>

#include "sim/coverage.h"

namespace verbena::sim {

struct Outcome {
    std::string violation;  // empty: none
    std::string details;
    Coverage coverage;
};

Outcome run_queue_pairs(std::uint64_t seed);

}  // namespace verbena::sim
