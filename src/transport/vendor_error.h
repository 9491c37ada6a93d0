// The values of ibv_wc::vendor_err: which check failed. They are part of the documented interface; never
// renumber.
//
//     0x00xx  no failure of this request
//     0x01xx  requester, its own memory and counters
//     0x02xx  requester, what the responder or the wire said
//     0x03xx  responder; the table kResponderFaults says what each one causes
#pragma once

#include <cstdint>

#include "completion/completion.h"
#include "memory/regions.h"
#include "wire/packet.h"

namespace verbena::transport {

enum class VendorError : std::uint32_t {
    none = 0,
    flushed = 0x0001,  // the queue pair was in, or went to, the error state

    // A scatter/gather element of a send request. Order of memory::LookupError.
    send_lkey_unknown = 0x0101,
    send_lkey_other_pd = 0x0102,
    send_sge_out_of_bounds = 0x0103,
    send_sge_no_access = 0x0104,
    send_too_long = 0x0105,  // a datagram longer than the port's active MTU
    send_not_mapped = 0x010c,

    // Bind and local invalidate. Order of memory::WindowError.
    window_unknown = 0x0121,
    window_bound_already = 0x0122,
    window_same_key = 0x0123,
    bind_lkey_unknown = 0x0124,
    bind_region_not_bindable = 0x0125,
    bind_region_not_writable = 0x0126,
    bind_out_of_bounds = 0x0127,
    bind_empty = 0x0128,
    not_invalidatable = 0x0129,
    region_has_windows = 0x012a,

    acknowledge_timeout = 0x0201,   // retry_cnt retransmissions, each after the local ACK timeout
    rnr_retries_exceeded = 0x0202,  // rnr_retry repetitions, each refused for lack of a receive
    nak_invalid_request = 0x0211,
    nak_remote_access = 0x0212,
    nak_remote_operational = 0x0213,
    nak_invalid_rd = 0x0214,
    nak_reserved_code = 0x021f,
    response_unexpected_opcode = 0x0221,
    response_wrong_length = 0x0222,

    // A scatter element of a receive request. Order of memory::LookupError.
    receive_lkey_unknown = 0x0301,
    receive_lkey_other_pd = 0x0302,
    receive_sge_out_of_bounds = 0x0303,
    receive_sge_no_access = 0x0304,
    receive_too_small = 0x0305,
    receive_not_mapped = 0x030c,

    // The memory that a WRITE, READ or atomic names. Order of memory::LookupError.
    rkey_unknown = 0x0311,
    rkey_other_pd = 0x0312,
    remote_range_out_of_bounds = 0x0313,
    remote_no_access = 0x0314,
    invalidate_failed = 0x0315,  // SEND with invalidate: the rkey is not one that it may invalidate
    qp_no_remote_write = 0x0316,
    qp_no_remote_read = 0x0317,
    qp_no_remote_atomic = 0x0318,
    qp_no_flush = 0x0319,
    remote_not_mapped = 0x031c,
    window_of_other_qp = 0x031d,

    opcode_out_of_sequence = 0x0321,  // a middle without a first, a first inside a message
    opcode_unsupported = 0x0322,
    packet_wrong_length = 0x0323,    // a first or middle that is not the path MTU, an empty last, ...
    write_length_mismatch = 0x0324,  // the payloads do not add up to the RETH's length
    message_too_long = 0x0325,       // more than 2^31 bytes
    too_many_reads = 0x0326,         // more outstanding READs and atomics than max_dest_rd_atomic
    atomic_unaligned = 0x0327,
    flush_malformed = 0x0328,         // no placement type, or an unknown selectivity level
    xrc_queue_unknown = 0x0331,       // the XRCETH names no XRC receive queue of this process
    xrc_queue_other_domain = 0x0332,  // ... or one of another XRC domain
};

const char* to_string(VendorError error);

constexpr VendorError offset_by(VendorError first, memory::LookupError error) {
    return static_cast<VendorError>(static_cast<std::uint32_t>(first) + static_cast<std::uint32_t>(error) -
                                    1);
}

constexpr VendorError offset_by(VendorError first, memory::WindowError error) {
    return static_cast<VendorError>(static_cast<std::uint32_t>(first) + static_cast<std::uint32_t>(error) -
                                    1);
}

// The completion status of a send request that failed by an error of 0x01xx.
constexpr completion::Status local_status(VendorError error) {
    return error >= VendorError::window_unknown && error <= VendorError::region_has_windows
               ? completion::Status::memory_window_bind_error
               : completion::Status::local_protection_error;
}

// What a responder's failed check causes (IBA 9.7.4.1 and 9.9.3): the NAK; the completion of the receive
// request, if the message has one; and, if it has none, the asynchronous event. The queue pair goes to the
// error state each time.
enum class Event : std::uint8_t { request_error, access_error };
struct ResponderFault {
    wire::NakCode nak;
    completion::Status receive_status;
    Event event;
};
ResponderFault responder_fault(VendorError cause);

}  // namespace verbena::transport
