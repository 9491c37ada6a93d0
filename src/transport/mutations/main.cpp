// Proves that the random workload finds bugs: each deliberate one of base/mutation.h that lies in these rooms
// must fail some seed. This program's sources are compiled with VERBENA_MUTATIONS.
#include <cstdio>

#include "base/mutation.h"
#include "transport/rc_workload.h"

using verbena::Mutation;

int main() {
    constexpr unsigned kSeeds = 1000;
    constexpr struct {
        Mutation mutation;
        const char* name;
    } kMutations[] = {
        {Mutation::psn_compare_wrong_at_wrap, "psn_compare_wrong_at_wrap"},
        {Mutation::duplicate_atomic_reexecuted, "duplicate_atomic_reexecuted"},
        {Mutation::rnr_timer_ignored, "rnr_timer_ignored"},
        {Mutation::ack_before_placement, "ack_before_placement"},
        {Mutation::retry_counter_not_reset, "retry_counter_not_reset"},
        {Mutation::lost_cq_event_edge, "lost_cq_event_edge"},
        {Mutation::duplicate_write_executed, "duplicate_write_executed"},
        {Mutation::duplicate_send_delivered, "duplicate_send_delivered"},
        {Mutation::gap_accepted, "gap_accepted"},
        {Mutation::implied_nak_ignored, "implied_nak_ignored"},
        {Mutation::read_resumed_one_packet_late, "read_resumed_one_packet_late"},
        {Mutation::fence_ignored, "fence_ignored"},
        {Mutation::ghost_ack_accepted, "ghost_ack_accepted"},
        {Mutation::flush_skips_one, "flush_skips_one"},
        {Mutation::unsignaled_completion, "unsignaled_completion"},
        {Mutation::rkey_bounds_ignored, "rkey_bounds_ignored"},
    };
    int missed = 0;
    for (const auto& [mutation, name] : kMutations) {
        verbena::set_mutation(mutation);
        std::string found;
        for (unsigned seed = 0; seed < kSeeds && found.empty(); seed++)
            found = verbena::transport::testing::Workload(seed).run();
        std::printf("%-32s %s\n", name, found.empty() ? "NOT FOUND" : found.c_str());
        missed += found.empty();
    }
    return missed != 0;
}
