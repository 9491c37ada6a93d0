// Work requests as the transport takes them, with the values of the ecosystem's headers.
#pragma once

#include <cstdint>
#include <span>

#include "completion/completion.h"
#include "wire/path.h"

namespace verbena::transport {

// Layout of struct ibv_sge.
struct Sge {
    std::uint64_t address;
    std::uint32_t length;
    std::uint32_t lkey;
};

// enum ibv_wr_opcode
enum class Operation : std::uint8_t {
    rdma_write = 0,
    rdma_write_with_immediate,
    send,
    send_with_immediate,
    rdma_read,
    compare_swap,
    fetch_add,
    local_invalidate,
    bind_window,
    send_with_invalidate,
    tso,
    driver1,
    flush = 14,
    atomic_write = 15,
};

// enum ibv_send_flags
inline constexpr std::uint32_t kFence = 1u << 0;
inline constexpr std::uint32_t kSignaled = 1u << 1;
inline constexpr std::uint32_t kSolicited = 1u << 2;
inline constexpr std::uint32_t kInline = 1u << 3;

// How a FLUSH comes as one number: the placement type in bits 7..0 (enum ibv_placement_type), the selectivity
// level above (enum ibv_selectivity_level).
constexpr std::uint32_t flush_kind(std::uint32_t placement, std::uint32_t selectivity) {
    return (placement & 0xff) | selectivity << 8;
}
inline constexpr std::uint32_t kFlushGlobal = 1, kFlushPersistent = 2;  // placement types
inline constexpr std::uint32_t kFlushRange = 0, kFlushRegion = 1;       // selectivity levels

constexpr completion::Opcode completion_opcode(Operation operation) {
    switch (operation) {
        case Operation::rdma_write:
        case Operation::rdma_write_with_immediate:
            return completion::Opcode::rdma_write;
        case Operation::rdma_read:
            return completion::Opcode::rdma_read;
        case Operation::compare_swap:
            return completion::Opcode::compare_swap;
        case Operation::fetch_add:
            return completion::Opcode::fetch_add;
        case Operation::bind_window:
            return completion::Opcode::bind_window;
        case Operation::local_invalidate:
            return completion::Opcode::local_invalidate;
        case Operation::flush:
            return completion::Opcode::flush;
        case Operation::atomic_write:
            return completion::Opcode::atomic_write;
        default:
            return completion::Opcode::send;
    }
}

struct SendRequest {
    std::uint64_t wr_id = 0;
    Operation operation = Operation::send;
    std::uint32_t flags = 0;
    // Immediate as it goes on the wire; the rkey to invalidate (host order); or, of a bind, the lkey of the
    // region.
    std::uint32_t immediate_or_key = 0;
    std::uint64_t remote_address = 0;  // or, of a bind, the first byte of the range
    std::uint32_t rkey = 0;            // or, of a bind, the window with its new key
    std::uint64_t compare_add = 0;     // or the eight bytes of an atomic write without elements, as in memory
    std::uint64_t swap = 0;
    std::uint64_t range = 0;         // bytes that a bind or a FLUSH means
    std::uint32_t range_access = 0;  // bind: memory::Access; FLUSH: flush_kind()
    std::span<const Sge> sges;       // with kInline: addresses are read during the post, lkeys ignored

    // Datagram services.
    const wire::Path* path = nullptr;  // of the address handle; copied
    std::uint32_t path_pd = 0;         // the address handle's protection domain
    std::uint32_t remote_qp = 0;
    std::uint32_t remote_qkey = 0;
    std::uint32_t remote_srq = 0;  // XRC

    // A SEND, WRITE or READ, with an immediate or without.
    bool is_plain() const { return operation <= Operation::rdma_read; }
    // The link may execute it.
    bool is_one_sided() const {
        return operation == Operation::rdma_write || operation == Operation::rdma_read;
    }
    bool is_atomic() const {
        return operation == Operation::compare_swap || operation == Operation::fetch_add;
    }
};

struct ReceiveRequest {
    std::uint64_t wr_id = 0;
    std::span<const Sge> sges;
};

}  // namespace verbena::transport
