#include "transport/post_checks.h"

#include <cerrno>

#include "base/reason.h"
#include "transport/copy.h"
#include "transport/operations.h"
#include "transport/qp_state_table.h"
#include "transport/rc_shared.h"

namespace verbena::transport {
namespace {

int check_operation(Service service, const SendRequest& request) {
    const OperationRule* rule = rule_of(request.operation);
    if (!rule)
        return fail(EINVAL, "work request opcode %u does not exist",
                    static_cast<unsigned>(request.operation));
    const bool inline_data = request.flags & kInline;
    const int error = allowed(service, *rule, inline_data);
    if (error == 0) return 0;
    if (error == EOPNOTSUPP) return fail(error, "%s is not supported on %s", rule->name, to_string(service));
    if (!(rule->services & service_bit(service)))
        return fail(error, "%s has no %s", to_string(service), rule->name);
    return fail(error, "%s takes no inline data; IBV_SEND_INLINE is for SEND, RDMA WRITE and ATOMIC WRITE",
                rule->name);
}

// IBA 9.4.5: eight bytes, naturally aligned.
int check_atomic(const SendRequest& request, std::uint64_t length) {
    if (request.sges.size() != 1 || length != 8)
        return fail(EINVAL,
                    "an atomic needs one element of 8 bytes for the result; num_sge is %zu, %llu bytes",
                    request.sges.size(), static_cast<unsigned long long>(length));
    if (request.remote_address % 8 != 0)
        return fail(EINVAL, "the atomic's remote_addr 0x%llx is not a multiple of 8",
                    static_cast<unsigned long long>(request.remote_address));
    return 0;
}

// Datagrams (IBA 11.4.1.1): each names its destination.
int check_destination(const QpSetup& setup, const SendRequest& request) {
    if (!request.path) return fail(EINVAL, "wr.ud.ah is NULL: a datagram needs an address handle");
    if (request.path_pd != setup.pd)
        return fail(EINVAL, "the address handle is of another protection domain than the QP");
    if (request.remote_qp > 0xffffff)
        return fail(EINVAL, "wr.ud.remote_qpn is 0x%x; QP numbers have 24 bits", request.remote_qp);
    return 0;
}

// Annex A19.4.4: eight bytes, naturally aligned.
int check_atomic_write(const SendRequest& request, std::uint64_t length) {
    const bool has_data = !request.sges.empty() || (request.flags & kInline);  // else they are in compare_add
    if (has_data && length != 8)
        return fail(EINVAL, "an atomic write has 8 bytes, not %llu", static_cast<unsigned long long>(length));
    if (request.remote_address % 8 != 0)
        return fail(EINVAL, "the atomic write's remote_addr 0x%llx is not a multiple of 8",
                    static_cast<unsigned long long>(request.remote_address));
    return 0;
}

// Annex A19.4.2.
int check_flush(const SendRequest& request) {
    const std::uint32_t placement = request.range_access & 0xff, selectivity = request.range_access >> 8;
    if (placement == 0 || (placement & ~(kFlushGlobal | kFlushPersistent)))
        return fail(EINVAL, "flush: placement type %u does not exist", placement);
    if (selectivity > kFlushRegion)
        return fail(EINVAL, "flush: selectivity level %u does not exist", selectivity);
    if (selectivity == kFlushRange && request.range > kMaxMessage)
        return fail(EINVAL, "flush: a range of %llu bytes; at most 2^31",
                    static_cast<unsigned long long>(request.range));
    return 0;
}

// What a request of one kind only must fulfil. `length` becomes what travels or comes back.
int check_kind(const SendRequest& request, std::uint64_t& length) {
    switch (request.operation) {
        case Operation::compare_swap:
        case Operation::fetch_add:
            return check_atomic(request, length);
        case Operation::atomic_write:
            if (int error = check_atomic_write(request, length)) return error;
            length = 8;
            return 0;
        case Operation::flush:
            length = 0;
            return check_flush(request);
        case Operation::bind_window:
        case Operation::local_invalidate:
            length = 0;
            return 0;
        default:
            return 0;
    }
}

// IBA 11.2.5.1, annex A19.3.2: limited by the initiator depth.
bool needs_depth(Operation o) {
    return o == Operation::rdma_read || o == Operation::compare_swap || o == Operation::fetch_add ||
           o == Operation::flush || o == Operation::atomic_write;
}

}  // namespace

int check_send(const QpSetup& setup, const Attributes& attributes, QpState state, const SendRequest& request,
               std::uint32_t& length) {
    // IBA 10.3.1: Reset, Init and RTR refuse; SQD queues; SQE and Error flush.
    if (state == QpState::reset || state == QpState::init || state == QpState::rtr)
        return fail(EINVAL, "the QP is in %s; sending needs RTS", to_string(state));
    if (int error = check_operation(setup.service, request)) return error;
    if (setup.service == Service::ud)
        if (int error = check_destination(setup, request)) return error;
    if (request.sges.size() > setup.capabilities.max_send_sge)
        return fail(EINVAL, "num_sge is %zu; the QP was created with max_send_sge %u", request.sges.size(),
                    setup.capabilities.max_send_sge);
    std::uint64_t total = total_length(request.sges);
    if (total > kMaxMessage)
        return fail(EINVAL, "the message has %llu bytes; at most 2^31",
                    static_cast<unsigned long long>(total));
    if ((request.flags & kInline) && total > setup.capabilities.max_inline_data)
        return fail(EINVAL, "%llu bytes inline; the QP was created with max_inline_data %u",
                    static_cast<unsigned long long>(total), setup.capabilities.max_inline_data);
    if (int error = check_kind(request, total)) return error;
    if (needs_depth(request.operation) && attributes.max_rd_atomic == 0 && state != QpState::error)
        return fail(EINVAL,
                    "the QP's max_rd_atomic (initiator depth) is 0: it may send no READ, atomic, flush "
                    "or atomic write");
    length = static_cast<std::uint32_t>(total);
    return 0;
}

int check_sends(const QpSetup& setup, const Attributes& attributes, QpState state,
                std::span<const SendRequest> requests, std::uint32_t room) {
    for (const SendRequest& request : requests) {
        std::uint32_t length;
        if (int error = check_send(setup, attributes, state, request, length)) return error;
    }
    if (requests.size() > room)
        return fail(ENOMEM, "%zu requests together; the send queue has room for %u of its %u",
                    requests.size(), room, setup.capabilities.max_send_wr);
    return 0;
}

}  // namespace verbena::transport
