// The table of failures: what causes one, what the responder answers, and how both sides see it. One row is
// one request on a fresh pair of queue pairs; rows without a fault are in it as a check of the rig.
//
// The rows are data. table_main.cpp runs them, against Verbena or against Linux soft-RoCE, whose deviations
// are columns of their own.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <span>

namespace table {

inline constexpr int kNone = -1;  // no completion, no event
inline constexpr int kAll =
    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
inline constexpr int kRemote = kAll & ~IBV_ACCESS_LOCAL_WRITE;
inline constexpr std::uint32_t kBuffer = 64 << 10;  // bytes, each region

enum class Key : std::uint8_t { good, unknown, foreign_pd, deregistered, other_kind };
enum class Receive : std::uint8_t { none, posted, late };
// What the request's key is of: the region, or a memory window over its first half that is bound, was
// invalidated, has another key by now, or was bound through another queue pair of the responder.
enum class Window : std::uint8_t { none, type_1, type_2, invalidated, rebound, other_qp };
inline constexpr std::uint32_t kWindow = kBuffer / 2;  // bytes

// What is unusual about the request, about the responder and about the requester.
struct Fault {
    Key remote_key = Key::good;
    Key local_key = Key::good;
    std::int64_t remote_offset = 0;
    std::uint32_t local_offset = 0;
    int region_access = kAll;   // the responder's region that the request names
    int qp_access = kAll;       // the responder's queue pair
    int local_access = kAll;    // the requester's region
    int receive_access = kAll;  // the region of the receive
    Key receive_key = Key::good;
    std::uint32_t receive_length = kBuffer;
    Receive receive = Receive::posted;
    std::uint8_t rnr_retry = 7;
    std::uint8_t responder_depth = 4;  // max_dest_rd_atomic
    // As many requests like it before it, which succeed. Between two of Verbena's only: it takes all of them
    // in one burst, where soft-RoCE has answered the first when the last one comes. (Not of READs, which the
    // local link executes at once.)
    unsigned ahead = 0;
    bool peer_vanishes = false;
    Window window = Window::none;
    int window_access = kRemote;
    bool invalidate_first =
        false;  // a SEND with invalidate of the request's key before it, which takes the receive
};

// How the request ends. The NAK is in the vendor error (0x0211 invalid request, 0x0212 remote access, 0x0213
// remote operational); Verbena's requester only has it.
struct Requester {
    ibv_wc_status status = IBV_WC_SUCCESS;
    std::uint32_t vendor = 0;
    ibv_qp_state state = IBV_QPS_RTS;
    int post_error = 0;    // then there is no completion
    bool followed = true;  // if it fails: by a request that must then be flushed
};

struct Responder {
    int receive_status = kNone;
    std::uint32_t vendor = 0;
    ibv_qp_state state = IBV_QPS_RTS;
    int event = kNone;
};

struct Row {
    const char* cause;
    ibv_wr_opcode opcode;
    std::uint32_t length;
    Fault fault;
    Requester requester;  // Verbena's with a responder of Verbena's
    Responder responder;  // Verbena's
    // Where soft-RoCE differs: its answer as a requester of Verbena's sees it, its own side as a responder,
    // its own side as a requester. The vendor error of soft-RoCE is never looked at. nullptr: as above, but
    // for the asynchronous event, which soft-RoCE does not raise.
    const Requester* requester_of_rxe = nullptr;
    const Responder* rxe_responder = nullptr;
    const Requester* rxe_requester = nullptr;
};

std::span<const Row> rows();

}  // namespace table
