// What one seed does with queue pairs: hosts, faults, the two ends of each connection, every request and
// receive. Drawn completely before the run (workload.cpp), so that the run itself has no choice that a fault
// could shift.
#pragma once

#include <cstdint>
#include <vector>

#include "base/time.h"
#include "sim/network.h"
#include "transport/attributes.h"
#include "transport/requests.h"

namespace verbena::sim {

class Random;

// Deliberate errors of the program: one request or receive of a stream is wrong.
enum class Mistake : std::uint8_t {
    none,
    bad_rkey,       // an rkey that no region has
    wrong_pd,       // the region belongs to another protection domain
    out_of_bounds,  // the range ends behind the region
    no_access,      // the region lacks the right
    qp_no_access,   // the queue pair lacks the right
    bad_lkey,       // of the request's own buffer
    short_receive,  // the receive is smaller than the message
    bad_receive_lkey,
    missing_receive,   // never posted; rnr_retry is finite
    misaligned,        // an atomic whose address is a multiple of 8 in the region only by name
    stale_invalidate,  // SEND with invalidate of an unknown rkey
};
const char* to_string(Mistake mistake);

struct Op {
    transport::Operation operation = transport::Operation::send;
    std::uint32_t flags = 0;  // transport::kFence ...
    std::uint32_t length = 0;
    std::uint32_t sge_count = 1;  // pieces of the local buffer
    std::uint32_t remote_offset = 0;
    std::uint32_t immediate = 0;
    std::uint64_t compare_add = 0, swap = 0;
    std::uint64_t key = 0;  // of its data (pattern.h); also its wr_id
    std::uint8_t shared_word =
        0;  // atomics: 1.. is a word that all connections of the target process share; 0: own
    Mistake mistake = Mistake::none;

    bool is_read() const { return operation == transport::Operation::rdma_read; }
    bool is_atomic() const {
        return operation == transport::Operation::compare_swap ||
               operation == transport::Operation::fetch_add;
    }
    bool is_write() const {
        return operation == transport::Operation::rdma_write ||
               operation == transport::Operation::rdma_write_with_immediate;
    }
    bool is_send() const {
        return operation == transport::Operation::send ||
               operation == transport::Operation::send_with_immediate ||
               operation == transport::Operation::send_with_invalidate;
    }
    bool consumes_receive() const {
        return is_send() || operation == transport::Operation::rdma_write_with_immediate;
    }
};

struct ReceivePlan {
    std::uint32_t capacity = 0;
    std::uint32_t sge_count = 1;
    Mistake mistake = Mistake::none;
    std::uint64_t wr_id = 0;
};

struct EndpointPlan {
    unsigned process = 0;
    transport::Capabilities capabilities;
    transport::Attributes attributes;  // all but addresses and numbers
    bool signal_all = false;
    bool one_cq = false;  // for both directions
    std::vector<Op> ops;
    std::vector<ReceivePlan> receives;
    std::uint32_t target_size = 64;
    std::uint32_t iova_kind = 0;  // 0: the address; 1: zero based; 2: somewhere else
    std::uint32_t buffers = 0;    // 0: each receive has its own; else the receives take turns with so many

    // How the program behaves.
    std::uint32_t batch = 1;          // requests per post
    Duration think = 0;               // at most, between posts
    std::uint32_t receive_depth = 8;  // receives kept posted
    Duration receive_delay = 0;       // at most, before a receive is posted
    Duration rts_delay = 0;
    bool drains = false;             // goes through SQD once
    std::uint32_t drain_before = 0;  // ... before this request
};

// What its link does without packets (sim_direct.h). Chances are per million.
struct DirectPlan {
    bool there = false;
    std::uint32_t declines = 0, not_yet = 0;
    std::uint32_t by_packets = 0;  // that packets are faster
    std::uint32_t fetched = 0;     // that a large SEND is faster if its payload is fetched
    std::uint32_t halved = 0;      // that both copy a large message
};

struct ProcessPlan {
    unsigned host = 0;
    bool bursts = true;
    std::size_t largest_payload = 0;  // 0: a wire; else as the local link's (sim_link.h)
    unsigned longest_run = 1;         // packets that a sender gives to a wire at once
    DirectPlan direct;
    std::size_t buffer = 212'992;
    Duration latency = 10 * kMicrosecond;  // at most, from an arrival to a turn
    std::uint32_t idle_chance =
        500'000;          // that a turn polls until nothing is left and so pushes acknowledgements
    bool events = false;  // waits for CQ events instead of polling
    bool rows = false;    // goes on posting: its requests gather until they fill a burst, or a deadline comes
    bool solicited_only = false;
    std::uint32_t poll_at_once = 16;
    std::uint32_t most_queue_pairs = 16;
};

struct Interval {
    Time begin = 0, end = 0;
};

struct Plan {
    unsigned hosts = 2;
    bool ipv6 = false;
    std::vector<ProcessPlan> processes;
    std::vector<EndpointPlan> endpoints;  // 2i and 2i+1 are connected
    std::vector<std::pair<std::pair<unsigned, unsigned>, Faults>> faults;
    std::vector<std::pair<std::pair<unsigned, unsigned>, Interval>> partitions;  // relative to the start
    std::vector<std::pair<unsigned, Interval>> pauses;                           // of processes
    unsigned vanishes = ~0u;                                                     // a process
    Time vanishes_at = 0;
    Duration vanish_noticed = 0;
    bool lossless = true;  // no packet is lost but by full buffers
};

Plan draw_plan(std::uint64_t seed);

// direct_plan.cpp: the last part of that, and one process's.
void draw_direct(std::uint64_t seed, Plan& plan);
DirectPlan draw_direct(Random& random);

}  // namespace verbena::sim
