// What happened in all runs together, counted: a line of the final table that stays zero means that the
// simulator no longer reaches that part of the protocol.
//
// Thread safety: none; each run has its own, which are added up.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace verbena::sim {

struct Coverage {
    enum Timer : std::uint8_t { ack_timeout, probe, rnr_wait, ack_delay, timer_count };
    // What the link between processes of one host did and said (sim_direct.h).
    enum Directly : std::uint8_t {
        wrote,
        read_there,
        wrote_half,
        read_half,
        stored,
        placed,
        declined,
        not_yet,
        by_packets,
        stood_still,
        directly_count
    };
    static constexpr unsigned kQpStates = 7;
    static constexpr unsigned kCmMessages = 0x1b;  // attribute ids 0x10 .. 0x1a
    static constexpr unsigned kCmStates = 13;      // cm::ConnectionState, and one for "no connection"
    static constexpr unsigned kCmEvents = 20;      // cm::EventType

    std::array<std::uint64_t, 256> sent{}, received{};          // opcodes
    std::array<std::uint64_t, 8> naks_sent{}, naks_received{};  // wire::NakCode; 5: RNR
    std::array<std::array<std::uint64_t, kQpStates>, kQpStates> edges{};
    std::array<std::uint64_t, timer_count> timers{};
    std::array<std::uint64_t, 32> send_statuses{}, receive_statuses{};
    std::array<std::uint64_t, 32> qp_events{};
    std::uint64_t limit_events = 0;  // SRQ_LIMIT_REACHED
    std::array<std::uint64_t, 16> losses{};
    std::array<std::uint64_t, kCmMessages> mads_sent{}, mads_received{};
    std::array<std::array<std::uint64_t, kCmStates>, kCmMessages>
        cm{};  // by message and state + 1 on its arrival
    std::array<std::uint64_t, kCmEvents> cm_events{};
    std::array<std::uint64_t, directly_count> directly{};
    std::uint64_t runs = 0, packets = 0, events = 0;

    void add(const Coverage& other);

    // The table, and the names of the lines that are zero.
    std::string table(std::vector<std::string>& zero) const;
};

inline constexpr unsigned kRnrLine = 5;

}  // namespace verbena::sim
