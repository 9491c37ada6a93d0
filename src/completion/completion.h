// Work completions (IBA 11.4.2.1), with the values of the ecosystem's headers.
#pragma once

#include <cstdint>

namespace verbena::completion {

// enum ibv_wc_status
enum class Status : std::uint8_t {
    success = 0,
    local_length_error,
    local_qp_operation_error,
    local_eec_operation_error,
    local_protection_error,
    work_request_flushed,
    memory_window_bind_error,
    bad_response,
    local_access_error,
    remote_invalid_request,
    remote_access_error,
    remote_operation_error,
    retry_exceeded,
    rnr_retry_exceeded,
    local_rdd_violation,
    remote_invalid_rd_request,
    remote_aborted,
    invalid_eec_number,
    invalid_eec_state,
    fatal_error,
    response_timeout,
    general_error,
};

// enum ibv_wc_opcode
enum class Opcode : std::uint8_t {
    send = 0,
    rdma_write,
    rdma_read,
    compare_swap,
    fetch_add,
    bind_window,
    local_invalidate,
    tso,
    flush = 8,
    atomic_write = 9,
    receive = 128,
    receive_rdma_with_immediate = 129,
};

// enum ibv_wc_flags
inline constexpr std::uint8_t kHasGrh = 1u << 0;
inline constexpr std::uint8_t kHasImmediate = 1u << 1;
inline constexpr std::uint8_t kHasInvalidatedKey = 1u << 3;

struct Completion {
    std::uint64_t wr_id = 0;
    Status status = Status::success;
    Opcode opcode = Opcode::send;
    std::uint8_t flags = 0;
    std::uint8_t service_level = 0;
    std::uint32_t vendor_error = 0;  // transport/vendor_error.h
    std::uint32_t byte_length = 0;   // receives, reads and atomics
    std::uint32_t immediate =
        0;  // as it came (network byte order), or the invalidated rkey in host byte order
    std::uint32_t qp_number = 0;
    std::uint32_t source_qp = 0;  // UD
    std::uint16_t pkey_index = 0;
    std::uint16_t source_lid = 0;
    std::uint64_t timestamp = 0;  // nanoseconds, when the completion was made
};

}  // namespace verbena::completion
