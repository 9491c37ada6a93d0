// The rows. Designated initializers name what is unusual; all else is as a program would have it.
#include "table.h"

#include <cerrno>

namespace table {
namespace {

// IBA 9.9.2.4.1: what each NAK does to the requester.
constexpr Requester kInvalidRequest{IBV_WC_REM_INV_REQ_ERR, 0x0211, IBV_QPS_ERR};
constexpr Requester kAccess{IBV_WC_REM_ACCESS_ERR, 0x0212, IBV_QPS_ERR};
constexpr Requester kOperational{IBV_WC_REM_OP_ERR, 0x0213, IBV_QPS_ERR};
constexpr Requester kFine{};

constexpr Requester protection(std::uint32_t vendor) { return {IBV_WC_LOC_PROT_ERR, vendor, IBV_QPS_ERR}; }
constexpr Requester refused(int error) { return {IBV_WC_SUCCESS, 0, IBV_QPS_RTS, error}; }

// IBA 9.7.4.1, 9.9.3: a request that names wrong memory is an access error; the receive is not used, and
// flushed.
constexpr Responder access_error() {
    return {IBV_WC_WR_FLUSH_ERR, 0x0001, IBV_QPS_ERR, IBV_EVENT_QP_ACCESS_ERR};
}
constexpr Responder request_error() {
    return {IBV_WC_WR_FLUSH_ERR, 0x0001, IBV_QPS_ERR, IBV_EVENT_QP_REQ_ERR};
}
// The receive itself says what is wrong; so there is no event.
constexpr Responder receive_error(ibv_wc_status status, std::uint32_t vendor) {
    return {status, vendor, IBV_QPS_ERR};
}
constexpr Responder kReceived{IBV_WC_SUCCESS};
constexpr Responder kUntouched{};

// soft-RoCE's own ways. It looks at the memory for a response when that has come, so a request behind has
// left.
constexpr Requester kRxeLocalKey{IBV_WC_LOC_QP_OP_ERR, 0, IBV_QPS_ERR};
constexpr Requester kRxeLate{IBV_WC_LOC_PROT_ERR, 0, IBV_QPS_ERR, 0, false};
constexpr Responder kRxeFlushed{IBV_WC_WR_FLUSH_ERR, 0, IBV_QPS_ERR};
constexpr Responder kRxeInvalidRequest{IBV_WC_REM_INV_REQ_ERR, 0, IBV_QPS_ERR};
constexpr Responder kRxeOperation{IBV_WC_LOC_QP_OP_ERR, 0, IBV_QPS_ERR};

constexpr int kNoWrite = kAll & ~IBV_ACCESS_REMOTE_WRITE;
constexpr int kNoRead = kAll & ~IBV_ACCESS_REMOTE_READ;
constexpr int kNoAtomic = kAll & ~IBV_ACCESS_REMOTE_ATOMIC;

constexpr auto kSend = IBV_WR_SEND;
constexpr auto kSendImm = IBV_WR_SEND_WITH_IMM;
constexpr auto kSendInv = IBV_WR_SEND_WITH_INV;
constexpr auto kWrite = IBV_WR_RDMA_WRITE;
constexpr auto kWriteImm = IBV_WR_RDMA_WRITE_WITH_IMM;
constexpr auto kRead = IBV_WR_RDMA_READ;
constexpr auto kSwap = IBV_WR_ATOMIC_CMP_AND_SWP;
constexpr auto kAdd = IBV_WR_ATOMIC_FETCH_AND_ADD;

constexpr Row kRows[] = {
    {"nothing wrong: SEND", kSend, 5000, {}, kFine, kReceived},
    {"nothing wrong: SEND with immediate", kSendImm, 5000, {}, kFine, kReceived},
    {"nothing wrong: WRITE", kWrite, 5000, {}, kFine, kUntouched},
    {"nothing wrong: WRITE with immediate", kWriteImm, 5000, {}, kFine, kReceived},
    {"nothing wrong: READ", kRead, 5000, {}, kFine, kUntouched},
    {"nothing wrong: compare and swap", kSwap, 8, {}, kFine, kUntouched},
    {"nothing wrong: fetch and add", kAdd, 8, {}, kFine, kUntouched},
    // soft-RoCE lets nobody invalidate an ordinary region; it acknowledges the request and then falls silent.
    {"nothing wrong: SEND with invalidate",
     kSendInv,
     5000,
     {},
     kFine,
     kReceived,
     &kFine,
     &kRxeInvalidRequest},

    {"WRITE, unknown rkey", kWrite, 5000, {.remote_key = Key::unknown}, kAccess, access_error()},
    {"WRITE with immediate, unknown rkey",
     kWriteImm,
     5000,
     {.remote_key = Key::unknown},
     kAccess,
     access_error()},
    {"READ, unknown rkey", kRead, 5000, {.remote_key = Key::unknown}, kAccess, access_error()},
    {"atomic, unknown rkey", kAdd, 8, {.remote_key = Key::unknown}, kAccess, access_error()},
    {"WRITE, rkey of a region that is gone",
     kWrite,
     5000,
     {.remote_key = Key::deregistered},
     kAccess,
     access_error()},
    {"READ, rkey of a region that is gone",
     kRead,
     5000,
     {.remote_key = Key::deregistered},
     kAccess,
     access_error()},
    // soft-RoCE's two keys of a region are the same number.
    {"WRITE, the lkey in place of the rkey",
     kWrite,
     5000,
     {.remote_key = Key::other_kind},
     kAccess,
     access_error(),
     &kFine,
     &kUntouched},
    {"WRITE, rkey of another PD", kWrite, 5000, {.remote_key = Key::foreign_pd}, kAccess, access_error()},
    {"READ, rkey of another PD", kRead, 5000, {.remote_key = Key::foreign_pd}, kAccess, access_error()},
    {"atomic, rkey of another PD", kSwap, 8, {.remote_key = Key::foreign_pd}, kAccess, access_error()},
    {"WRITE past the region's end", kWrite, 5000, {.remote_offset = kBuffer - 4999}, kAccess, access_error()},
    {"WRITE before the region's start", kWrite, 5000, {.remote_offset = -1}, kAccess, access_error()},
    {"READ past the region's end", kRead, 5000, {.remote_offset = kBuffer - 4999}, kAccess, access_error()},
    {"atomic past the region's end", kAdd, 8, {.remote_offset = kBuffer}, kAccess, access_error()},
    {"WRITE, region without remote write",
     kWrite,
     5000,
     {.region_access = kNoWrite},
     kAccess,
     access_error()},
    {"READ, region without remote read", kRead, 5000, {.region_access = kNoRead}, kAccess, access_error()},
    {"atomic, region without remote atomic", kAdd, 8, {.region_access = kNoAtomic}, kAccess, access_error()},
    // soft-RoCE calls an operation that the queue pair does not allow an unsupported one.
    {"WRITE, QP without remote write",
     kWrite,
     5000,
     {.qp_access = kNoWrite},
     kAccess,
     access_error(),
     &kInvalidRequest,
     &kRxeFlushed},
    {"READ, QP without remote read",
     kRead,
     5000,
     {.qp_access = kNoRead},
     kAccess,
     access_error(),
     &kInvalidRequest,
     &kRxeFlushed},
    {"atomic, QP without remote atomic",
     kSwap,
     8,
     {.qp_access = kNoAtomic},
     kAccess,
     access_error(),
     &kInvalidRequest,
     &kRxeFlushed},
    {"READ, max_dest_rd_atomic 0", kRead, 5000, {.responder_depth = 0}, kInvalidRequest, request_error()},
    {"third atomic at once, max_dest_rd_atomic 2",
     kAdd,
     8,
     {.responder_depth = 2, .ahead = 2},
     kInvalidRequest,
     request_error()},

    {"SEND, unknown lkey",
     kSend,
     5000,
     {.local_key = Key::unknown},
     protection(0x0101),
     kUntouched,
     nullptr,
     nullptr,
     &kRxeLocalKey},
    {"SEND, lkey of a region that is gone",
     kSend,
     5000,
     {.local_key = Key::deregistered},
     protection(0x0101),
     kUntouched,
     nullptr,
     nullptr,
     &kRxeLocalKey},
    {"SEND, lkey of another PD",
     kSend,
     5000,
     {.local_key = Key::foreign_pd},
     protection(0x0102),
     kUntouched,
     nullptr,
     nullptr,
     &kRxeLocalKey},
    {"SEND past the local region's end",
     kSend,
     5000,
     {.local_offset = kBuffer - 4999},
     protection(0x0103),
     kUntouched},
    {"WRITE, unknown lkey",
     kWrite,
     5000,
     {.local_key = Key::unknown},
     protection(0x0101),
     kUntouched,
     nullptr,
     nullptr,
     &kRxeLocalKey},
    {"READ, unknown lkey",
     kRead,
     5000,
     {.local_key = Key::unknown},
     protection(0x0101),
     kUntouched,
     nullptr,
     nullptr,
     &kRxeLate},
    {"READ into a region without local write",
     kRead,
     5000,
     {.local_access = 0},
     protection(0x0104),
     kUntouched,
     nullptr,
     nullptr,
     &kRxeLate},
    {"atomic, result into a region without local write",
     kAdd,
     8,
     {.local_access = 0},
     protection(0x0104),
     kUntouched,
     nullptr,
     nullptr,
     &kRxeLate},

    {"receive too small",
     kSend,
     5000,
     {.receive_length = 4999},
     kInvalidRequest,
     receive_error(IBV_WC_LOC_LEN_ERR, 0x0305),
     &kOperational,
     &kRxeOperation},
    {"receive, lkey of a region that is gone",
     kSend,
     5000,
     {.receive_key = Key::deregistered},
     kOperational,
     receive_error(IBV_WC_LOC_PROT_ERR, 0x0301),
     nullptr,
     &kRxeOperation},
    {"receive, lkey of another PD",
     kSend,
     5000,
     {.receive_key = Key::foreign_pd},
     kOperational,
     receive_error(IBV_WC_LOC_PROT_ERR, 0x0302),
     nullptr,
     &kRxeOperation},
    {"receive into a region without local write",
     kSend,
     5000,
     {.receive_access = 0},
     kOperational,
     receive_error(IBV_WC_LOC_PROT_ERR, 0x0304),
     nullptr,
     &kRxeOperation},
    {"SEND with invalidate, unknown rkey",
     kSendInv,
     5000,
     {.remote_key = Key::unknown},
     kAccess,
     receive_error(IBV_WC_MW_BIND_ERR, 0x0315),
     &kFine,
     &kRxeInvalidRequest},

    {"no receive, rnr_retry 0",
     kSend,
     5000,
     {.receive = Receive::none, .rnr_retry = 0},
     {IBV_WC_RNR_RETRY_EXC_ERR, 0x0202, IBV_QPS_ERR},
     kUntouched},
    {"no receive, rnr_retry 2",
     kSend,
     5000,
     {.receive = Receive::none, .rnr_retry = 2},
     {IBV_WC_RNR_RETRY_EXC_ERR, 0x0202, IBV_QPS_ERR},
     kUntouched},
    {"WRITE with immediate, no receive, rnr_retry 0",
     kWriteImm,
     5000,
     {.receive = Receive::none, .rnr_retry = 0},
     {IBV_WC_RNR_RETRY_EXC_ERR, 0x0202, IBV_QPS_ERR},
     kUntouched},
    {"receive posted late, rnr_retry 7", kSend, 5000, {.receive = Receive::late}, kFine, kReceived},
    {"the peer's queue pair is gone",
     kWrite,
     5000,
     {.peer_vanishes = true},
     {IBV_WC_RETRY_EXC_ERR, 0x0201, IBV_QPS_ERR},
     kUntouched},

    {"atomic at an unaligned address", kAdd, 8, {.remote_offset = 4}, refused(EINVAL), kUntouched},
};

}  // namespace

std::span<const Row> rows() { return kRows; }

}  // namespace table
