// Deliberate protocol bugs, one of which the simulator switches on to prove that it would find it. A program
// never contains them: without VERBENA_MUTATIONS every mutated() is a constant false and the branch
// disappears. A binary that wants them compiles all files that include this header with that definition (only
// sources do, no header), and links them in front of the rooms.
//
// Thread safety: set_mutation() before the threads that look.
#pragma once

#include <cstdint>

namespace verbena {

enum class Mutation : std::uint8_t {
    none,
    psn_compare_wrong_at_wrap,    // the responder compares PSNs as plain integers
    duplicate_atomic_reexecuted,  // instead of answered from the saved result (IBA 9.4.5)
    rnr_timer_ignored,            // the requester repeats at once after an RNR NAK (IBA 9.7.5.2.8)
    ack_before_placement,         // the last byte of a message arrives after its acknowledgement
    retry_counter_not_reset,      // progress does not reload retry_cnt (IBA 9.9.2.1.1)
    lost_cq_event_edge,           // arming a queue that is not empty is forgotten
    duplicate_write_executed,     // a repeated WRITE overwrites memory again
    duplicate_send_delivered,     // a repeated SEND consumes a second receive
    gap_accepted,                 // a packet from the future is taken as the expected one
    implied_nak_ignored,  // an acknowledgement completes a READ whose data did not come (IBA 9.7.5.1.1)
    read_resumed_one_packet_late,  // a READ is asked again from behind the first missing packet
    fence_ignored,                 // a fenced request overtakes READs (IBA 10.8.3.3)
    ghost_ack_accepted,            // an old acknowledgement (before the window) completes the oldest request
    flush_skips_one,               // one receive is not flushed in the error state
    unsignaled_completion,         // an unsignaled request completes with a CQ entry
    rkey_bounds_ignored,           // only the first byte of a WRITE is checked
    timewait_skipped,              // src/cm: a QP number is reused at once
    rtu_not_repeated,              // src/cm: a repeated REP of an established connection goes unanswered
    duplicate_req_unnoticed,       // src/cm: a repeated REQ is a new request
    dreq_of_stranger_ignored,      // src/cm: a DREQ for a forgotten connection gets no DREP
    mra_ignored,                   // src/cm: the REQ's repetitions do not wait as the peer asked
    uc_gap_continued,              // UC goes on with a message of which a packet is missing (IBA 9.8.2)
    uc_receive_leaked,             // the receive request of a lost UC message serves no other
    ud_qkey_ignored,               // a datagram with another Q_Key is delivered (IBA 9.6.1.4)
    ud_grh_omitted,                // the 40 bytes in front of a datagram stay as they were
    srq_request_taken_twice,       // now and then a shared receive is given to two messages
    srq_limit_not_disarmed,        // the limit is reported with each request taken (IBA 10.2.9.3)
    last_wqe_not_reported,         // IBA 10.2.9.4
    xrc_domain_ignored,            // a request reaches a queue of another XRC domain (annex A14)
    window_survives_invalidate,    // IBA 10.6.5
    window_of_other_qp_accepted,   // a type 2 window is open to every queue pair (IBA 10.6.7.2.6)
    window_bounds_ignored,         // a window opens all of its region
    group_left_still_delivers,     // a detached queue pair still gets the group's datagrams
    own_multicast_not_blocked,     // what a queue pair sends to its group comes back
    flow_turn_out_of_order,        // who waits longest for the shared window goes last
    flow_waiter_forgotten,         // a turn is taken from two and given to one
    direct_overtakes,              // a WRITE is executed by the link while requests before it wait
    placed_behind_fetched,         // a SEND is written into its receive before an earlier one is fetched
    half_overtakes,                // a part of a WRITE is written while requests before it wait
    read_half_overtakes,           // ... and one of a READ is read
    half_missing,                  // a READ completes although only the peer has copied its part
    flow_turn_missed,              // who finds the window opened by another thread does not come again
};

// The last that a single thread shows, as the simulator is; src/transport/mutations finds those behind it.
inline constexpr Mutation kLastOfOneThread = Mutation::half_missing;

#ifdef VERBENA_MUTATIONS
inline Mutation& selected_mutation() {
    static Mutation selected = Mutation::none;
    return selected;
}
inline void set_mutation(Mutation m) { selected_mutation() = m; }
inline bool mutated(Mutation m) { return selected_mutation() == m; }
#else
constexpr bool mutated(Mutation) { return false; }
#endif

}  // namespace verbena
