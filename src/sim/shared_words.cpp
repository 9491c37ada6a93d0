// Successful atomics form the chain; a compare-and-swap that failed only has to have seen a value that was
// there. Values are random 64-bit numbers, so that the next known step is unique; unknown steps are tried
// where none fits.
#include "sim/shared_words.h"

#include <algorithm>
#include <unordered_set>

namespace verbena::sim {
namespace {

constexpr unsigned kMostTries = 100'000;

struct Search {
    std::vector<SharedAtomic> steps, seen_only, unknown;
    std::vector<bool> step_used, unknown_used;
    std::uint64_t last = 0;
    unsigned tries = 0;

    static std::uint64_t after(const SharedAtomic& a, std::uint64_t value) {
        if (a.fetch_add) return value + a.compare_add;
        return value == a.compare_add ? a.swap : value;
    }

    bool complete(std::uint64_t value, const std::vector<std::uint64_t>& visited) const {
        if (value != last || std::ranges::find(step_used, false) != step_used.end()) return false;
        return std::ranges::all_of(seen_only, [&](const SharedAtomic& a) {
            return std::ranges::find(visited, a.original) != visited.end();
        });
    }

    bool from(std::uint64_t value, std::vector<std::uint64_t>& visited) {
        if (++tries > kMostTries) return true;  // undecided; does not happen with distinct values
        visited.push_back(value);
        if (complete(value, visited)) return true;
        auto follow = [&](const std::vector<SharedAtomic>& from_list, std::vector<bool>& used, bool check) {
            for (std::size_t i = 0; i < from_list.size(); i++) {
                if (used[i] || (check && from_list[i].original != value)) continue;
                const std::uint64_t next = after(from_list[i], value);
                if (next == value && !check) continue;
                used[i] = true;
                if (from(next, visited)) return true;
                used[i] = false;
            }
            return false;
        };
        if (follow(steps, step_used, true) || follow(unknown, unknown_used, false)) return true;
        visited.pop_back();
        return false;
    }
};

}  // namespace

bool linearizable(std::uint64_t first, std::uint64_t last, const std::vector<SharedAtomic>& atomics) {
    Search search;
    search.last = last;
    for (const SharedAtomic& a : atomics) {
        if (!a.known)
            search.unknown.push_back(a);
        else if (a.fetch_add || a.original == a.compare_add)
            search.steps.push_back(a);
        else
            search.seen_only.push_back(a);
    }
    search.step_used.assign(search.steps.size(), false);
    search.unknown_used.assign(search.unknown.size(), false);
    std::vector<std::uint64_t> visited;
    return search.from(first, visited);
}

}  // namespace verbena::sim
