// Proves that the random workload finds bugs: each deliberate one of base/mutation.h that lies in RC
// must fail some seed. This program's sources are compiled with VERBENA_MUTATIONS.
#include <cstdio>

#include "base/mutation_names.h"
#include "transport/mutations/turns.h"
#include "transport/rc_workload.h"

using verbena::Mutation;

int main() {
    constexpr unsigned kSeeds = 1000;
    constexpr Mutation kFirst = Mutation::psn_compare_wrong_at_wrap, kLast = Mutation::rkey_bounds_ignored;
    int missed = 0;
    for (auto number = static_cast<unsigned>(kFirst); number <= static_cast<unsigned>(kLast); number++) {
        const auto mutation = static_cast<Mutation>(number);
        verbena::set_mutation(mutation);
        std::string found;
        for (unsigned seed = 0; seed < kSeeds && found.empty(); seed++)
            found = verbena::transport::testing::Workload(seed).run();
        std::printf("%-32s %s\n", to_string(mutation), found.empty() ? "NOT FOUND" : found.c_str());
        missed += found.empty();
    }
    // And, for several threads, that nothing is wrong without it.
    verbena::set_mutation(Mutation::none);
    if (const std::string found = verbena::transport::testing::find_missed_turn(); !found.empty()) {
        std::printf("without a mutation: %s\n", found.c_str());
        missed++;
    }
    verbena::set_mutation(Mutation::flow_turn_missed);
    const std::string found = verbena::transport::testing::find_missed_turn();
    std::printf("%-32s %s\n", to_string(Mutation::flow_turn_missed),
                found.empty() ? "NOT FOUND" : found.c_str());
    missed += found.empty();
    return missed != 0;
}
