// One seed of the whole simulator, and many of them on several threads.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/rc_run.h"

namespace verbena::sim {

// Same seed, same run, whatever ran before.
Outcome run_seed(std::uint64_t seed);

struct Failure {
    std::uint64_t seed;
    Outcome outcome;
};

struct Batch {
    std::uint64_t first = 1, count = 2000;
    unsigned jobs = 2;
    unsigned most_failures = 1;  // then the batch ends
};

struct BatchResult {
    std::vector<Failure> failures;  // by seed
    std::uint64_t runs = 0;
    Coverage coverage;
};

// Adds to `result`.
void run_batch(const Batch& batch, BatchResult& result);

}  // namespace verbena::sim
