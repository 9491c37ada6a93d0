#include "sim/mutations.h"

#include <charconv>

namespace verbena::sim {
namespace {

struct Name {
    Mutation mutation;
    const char* name;
};
constexpr Name kNames[] = {
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
    {Mutation::timewait_skipped, "timewait_skipped"},
    {Mutation::rtu_not_repeated, "rtu_not_repeated"},
    {Mutation::duplicate_req_unnoticed, "duplicate_req_unnoticed"},
    {Mutation::dreq_of_stranger_ignored, "dreq_of_stranger_ignored"},
    {Mutation::mra_ignored, "mra_ignored"},
    {Mutation::uc_gap_continued, "uc_gap_continued"},
    {Mutation::uc_receive_leaked, "uc_receive_leaked"},
    {Mutation::ud_qkey_ignored, "ud_qkey_ignored"},
    {Mutation::ud_grh_omitted, "ud_grh_omitted"},
    {Mutation::srq_request_taken_twice, "srq_request_taken_twice"},
    {Mutation::srq_limit_not_disarmed, "srq_limit_not_disarmed"},
    {Mutation::last_wqe_not_reported, "last_wqe_not_reported"},
    {Mutation::xrc_domain_ignored, "xrc_domain_ignored"},
    {Mutation::window_survives_invalidate, "window_survives_invalidate"},
    {Mutation::window_of_other_qp_accepted, "window_of_other_qp_accepted"},
    {Mutation::window_bounds_ignored, "window_bounds_ignored"},
    {Mutation::group_left_still_delivers, "group_left_still_delivers"},
    {Mutation::own_multicast_not_blocked, "own_multicast_not_blocked"},
    {Mutation::flow_turn_out_of_order, "flow_turn_out_of_order"},
    {Mutation::flow_waiter_forgotten, "flow_waiter_forgotten"},
};

}  // namespace

std::vector<Mutation> all_mutations() {
    std::vector<Mutation> all;
    for (const Name& n : kNames) all.push_back(n.mutation);
    return all;
}

const char* to_string(Mutation mutation) {
    for (const Name& n : kNames)
        if (n.mutation == mutation) return n.name;
    return "none";
}

Mutation find_mutation(std::string_view name) {
    for (const Name& n : kNames)
        if (name == n.name) return n.mutation;
    unsigned number = 0;
    const auto end = name.data() + name.size();
    if (const auto parsed = std::from_chars(name.data(), end, number); parsed.ptr != end || number == 0)
        return Mutation::none;
    return number <= std::size(kNames) ? kNames[number - 1].mutation : Mutation::none;
}

}  // namespace verbena::sim
