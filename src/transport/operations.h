// The matrix of operations: which send operations each service has (IBA 9.2.1 table 35, 10.8.3), which of
// them take inline data, and which posting interface can express them. One table for the check at posting
// (post_checks.cpp), for the test that moves data through every allowed cell, and for docs/operations.md,
// which that test writes.
#pragma once

#include <cerrno>
#include <cstdint>

#include "transport/attributes.h"
#include "transport/requests.h"

namespace verbena::transport {

// Sets of services.
inline constexpr std::uint8_t kOnRc = 1u << 0;
inline constexpr std::uint8_t kOnUc = 1u << 1;
inline constexpr std::uint8_t kOnUd = 1u << 2;
inline constexpr std::uint8_t kOnXrc = 1u << 3;

constexpr std::uint8_t service_bit(Service service) {
    switch (service) {
        case Service::rc:
            return kOnRc;
        case Service::uc:
            return kOnUc;
        case Service::ud:
            return kOnUd;
        case Service::xrc_send:
            return kOnXrc;
        case Service::xrc_receive:
        case Service::raw_packet:
            break;
    }
    return 0;  // no send queue
}

// What a request is about.
enum class Form : std::uint8_t {
    message,  // data to the peer
    read,     // data from the peer
    atomic,   // eight bytes from the peer
    local,    // nothing leaves
};

struct OperationRule {
    Operation operation;
    const char* name;
    Form form;
    std::uint8_t services;  // that have it, by the specification
    bool takes_inline;
    bool in_work_request;  // struct ibv_send_wr can express it; if not, only ibv_wr_* can
};

inline constexpr std::uint8_t kReliable = kOnRc | kOnXrc;
inline constexpr std::uint8_t kConnected = kReliable | kOnUc;
inline constexpr std::uint8_t kAll = kConnected | kOnUd;

// In the order of docs/operations.md. TSO and DRIVER1 are no operations of these services.
inline constexpr OperationRule kOperations[] = {
    {Operation::send, "SEND", Form::message, kAll, true, true},
    {Operation::send_with_immediate, "SEND_IMM", Form::message, kAll, true, true},
    {Operation::send_with_invalidate, "SEND_INV", Form::message, kReliable, true, true},
    {Operation::rdma_write, "WRITE", Form::message, kConnected, true, true},
    {Operation::rdma_write_with_immediate, "WRITE_IMM", Form::message, kConnected, true, true},
    {Operation::rdma_read, "READ", Form::read, kReliable, false, true},
    {Operation::compare_swap, "CAS", Form::atomic, kReliable, false, true},
    {Operation::fetch_add, "FAA", Form::atomic, kReliable, false, true},
    {Operation::local_invalidate, "LOCAL_INV", Form::local, kConnected, false, true},
    {Operation::bind_window, "BIND_MW", Form::local, kConnected, false, true},
    {Operation::atomic_write, "ATOMIC_WRITE", Form::message, kReliable, true, true},
    {Operation::flush, "FLUSH", Form::read, kReliable, false, false},
    {Operation::tso, "TSO", Form::message, 0, false, true},
    {Operation::driver1, "DRIVER1", Form::message, 0, false, true},
};

// Of the operation with each number, which is what a post has.
struct OperationRules {
    const OperationRule* rules[16] = {};
    constexpr OperationRules() {
        for (const OperationRule& rule : kOperations) rules[static_cast<unsigned>(rule.operation)] = &rule;
    }
};
inline constexpr OperationRules kOperationRules;

// nullptr: the number is no operation.
constexpr const OperationRule* rule_of(Operation operation) {
    const auto number = static_cast<unsigned>(operation);
    return number < 16 ? kOperationRules.rules[number] : nullptr;
}

// The answer to posting the operation: 0, EINVAL for what the service does not have, EOPNOTSUPP for what none
// has.
constexpr int allowed(Service service, const OperationRule& rule, bool inline_data) {
    if (rule.services == 0) return EOPNOTSUPP;
    if (!(rule.services & service_bit(service))) return EINVAL;
    return inline_data && !rule.takes_inline ? EINVAL : 0;
}

}  // namespace verbena::transport
