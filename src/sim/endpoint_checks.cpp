// The judge of completions: every one, in order, exactly once, with the status that the plan explains.
#include <algorithm>
#include <cstdarg>

#include "sim/endpoint.h"
#include "transport/retransmission.h"
#include "transport/vendor_error.h"

namespace verbena::sim {
namespace {

using completion::Status;
using namespace transport;

struct Consequence {
    Status status;
    VendorError vendor;
};

// What the requester sees of a mistake.
Consequence at_requester(Mistake mistake) {
    switch (mistake) {
        case Mistake::bad_lkey:
            return {Status::local_protection_error, VendorError::send_lkey_unknown};
        case Mistake::short_receive:
        case Mistake::misaligned:
        case Mistake::qp_no_access:
            return {Status::remote_invalid_request, VendorError::nak_invalid_request};
        case Mistake::bad_receive_lkey:
            return {Status::remote_operation_error, VendorError::nak_remote_operational};
        case Mistake::missing_receive:
            return {Status::rnr_retry_exceeded, VendorError::rnr_retries_exceeded};
        default:
            return {Status::remote_access_error, VendorError::nak_remote_access};
    }
}

// And the program whose receive it hits.
Consequence at_receiver(Mistake mistake) {
    switch (mistake) {
        case Mistake::short_receive:
            return {Status::local_length_error, VendorError::receive_too_small};
        case Mistake::bad_receive_lkey:
            return {Status::local_protection_error, VendorError::receive_lkey_unknown};
        case Mistake::stale_invalidate:
            return {Status::memory_window_bind_error, VendorError::invalidate_failed};
        default:
            return {Status::work_request_flushed, VendorError::flushed};
    }
}

bool breaks_responder(Mistake mistake) {
    return mistake != Mistake::none && mistake != Mistake::bad_lkey && mistake != Mistake::missing_receive;
}

completion::Opcode opcode_of(const Op& op) {
    switch (op.operation) {
        case Operation::rdma_write:
        case Operation::rdma_write_with_immediate:
            return completion::Opcode::rdma_write;
        case Operation::rdma_read:
            return completion::Opcode::rdma_read;
        case Operation::compare_swap:
            return completion::Opcode::compare_swap;
        case Operation::fetch_add:
            return completion::Opcode::fetch_add;
        default:
            return completion::Opcode::send;
    }
}

}  // namespace

void Endpoint::violation(const char* format, ...) {
    char text[400];
    va_list arguments;
    va_start(arguments, format);
    std::vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    world_.verdict.violation(world_.now(), "end %u: %s", number_, text);
}

// True if it was solicited.
bool Endpoint::completed(const completion::Completion& c) {
    if (c.qp_number != qp_->number()) violation("a completion names QP 0x%06x", c.qp_number);
    if (const auto op = op_by_id_.find(c.wr_id); op != op_by_id_.end()) {
        world_.coverage.send_statuses[static_cast<std::size_t>(c.status)]++;
        send_completed(c, op->second);
        return false;
    }
    if (const auto receive = receive_by_id_.find(c.wr_id); receive != receive_by_id_.end()) {
        world_.coverage.receive_statuses[static_cast<std::size_t>(c.status)]++;
        return receive_completed(c, receive->second);
    }
    violation("a completion with wr_id 0x%llx, which nobody posted",
              static_cast<unsigned long long>(c.wr_id));
    return false;
}

void Endpoint::send_completed(const completion::Completion& c, std::uint32_t index) {
    if (index >= posted_) return violation("request %u completes before it is posted", index);
    if (index < done_) return violation("request %u completes twice, or after a later one", index);
    const bool signaled = plan_.signal_all || (plan_.ops[index].flags & kSignaled);
    if (c.status == Status::success && !signaled)
        return violation("request %u is not signaled and has a completion", index);
    for (; done_ < index; done_++) {
        if (broken_ || plan_.signal_all || (plan_.ops[done_].flags & kSignaled))
            return violation("request %u completes, but request %u did not", index, done_);
        succeeded(done_);
    }
    done_ = index + 1;
    if (c.status != Status::success) return failed(c, index);
    if (broken_) return violation("request %u succeeds after a failed one", index);
    if (c.opcode != opcode_of(plan_.ops[index])) violation("request %u completes with a wrong opcode", index);
    if (c.vendor_error != 0) violation("request %u succeeds with vendor_err 0x%x", index, c.vendor_error);
    if ((plan_.ops[index].is_read() || plan_.ops[index].is_atomic()) &&
        c.byte_length != plan_.ops[index].length)
        violation("request %u: byte_len is %u, not %u", index, c.byte_length, plan_.ops[index].length);
    succeeded(index);
    last_success_ = static_cast<Time>(c.timestamp);
}

void Endpoint::succeeded(std::uint32_t index) {
    const Op& op = plan_.ops[index];
    ops_[index].succeeded = true;
    successes_++;
    if (op.mistake != Mistake::none)
        return violation("request %u succeeds in spite of its mistake: %s", index, to_string(op.mistake));
    check_effect(index);
}

void Endpoint::check_effect(std::uint32_t index) {
    const Op& op = plan_.ops[index];
    if (op.is_read()) check_read(index, true);
    if (op.is_atomic()) check_atomic(index);
    if (op.is_write()) check_write(index);
    if (op.is_send()) check_delivery(index);
}

void Endpoint::failed(const completion::Completion& c, std::uint32_t index) {
    const Time at = static_cast<Time>(c.timestamp);
    const auto vendor = static_cast<VendorError>(c.vendor_error);
    if (broken_) {
        if (c.status != Status::work_request_flushed || vendor != VendorError::flushed)
            violation("request %u fails with status %u after another failed; it should be flushed", index,
                      static_cast<unsigned>(c.status));
        return;
    }
    broken_ = true;
    if (qp_->state() != QpState::error)
        violation("request %u failed, but the QP is in %s", index, to_string(qp_->state()));
    const Mistake mistake = plan_.ops[index].mistake;
    const Consequence expected = at_requester(mistake);
    if (mistake == Mistake::none || mistake == Mistake::missing_receive || c.status != expected.status) {
        if (!explained(c.status, index, at))
            violation("request %u (mistake: %s) fails with status %u, vendor_err 0x%x, without a cause",
                      index, to_string(mistake), static_cast<unsigned>(c.status), c.vendor_error);
    } else if (vendor != expected.vendor) {
        violation("request %u (mistake: %s): vendor_err is 0x%x", index, to_string(mistake), c.vendor_error);
    }
}

// May a request without a mistake of its own end like that?
bool Endpoint::explained(Status status, std::uint32_t index, Time at) {
    const Attributes& a = plan_.attributes;
    const OpState& state = ops_[index];
    const std::uint32_t me = qp_->number(), other = peer_->qp_->number();
    switch (status) {
        case Status::work_request_flushed:
            // The program ended it, or the peer's request broke our responder.
            return closing_ ||
                   std::any_of(peer_->plan_.ops.begin(), peer_->plan_.ops.begin() + peer_->posted_,
                               [](const Op& op) { return breaks_responder(op.mistake); });
        case Status::retry_exceeded: {
            const Time since = std::max(state.posted_at, last_success_);
            const Duration timeout = std::max(iba_timeout(a.timeout), kAcknowledgeTimeoutFloor);
            if (a.timeout == 0 || at - since < (a.retry_count + 1) * timeout) {
                violation("request %u gives up after %lld us; retry_cnt %u, timeout %u", index,
                          static_cast<long long>((at - since) / kMicrosecond), a.retry_count, a.timeout);
                return true;
            }
            const Process& there = peer_->process_;
            // One that lives and stands still is waited for, where that is known.
            const bool waited_for = process_.plan().direct.there;
            return there.dead() || peer_->qp_->state() == QpState::error ||
                   (!waited_for && there.paused_between(since, at)) || process_.paused_between(since, at) ||
                   world_.network.partitioned(process_.plan().host, there.plan().host, since, at) ||
                   world_.watch.losses(me, other, since, at) > a.retry_count;
        }
        case Status::rnr_retry_exceeded: {
            if (a.rnr_retry == kRnrRetryForEver || state.receive == kNone) return false;
            return peer_->receives_[state.receive].posted_at > state.posted_at &&
                   world_.watch.rnr_naks(me, state.posted_at, at) > a.rnr_retry;
        }
        default:
            return false;
    }
}

// True if it was solicited.
bool Endpoint::receive_completed(const completion::Completion& c, std::uint32_t index) {
    if (index != receives_done_ || index >= receives_posted_) {
        violation("receive %u completes; the next is %u of %u", index, receives_done_, receives_posted_);
        return false;
    }
    receives_done_++;
    const std::uint32_t from = receives_[index].op;
    if (c.status != Status::success) {
        const Mistake mistake =
            from == kNone || receive_failed_ ? Mistake::none : peer_->plan_.ops[from].mistake;
        const Consequence expected = at_receiver(mistake);
        const bool flushed = c.status == Status::work_request_flushed;
        if (!flushed && c.status != expected.status)
            violation("receive %u fails with status %u", index, static_cast<unsigned>(c.status));
        else if (!flushed && c.vendor_error != static_cast<std::uint32_t>(expected.vendor))
            violation("receive %u fails with vendor_err 0x%x", index, c.vendor_error);
        if (qp_->state() != QpState::error)
            violation("receive %u failed, but the QP is in %s", index, to_string(qp_->state()));
        receive_failed_ = true;
        return false;
    }
    if (receive_failed_) violation("receive %u succeeds after a failed one", index);
    if (from == kNone || from >= peer_->posted_) {
        violation("receive %u completes, but nothing was sent for it", index);
        return false;
    }
    receive_successes_++;
    const Op& op = peer_->plan_.ops[from];
    if (op.mistake != Mistake::none) {  // and it may name what is not there
        violation("receive %u succeeds in spite of: %s", index, to_string(op.mistake));
        return false;
    }
    check_fields(c, op);
    if (op.operation == Operation::send_with_invalidate && c.immediate != victims_[from].rkey)
        violation("receive %u names invalidated rkey 0x%x", index, c.immediate);
    if (op.is_send())
        peer_->check_delivery(from);
    else
        peer_->check_write(from);
    return (op.flags & kSolicited) != 0;
}

void Endpoint::check_fields(const completion::Completion& c, const Op& op) {
    const bool immediate = op.operation == Operation::send_with_immediate ||
                           op.operation == Operation::rdma_write_with_immediate;
    const bool invalidate = op.operation == Operation::send_with_invalidate;
    const auto flags = static_cast<std::uint8_t>((immediate ? completion::kHasImmediate : 0) |
                                                 (invalidate ? completion::kHasInvalidatedKey : 0));
    const auto opcode =
        op.is_send() ? completion::Opcode::receive : completion::Opcode::receive_rdma_with_immediate;
    if (c.opcode != opcode || c.flags != flags || c.byte_length != op.length ||
        (immediate && c.immediate != op.immediate))
        violation(
            "a receive completes with opcode %u, flags %u, byte_len %u, immediate 0x%x; wanted %u, %u, %u, "
            "0x%x",
            static_cast<unsigned>(c.opcode), c.flags, c.byte_length, c.immediate,
            static_cast<unsigned>(opcode), flags, op.length, op.immediate);
}

}  // namespace verbena::sim
