// What the mutations are called where a person chooses one or reads which was found.
#pragma once

#include <cstddef>
#include <iterator>

#include "base/mutation.h"

namespace verbena {

// In the order of the enumeration, without `none`.
inline constexpr const char* kMutationNames[] = {
    "psn_compare_wrong_at_wrap",
    "duplicate_atomic_reexecuted",
    "rnr_timer_ignored",
    "ack_before_placement",
    "retry_counter_not_reset",
    "lost_cq_event_edge",
    "duplicate_write_executed",
    "duplicate_send_delivered",
    "gap_accepted",
    "implied_nak_ignored",
    "read_resumed_one_packet_late",
    "fence_ignored",
    "ghost_ack_accepted",
    "flush_skips_one",
    "unsignaled_completion",
    "rkey_bounds_ignored",
    "timewait_skipped",
    "rtu_not_repeated",
    "duplicate_req_unnoticed",
    "dreq_of_stranger_ignored",
    "mra_ignored",
    "uc_gap_continued",
    "uc_receive_leaked",
    "ud_qkey_ignored",
    "ud_grh_omitted",
    "srq_request_taken_twice",
    "srq_limit_not_disarmed",
    "last_wqe_not_reported",
    "xrc_domain_ignored",
    "window_survives_invalidate",
    "window_of_other_qp_accepted",
    "window_bounds_ignored",
    "group_left_still_delivers",
    "own_multicast_not_blocked",
    "flow_turn_out_of_order",
    "flow_waiter_forgotten",
    "direct_overtakes",
    "placed_behind_fetched",
    "half_overtakes",
    "read_half_overtakes",
    "half_missing",
    "flow_turn_missed",
};
static_assert(std::size(kMutationNames) == static_cast<std::size_t>(Mutation::flow_turn_missed));

constexpr const char* to_string(Mutation mutation) {
    return mutation == Mutation::none ? "none" : kMutationNames[static_cast<std::size_t>(mutation) - 1];
}

}  // namespace verbena
