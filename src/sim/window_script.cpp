#include "sim/window_script.h"

#include "base/reason.h"

namespace verbena::sim {
namespace {

using namespace transport;
using completion::Status;

constexpr std::uint32_t kRegion = 4096, kMostWritten = 1500, kMtu = 512;

// The next part of the key that the program chooses (IBA 10.6.7.2.1).
std::uint32_t successor(std::uint32_t key) { return (key & ~0xffu) | ((key + 1) & 0xff); }

}  // namespace

WindowScript::WindowScript(Station& initiator, Station& target, std::uint64_t seed)
    : initiator_(initiator),
      target_(target),
      random_(seed),
      a_(*this),
      b_(*this),
      type1_(random_.one_in(3)),
      crime_(type1_ ? random_.pick({Crime::dead_key, Crime::beyond})
                    : random_.pick({Crime::dead_key, Crime::other_qp, Crime::beyond})),
      region_(target.arena().reserve(kRegion, 8)),
      source_(initiator.arena().reserve(kMostWritten, 8)),
      steps_left_(static_cast<unsigned>(random_.between(2, 12))) {
    a_.party = initiator_.add(a_);
    b_.party = target_.add(b_);
}

void WindowScript::violation(const char* text) {
    initiator_.world().verdict.violation(initiator_.world().now(), "window 0x%x of QP 0x%06x: %s", key_,
                                         b_.qp->number(), text);
}

void WindowScript::create() {
    memory::RegionTable& regions = target_.adapter().regions();
    if (regions.add(kStationPd, target_.arena().address(region_), kRegion, target_.address(region_),
                    memory::kLocalWrite | memory::kWindowBind, region_keys_) ||
        regions.add_window(kStationPd,
                           type1_ ? memory::RecordKind::window_type1 : memory::RecordKind::window_type2,
                           fresh_key_))
        return initiator_.world().verdict.violation(initiator_.world().now(), "no window: %s", last_reason());
    fresh_key_ = successor(fresh_key_);
    auto pair = [&](QueuePair*& a, QueuePair*& b) {
        QpSetup setup;
        setup.capabilities = {8, 8, 1, 1, 0};
        setup.receive_queue = std::make_shared<ReceiveQueue>(8, 1);
        a = initiator_.create(setup, 0);
        setup.receive_queue = std::make_shared<ReceiveQueue>(8, 1);
        b = target_.create(setup, 0);
        if (!a || !b) return;
        const std::uint32_t psn = starting_psn(random_);
        target_.connect(*b, initiator_.gid(), a->number(), kMtu, psn, psn);
        initiator_.connect(*a, target_.gid(), b->number(), kMtu, psn, psn);
    };
    pair(a_.qp, b_.qp);
    pair(a_.other_qp, b_.other_qp);
    const ReceiveRequest receive{std::uint64_t{b_.party} << 32 | 1, {}};
    std::size_t index;
    if (target_.adapter().post_receive(*b_.qp, {&receive, 1}, index, target_.world().now()))
        violation(last_reason());
    target_.process().wake(target_.world().now());
}

void WindowScript::post(End& end, QueuePair& qp, SendRequest request) {
    request.wr_id = std::uint64_t{end.party} << 32;
    posted_ = true;
    (&end == &a_ ? initiator_ : target_).post(qp, request);
}

void WindowScript::write(QueuePair& qp, std::uint32_t rkey, std::uint64_t at, std::uint32_t length) {
    data_key_ = random_.next();
    fill_pattern(data_key_, 0, initiator_.arena().actual(source_, length));
    initiator_.arena().accept(source_, length);
    const Sge sge = initiator_.sge(source_, length);
    SendRequest request;
    request.operation = Operation::rdma_write;
    request.remote_address = at;
    request.rkey = rkey;
    request.sges = {&sge, 1};
    post(a_, qp, request);
}

// The end whose step it is takes it.
bool WindowScript::turn(End& end) {
    const bool targets = step_ == Step::bind || step_ == Step::local_invalidate;
    if (posted_ || step_ == Step::over || !end.qp || (&end == &b_) != targets) return false;
    SendRequest request;
    switch (step_) {
        case Step::bind: {
            window_length_ = static_cast<std::uint32_t>(random_.between(64, 2000));
            window_offset_ = static_cast<std::uint32_t>(random_.below(kRegion - 600 - window_length_));
            const bool zero_based = random_.one_in(3);
            request.operation = Operation::bind_window;
            request.rkey = fresh_key_;
            request.immediate_or_key = region_keys_.lkey;
            request.remote_address = target_.address(region_ + window_offset_);
            request.range = window_length_;
            request.range_access = memory::kRemoteWrite | (zero_based ? memory::kZeroBased : 0);
            window_at_ = zero_based ? 0 : request.remote_address;
            post(b_, *b_.qp, request);
            return true;
        }
        case Step::write: {
            written_ = static_cast<std::uint32_t>(
                random_.between(1, std::min<std::uint32_t>(window_length_, kMostWritten)));
            const std::uint64_t offset = random_.below(window_length_ - written_ + 1);
            written_at_ = window_offset_ + static_cast<std::uint32_t>(offset);
            write(*a_.qp, key_, window_at_ + offset, written_);
            return true;
        }
        case Step::local_invalidate:
            request.operation = Operation::local_invalidate;
            request.immediate_or_key = key_;
            post(b_, *b_.qp, request);
            return true;
        case Step::remote_invalidate:
            request.operation = Operation::send_with_invalidate;
            request.immediate_or_key = key_;
            delivered_ = false;
            post(a_, *a_.qp, request);
            return true;
        case Step::forbidden:
            if (crime_ == Crime::dead_key) write(*a_.qp, dead_key_, window_at_, 32);
            if (crime_ == Crime::other_qp) write(*a_.other_qp, key_, window_at_, 32);
            if (crime_ == Crime::beyond) write(*a_.qp, key_, window_at_ + window_length_ - 8, 32);
            return true;
        case Step::over:
            break;
    }
    return false;
}

void WindowScript::invalidated() {
    bound_ = false;
    dead_key_ = key_;
}

void WindowScript::completed(End& end, const completion::Completion& c) {
    World& world = initiator_.world();
    if (static_cast<std::uint32_t>(c.wr_id) == 1) {  // the target's receive
        world.coverage.receive_statuses[static_cast<std::size_t>(c.status)]++;
        if (c.status == Status::work_request_flushed) return;
        if (c.status != Status::success || !(c.flags & completion::kHasInvalidatedKey) || c.immediate != key_)
            return violation("the SEND with invalidate arrives otherwise");
        delivered_ = true;
        const ReceiveRequest receive{c.wr_id, {}};
        std::size_t index;
        target_.adapter().post_receive(*b_.qp, {&receive, 1}, index, world.now());
        if (!posted_) next();
        return;
    }
    world.coverage.send_statuses[static_cast<std::size_t>(c.status)]++;
    if (step_ == Step::over) return;
    posted_ = false;
    if (step_ == Step::forbidden) {
        // The NAK may get lost; its sender is in the error state by then, and does not repeat it.
        if (c.status != Status::remote_access_error && c.status != Status::retry_exceeded)
            violation(crime_ == Crime::dead_key   ? "a dead key opens it"
                      : crime_ == Crime::other_qp ? "it is open to a queue pair that did not bind it"
                                                  : "it is open beyond its end");
        step_ = Step::over;
        return;
    }
    if (c.status != Status::success) {
        violation("a step fails");
        step_ = Step::over;
        return;
    }
    if (step_ == Step::write) {
        if (matching_prefix(data_key_, 0, target_.arena().actual(region_ + written_at_, written_)) !=
            written_)
            violation("a WRITE through it was not executed");
        target_.arena().accept(region_ + written_at_, written_);
    }
    if (step_ == Step::remote_invalidate && !delivered_) return;  // on the receive's completion
    if (&end == &b_ || &end == &a_) next();
}

void WindowScript::next() {
    if (step_ == Step::bind) {
        if (bound_) dead_key_ = key_;  // type 1: bound anew
        key_ = fresh_key_;
        fresh_key_ = successor(fresh_key_);
        bound_ = true;
    }
    if (step_ == Step::local_invalidate || step_ == Step::remote_invalidate) invalidated();
    if (steps_left_ > 0) steps_left_--;
    const bool wants_live = crime_ != Crime::dead_key;
    if (steps_left_ == 0 && bound_ == (wants_live || (type1_ && bound_)) && (wants_live || dead_key_ != 0)) {
        step_ = Step::forbidden;
    } else if (!bound_) {
        step_ = Step::bind;
    } else if (steps_left_ > 0 && random_.one_in(2)) {
        step_ = Step::write;
    } else if (type1_) {
        step_ = Step::bind;
    } else {
        step_ = random_.one_in(2) ? Step::local_invalidate : Step::remote_invalidate;
    }
    const bool targets = step_ == Step::bind || step_ == Step::local_invalidate;
    (targets ? target_ : initiator_).process().wake(initiator_.world().now());
}

void WindowScript::end() {
    for (QueuePair** qp : {&a_.qp, &a_.other_qp}) initiator_.destroy(*qp);
    for (QueuePair** qp : {&b_.qp, &b_.other_qp}) target_.destroy(*qp);
}

std::string WindowScript::describe() const {
    char text[120];
    std::snprintf(text, sizeof text, "window 0x%x: step %u, %u left, %s", key_, static_cast<unsigned>(step_),
                  steps_left_, posted_ ? "posted" : "not posted");
    return text;
}

}  // namespace verbena::sim
