#include "transport/post_checks.h"

#include <cerrno>

#include "base/reason.h"
#include "transport/copy.h"
#include "transport/rc_shared.h"

namespace verbena::transport {
namespace {

bool has_inline_form(Operation o) {
    return o == Operation::send || o == Operation::send_with_immediate ||
           o == Operation::send_with_invalidate || o == Operation::rdma_write ||
           o == Operation::rdma_write_with_immediate;
}

int check_operation(Operation operation) {
    switch (operation) {
        case Operation::rdma_write:
        case Operation::rdma_write_with_immediate:
        case Operation::send:
        case Operation::send_with_immediate:
        case Operation::send_with_invalidate:
        case Operation::rdma_read:
        case Operation::compare_swap:
        case Operation::fetch_add:
            return 0;
        case Operation::local_invalidate:
            return fail(EOPNOTSUPP, "local invalidate is not supported");
        case Operation::bind_window:
            return fail(EOPNOTSUPP, "memory windows are not supported");
        case Operation::tso:
        case Operation::driver1:
        case Operation::flush:
        case Operation::atomic_write:
            return fail(EOPNOTSUPP, "work request opcode %u is not supported on RC",
                        static_cast<unsigned>(operation));
    }
    return fail(EINVAL, "work request opcode %u does not exist", static_cast<unsigned>(operation));
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

}  // namespace

int check_rc_send(const QpSetup& setup, const Attributes& attributes, QpState state,
                  const SendRequest& request, std::uint32_t& length) {
    // IBA 10.3.1: Reset, Init and RTR refuse; SQD queues; Error flushes.
    if (state == QpState::reset || state == QpState::init || state == QpState::rtr)
        return fail(EINVAL, "the QP is in %s; sending needs RTS", to_string(state));
    if (int error = check_operation(request.operation)) return error;
    if (request.sges.size() > setup.capabilities.max_send_sge)
        return fail(EINVAL, "num_sge is %zu; the QP was created with max_send_sge %u", request.sges.size(),
                    setup.capabilities.max_send_sge);
    const std::uint64_t total = total_length(request.sges);
    if (total > kMaxMessage)
        return fail(EINVAL, "the message has %llu bytes; at most 2^31",
                    static_cast<unsigned long long>(total));
    if (request.flags & kInline) {
        if (!has_inline_form(request.operation))
            return fail(EINVAL, "IBV_SEND_INLINE is for SEND and RDMA WRITE");
        if (total > setup.capabilities.max_inline_data)
            return fail(EINVAL, "%llu bytes inline; the QP was created with max_inline_data %u",
                        static_cast<unsigned long long>(total), setup.capabilities.max_inline_data);
    }
    const bool atomic =
        request.operation == Operation::compare_swap || request.operation == Operation::fetch_add;
    if (atomic)
        if (int error = check_atomic(request, total)) return error;
    if ((atomic || request.operation == Operation::rdma_read) && attributes.max_rd_atomic == 0 &&
        state != QpState::error)
        return fail(EINVAL, "the QP's max_rd_atomic (initiator depth) is 0: it may send no READ or atomic");
    length = static_cast<std::uint32_t>(total);
    return 0;
}

}  // namespace verbena::transport
