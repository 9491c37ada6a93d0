// Every conversation of a client and a server in which any one message, or any two, are lost, doubled, or
// doubled with the copy coming late. Not drawn from a seed: all of them.
#pragma once

#include <cstdint>
#include <string>

#include "sim/coverage.h"

namespace verbena::sim {

struct ExhaustiveResult {
    std::uint64_t runs = 0;
    std::string violation;  // of the first that failed, with what to repeat; empty: none
    Coverage coverage;
};

ExhaustiveResult run_all_conversations();

}  // namespace verbena::sim
