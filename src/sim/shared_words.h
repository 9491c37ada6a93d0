// Words that atomics of several connections work on. Their results must fit one history (linearizability): a
// chain of values from the first to the last, in which each atomic that completed appears exactly once and
// each whose fate is unknown at most once.
#pragma once

#include <cstdint>
#include <vector>

namespace verbena::sim {

struct SharedAtomic {
    bool fetch_add = false;
    std::uint64_t compare_add = 0, swap = 0;
    bool known = false;          // it completed
    std::uint64_t original = 0;  // ... with this result
};

// True if such a history exists.
bool linearizable(std::uint64_t first, std::uint64_t last, const std::vector<SharedAtomic>& atomics);

}  // namespace verbena::sim
