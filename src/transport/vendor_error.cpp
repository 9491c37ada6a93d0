#include "transport/vendor_error.h"

namespace verbena::transport {

const char* to_string(VendorError error) {
    switch (error) {
        case VendorError::none:
            return "no error";
        case VendorError::flushed:
            return "flushed: the queue pair is in the error state";
        case VendorError::send_lkey_unknown:
            return "send: no region has this lkey";
        case VendorError::send_lkey_other_pd:
            return "send: the lkey belongs to another protection domain";
        case VendorError::send_sge_out_of_bounds:
            return "send: the buffer is not inside the lkey's region";
        case VendorError::send_sge_no_access:
            return "send: the result of a READ or atomic needs a region with IBV_ACCESS_LOCAL_WRITE";
        case VendorError::send_too_long:
            return "send: a datagram is one packet, and this one is longer than the port's active MTU";
        case VendorError::send_not_mapped:
            return "send: the buffer in the on-demand region is not mapped memory, or not writable";
        case VendorError::window_unknown:
            return "the rkey names no memory window or region of the QP's protection domain";
        case VendorError::window_bound_already:
            return "bind: the type 2 window is bound; it must be invalidated first";
        case VendorError::window_same_key:
            return "bind: the window has this rkey already";
        case VendorError::bind_lkey_unknown:
            return "bind: no region of the protection domain has this lkey";
        case VendorError::bind_region_not_bindable:
            return "bind: the region lacks IBV_ACCESS_MW_BIND";
        case VendorError::bind_region_not_writable:
            return "bind: remote write or atomic needs a region with IBV_ACCESS_LOCAL_WRITE";
        case VendorError::bind_out_of_bounds:
            return "bind: the range is not inside the region";
        case VendorError::bind_empty:
            return "bind: a type 2 window of no bytes";
        case VendorError::not_invalidatable:
            return "invalidate: only a type 2 window that this QP bound, or a region's rkey";
        case VendorError::region_has_windows:
            return "invalidate: memory windows are bound to the region";
        case VendorError::acknowledge_timeout:
            return "no acknowledgement within retry_cnt repetitions";
        case VendorError::rnr_retries_exceeded:
            return "the peer had no receive posted, rnr_retry times";
        case VendorError::nak_invalid_request:
            return "the peer answered NAK invalid request";
        case VendorError::nak_remote_access:
            return "the peer answered NAK remote access error";
        case VendorError::nak_remote_operational:
            return "the peer answered NAK remote operational error";
        case VendorError::nak_invalid_rd:
            return "the peer answered NAK invalid RD request";
        case VendorError::nak_reserved_code:
            return "the peer answered a NAK with a reserved code";
        case VendorError::response_unexpected_opcode:
            return "the peer's response does not fit the request";
        case VendorError::response_wrong_length:
            return "the peer's READ response has the wrong length";
        case VendorError::receive_lkey_unknown:
            return "receive: no region has this lkey";
        case VendorError::receive_lkey_other_pd:
            return "receive: the lkey belongs to another protection domain";
        case VendorError::receive_sge_out_of_bounds:
            return "receive: the buffer is not inside the lkey's region";
        case VendorError::receive_sge_no_access:
            return "receive: the region lacks IBV_ACCESS_LOCAL_WRITE";
        case VendorError::receive_too_small:
            return "receive: the message is longer than the receive's buffers";
        case VendorError::receive_not_mapped:
            return "receive: the buffer in the on-demand region is not mapped memory, or not writable";
        case VendorError::rkey_unknown:
            return "no region has this rkey";
        case VendorError::rkey_other_pd:
            return "the rkey belongs to another protection domain than the QP";
        case VendorError::remote_range_out_of_bounds:
            return "the remote address range is outside the rkey's region";
        case VendorError::remote_no_access:
            return "the region was registered without this remote access";
        case VendorError::invalidate_failed:
            return "SEND with invalidate named an rkey that it may not invalidate";
        case VendorError::qp_no_remote_write:
            return "the QP's access flags lack IBV_ACCESS_REMOTE_WRITE";
        case VendorError::qp_no_remote_read:
            return "the QP's access flags lack IBV_ACCESS_REMOTE_READ";
        case VendorError::qp_no_remote_atomic:
            return "the QP's access flags lack IBV_ACCESS_REMOTE_ATOMIC";
        case VendorError::qp_no_flush:
            return "the QP's access flags lack IBV_ACCESS_FLUSH_GLOBAL or IBV_ACCESS_FLUSH_PERSISTENT";
        case VendorError::remote_not_mapped:
            return "the memory in the on-demand region is not mapped, or not writable";
        case VendorError::window_of_other_qp:
            return "the memory window was bound by another QP";
        case VendorError::opcode_out_of_sequence:
            return "a packet that does not continue its message";
        case VendorError::opcode_unsupported:
            return "an operation that is not supported";
        case VendorError::packet_wrong_length:
            return "a packet whose length does not fit its place and the path MTU";
        case VendorError::write_length_mismatch:
            return "a WRITE whose packets do not add up to its length";
        case VendorError::message_too_long:
            return "a message of more than 2^31 bytes";
        case VendorError::too_many_reads:
            return "more READs and atomics at once than max_dest_rd_atomic";
        case VendorError::atomic_unaligned:
            return "an atomic whose address is not a multiple of 8";
        case VendorError::flush_malformed:
            return "a FLUSH of no placement type or an unknown selectivity level";
        case VendorError::xrc_queue_unknown:
            return "a request for an XRC receive queue that does not exist";
        case VendorError::xrc_queue_other_domain:
            return "a request for a receive queue of another XRC domain";
    }
    return "?";
}

ResponderFault responder_fault(VendorError cause) {
    using completion::Status;
    using wire::NakCode;
    switch (cause) {
        // IBA 9.7.4.1.6, 9.9.3.1.6: the receive's memory is the responder's own fault.
        case VendorError::receive_lkey_unknown:
        case VendorError::receive_lkey_other_pd:
        case VendorError::receive_sge_out_of_bounds:
        case VendorError::receive_sge_no_access:
        case VendorError::receive_not_mapped:
            return {NakCode::remote_operational, Status::local_protection_error, Event::request_error};
        case VendorError::receive_too_small:
            return {NakCode::invalid_request, Status::local_length_error, Event::request_error};
        case VendorError::invalidate_failed:
            return {NakCode::remote_access, Status::memory_window_bind_error, Event::access_error};
        // IBA 9.7.4.1.3, 9.7.4.1.5: keys, bounds, rights of the region.
        case VendorError::rkey_unknown:
        case VendorError::rkey_other_pd:
        case VendorError::remote_range_out_of_bounds:
        case VendorError::remote_no_access:
        case VendorError::remote_not_mapped:
        case VendorError::window_of_other_qp:
            return {NakCode::remote_access, Status::work_request_flushed, Event::access_error};
        default:
            // IBA 9.7.4.1.1, .2, .4: the request itself is wrong, or the queue pair is not set up for it.
            return {NakCode::invalid_request, Status::work_request_flushed, Event::request_error};
    }
}

}  // namespace verbena::transport
