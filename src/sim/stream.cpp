#include "sim/stream.h"

#include <cstdarg>

#include "base/reason.h"
#include "transport/qp_state_table.h"

namespace verbena::sim {
namespace {

using namespace transport;
using completion::Status;

bool is_send(Operation o) {
    return o == Operation::send || o == Operation::send_with_immediate ||
           o == Operation::send_with_invalidate;
}
bool is_write(Operation o) {
    return o == Operation::rdma_write || o == Operation::rdma_write_with_immediate ||
           o == Operation::atomic_write;
}
bool is_atomic(Operation o) { return o == Operation::compare_swap || o == Operation::fetch_add; }
bool consumes_receive(Operation o) { return is_send(o) || o == Operation::rdma_write_with_immediate; }

std::uint64_t first_word(std::uint64_t key) {
    std::uint8_t bytes[8];
    fill_pattern(key, 0, bytes);
    std::uint64_t word;
    std::memcpy(&word, bytes, sizeof word);
    return word;
}

}  // namespace

Stream::Stream(Station& from, Station& to, StreamPlan plan, std::uint64_t seed)
    : from_(from), to_(to), plan_(std::move(plan)), random_(seed) {
    for (std::uint32_t i = 0; i < plan_.messages.size(); i++) {
        Message& m = plan_.messages[i];
        m.source = from_.arena().reserve(m.length, 8);
        if (!is_send(m.operation)) m.slot = to_.arena().reserve(m.length, 8);
        // The immediate must name the message, too.
        do m.key = random_.next();
        while (!by_word_.emplace(first_word(m.key), i).second ||
               !by_word_.emplace(m.key & 0xffffffff, i).second);
    }
    party_ = from_.add(*this);
}

void Stream::violation(const char* format, ...) {
    char text[300];
    va_list arguments;
    va_start(arguments, format);
    std::vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    from_.world().verdict.violation(from_.world().now(), "%s QP 0x%06x -> 0x%06x: %s",
                                    transport::to_string(plan_.service), sender_number_, receiver_number_,
                                    text);
}

void Stream::create() {
    for (Message& m : plan_.messages) {
        if (is_send(m.operation) || is_write(m.operation)) {
            fill_pattern(m.key, 0, from_.arena().actual(m.source, m.length));
            from_.arena().accept(m.source, m.length);
        }
        if (m.operation == Operation::send_with_invalidate &&
            to_.adapter().regions().add(kStationPd, to_.arena().address(0), 8, to_.address(0),
                                        memory::kRemoteRead, m.victim))
            violation("registration failed: %s", last_reason());
        if (is_atomic(m.operation)) std::memcpy(&m.before, to_.arena().address(m.slot), sizeof m.before);
    }
    QpSetup setup;
    setup.service = plan_.service;
    setup.capabilities = {plan_.depth, 1, 1, 2, 64};
    setup.port_mtu = 1024;
    setup.block_own_multicast = plan_.block_own;
    if (plan_.service != Service::xrc_send) setup.receive_queue = std::make_shared<ReceiveQueue>(1, 1);
    if (senders_queue_) {
        setup.receive_queue = senders_queue_->queue();
        setup.shared_receive_queue = true;
    }
    sender_ = from_.create(setup, kStreamQkey);
    if (plan_.service == Service::xrc_send) {
        setup.service = Service::xrc_receive;
        setup.xrc_domain = 1;
        setup.capabilities = {};
    } else {
        setup.receive_queue = queues_[0]->queue();
        setup.shared_receive_queue = queues_[0]->shared();
    }
    setup.block_own_multicast = false;
    receiver_ = to_.create(setup, kStreamQkey);
    if (!sender_ || !receiver_) return;
    sender_number_ = sender_->number();
    receiver_number_ = receiver_->number();
}

void Stream::connect() {
    const std::uint32_t psn = starting_psn(random_), other = starting_psn(random_);
    to_.connect(*receiver_, from_.gid(), sender_number_, plan_.mtu, other, psn);
    from_.connect(*sender_, to_.gid(), receiver_number_, plan_.mtu, psn, other);
    path_.source = group_path_.source = from_.gid();
    path_.destination = to_.gid();
    group_path_.destination = group_;
    path_.udp_source_port = group_path_.udp_source_port = 0;
    from_.world().scheduler.at(plan_.start, [this] { from_.process().wake(plan_.start); });
    if (plan_.abandoned_after)
        from_.world().scheduler.at(plan_.start + plan_.abandoned_after, [this] { abandon(); });
}

bool Stream::turn() {
    const Time now = from_.world().now();
    if (now < plan_.start || ended_ || abandoned_ || failed_) return false;
    bool did = false;
    while (posted_ < plan_.messages.size() && posted_ - done_ < plan_.depth) {
        if (now < may_post_at_) {
            from_.process().wake(may_post_at_);
            break;
        }
        if (plan_.think) may_post_at_ = now + random_.between(0, plan_.think);
        SendRequest request;
        Sge sge;
        build(posted_, request, sge);
        plan_.messages[posted_++].posted_at = now;
        from_.post(*sender_, request);
        did = true;
    }
    return did;
}

void Stream::build(std::uint32_t index, SendRequest& request, Sge& sge) {
    Message& m = plan_.messages[index];
    sge = from_.sge(m.source, m.length);
    request.wr_id = std::uint64_t{party_} << 32 | index;
    request.operation = m.operation;
    request.flags = m.flags;
    if (m.operation != Operation::flush) request.sges = {&sge, 1};
    request.immediate_or_key =
        m.operation == Operation::send_with_invalidate ? m.victim.rkey : static_cast<std::uint32_t>(m.key);
    request.remote_address = to_.address(m.slot);
    request.rkey = to_.keys().rkey;
    request.compare_add = m.operation == Operation::compare_swap ? m.before : m.key;
    request.swap = ~m.key;
    request.range = m.length;
    request.range_access = flush_kind(kFlushGlobal, kFlushRange);
    if (plan_.service == Service::xrc_send) request.remote_srq = queues_[m.queue]->number();
    if (plan_.service != Service::ud) return;
    request.path = m.to_group ? &group_path_ : &path_;
    request.path_pd = kStationPd;
    request.remote_qp = m.to_group ? 0xffffff : receiver_number_;
    request.remote_qkey = m.forbidden ? kStreamQkey + 1 : kStreamQkey;
}

void Stream::completed(const completion::Completion& c) {
    const auto index = static_cast<std::uint32_t>(c.wr_id);
    from_.world().coverage.send_statuses[static_cast<std::size_t>(c.status)]++;
    if (abandoned_) return;
    if (index != done_ || index >= posted_) return violation("request %u completes, not %u", index, done_);
    done_++;
    Message& m = plan_.messages[index];
    if (c.status == Status::work_request_flushed && (ended_ || failed_)) return;
    // The NAK of a forbidden request may get lost; its sender is in the error state by then, and repeats
    // neither it nor the acknowledgements of the requests before.
    const bool nak_lost = c.status == Status::retry_exceeded && plan_.messages.back().forbidden &&
                          posted_ == plan_.messages.size();
    if (plan_.service == Service::xrc_send && (m.forbidden || nak_lost)) {
        failed_ = true;
        if (c.status != Status::remote_invalid_request && !nak_lost)
            violation("a request to a queue of another XRC domain completes with status %u",
                      static_cast<unsigned>(c.status));
        return;
    }
    if (c.status != Status::success) {
        failed_ = true;
        return violation("request %u fails with status %u, vendor error %u", index,
                         static_cast<unsigned>(c.status), c.vendor_error);
    }
    m.completed = true;
    if (reliable()) check_result(m);
}

// A reliable request that completed has had its effect.
void Stream::check_result(Message& m) {
    std::uint8_t* slot = to_.arena().address(m.slot);
    if (is_write(m.operation) && matching_prefix(m.key, 0, {slot, m.length}) != m.length)
        violation("a WRITE of %u bytes has completed and was not executed", m.length);
    if (m.operation == Operation::rdma_read &&
        std::memcmp(from_.arena().address(m.source), slot, m.length) != 0)
        violation("a READ brought other bytes than lie there");
    if (is_atomic(m.operation)) {
        std::uint64_t result, there;
        std::memcpy(&result, from_.arena().address(m.source), 8);
        std::memcpy(&there, slot, 8);
        const std::uint64_t wanted = m.operation == Operation::fetch_add ? m.before + m.key : ~m.key;
        if (result != m.before || there != wanted) violation("an atomic was not executed once");
    }
    if (m.operation == Operation::rdma_read || is_atomic(m.operation))
        from_.arena().accept(m.source, m.length);
    if (!is_send(m.operation) && m.operation != Operation::rdma_read) to_.arena().accept(m.slot, m.length);
}

std::uint32_t Stream::index_of(std::uint64_t word, bool& found) const {
    const auto it = by_word_.find(word);
    found = it != by_word_.end();
    return found ? it->second : 0;
}

const Stream::Membership* Stream::membership(std::uint32_t number) const {
    if (number == receiver_number_) return &member_;
    return number == sender_number_ ? &own_member_ : nullptr;
}

std::size_t Stream::delivered(std::uint32_t index, Station& station, std::uint32_t receiver_qp,
                              const Delivery& d) {
    Message& m = plan_.messages[index];
    const completion::Completion& c = d.completion;
    const std::size_t grh = plan_.service == Service::ud ? 40 : 0;
    if (index >= posted_) violation("message %u arrives before it was posted", index);
    if (m.forbidden) violation("message %u arrives, which must not", index);
    if (!m.to_group && receiver_qp != receiver_number_) violation("a message reaches QP 0x%06x", receiver_qp);
    if (c.byte_length != m.length + grh)
        violation("message %u of %u bytes arrives with %u", index, m.length, c.byte_length);
    if (((c.flags & completion::kHasImmediate) != 0) != (m.operation == Operation::send_with_immediate ||
                                                         m.operation == Operation::rdma_write_with_immediate))
        violation("message %u: the completion's flags are 0x%x", index, c.flags);
    if ((c.flags & completion::kHasImmediate) && c.immediate != static_cast<std::uint32_t>(m.key))
        violation("message %u: another immediate", index);
    if (plan_.block_own && receiver_qp == sender_number_) violation("what was sent to a group comes back");
    const unsigned times = ++m.delivered[receiver_qp];
    if (times > (plan_.doubles && !reliable() ? 2u : 1u))
        violation("message %u arrives %u times at QP 0x%06x", index, times, receiver_qp);
    if (plan_.service != Service::ud && (reliable() || (!plan_.faulty_order && !plan_.doubles))) {
        if (static_cast<std::int64_t>(index) <= last_delivered_)
            violation("message %u arrives behind message %lld", index,
                      static_cast<long long>(last_delivered_));
        last_delivered_ = index;
    }
    if (m.operation == Operation::rdma_write_with_immediate) {
        if (matching_prefix(m.key, 0, to_.arena().actual(m.slot, m.length)) != m.length)
            violation("a WRITE with immediate arrives before all its data");
        return plan_.service == Service::uc ? d.buffer.size() : 0;
    }
    if (c.byte_length > d.buffer.size() ||
        matching_prefix(m.key, 0, d.buffer.subspan(grh, m.length)) != m.length)
        violation("message %u arrives with wrong bytes", index);
    if (grh) {
        const Gid& destination = m.to_group ? group_ : station.gid();
        if (!(c.flags & completion::kHasGrh) || c.source_qp != sender_number_ ||
            std::memcmp(d.buffer.data() + 32, from_.gid().bytes.data() + 12, 4) != 0 ||
            std::memcmp(d.buffer.data() + 36, destination.bytes.data() + 12, 4) != 0)
            violation("message %u: its GRH or source is another's", index);
    }
    // A receive of UC may have served a message that was lost, and was longer.
    return plan_.service == Service::uc ? d.buffer.size() : c.byte_length;
}

void Stream::join() {
    if (abandoned_ || ended_ || member_.from != kNever) return;
    if (to_.adapter().attach(*receiver_, group_, 0)) violation("attach failed: %s", last_reason());
    member_.from = to_.world().now();
    if (!senders_queue_) return;
    if (from_.adapter().attach(*sender_, group_, 0)) violation("attach failed: %s", last_reason());
    own_member_.from = member_.from;
}

void Stream::leave() {
    if (abandoned_ || ended_ || member_.from == kNever || member_.until != kNever) return;
    if (to_.adapter().detach(*receiver_, group_, 0)) violation("detach failed: %s", last_reason());
    member_.until = to_.world().now();
}

void Stream::settle_member(std::uint32_t number) {
    for (std::uint32_t i = 0; i < posted_; i++) {
        Message& m = plan_.messages[i];
        const bool own = number == sender_number_ && plan_.block_own;
        if (m.to_group && m.completed && !m.forbidden && !own && m.delivered[number] == 0)
            violation("message %u did not reach QP 0x%06x, a member of its group", i, number);
    }
}

void Stream::end() {
    if (abandoned_) return;
    ended_ = true;
    from_.fail(*sender_);
    to_.fail(*receiver_);
    const unsigned wanted = plan_.service != Service::xrc_send && queues_[0]->shared() ? 1 : 0;
    if (to_.last_wqe_events(receiver_number_) != wanted)
        violation("%u events of the last request of a shared queue, not %u",
                  to_.last_wqe_events(receiver_number_), wanted);
}

void Stream::abandon() {
    if (abandoned_ || ended_) return;
    abandoned_ = true;
    for (Pool* queue : queues_) queue->may_be_half_used();
    from_.destroy(sender_);
    to_.destroy(receiver_);
    if (plan_.service != Service::xrc_send && !queues_[0]->shared()) queues_[0]->abandon();
    from_.process().wake(from_.world().now());
}

void Stream::destroy() {
    if (abandoned_) return;
    from_.destroy(sender_);
    to_.destroy(receiver_);
}

void Stream::settle() {
    for (std::uint32_t i = 0; i < posted_; i++) {
        Message& m = plan_.messages[i];
        const bool expected = m.completed && !m.forbidden && consumes_receive(m.operation) && !m.to_group &&
                              (reliable() || plan_.lossless);
        if (expected && m.delivered[receiver_number_] == 0) violation("message %u did not arrive", i);
        settle_slot(m);
    }
}

void Stream::settle_slot(Message& m) {
    if (is_send(m.operation) || m.forbidden || (reliable() && m.completed)) return;
    if (m.operation == Operation::rdma_read || is_atomic(m.operation)) {
        from_.arena().accept(m.source, m.length);
        if (is_atomic(m.operation)) to_.arena().accept(m.slot, m.length);
        return;
    }
    if (!is_write(m.operation)) return;
    // A prefix may be there.
    const std::size_t written = matching_prefix(m.key, 0, to_.arena().actual(m.slot, m.length));
    if (plan_.lossless && written != m.length) violation("a WRITE did not arrive, and nothing was lost");
    to_.arena().accept(m.slot, static_cast<std::uint32_t>(written));
}

std::string Stream::describe() const {
    char text[200];
    std::snprintf(text, sizeof text, "%s 0x%06x -> 0x%06x: %u of %zu posted, %u done%s%s, receiver in %s",
                  transport::to_string(plan_.service), sender_number_, receiver_number_, posted_,
                  plan_.messages.size(), done_, failed_ ? ", failed" : "", abandoned_ ? ", abandoned" : "",
                  receiver_ ? transport::to_string(receiver_->state()) : "nothing");
    return text;
}

}  // namespace verbena::sim
