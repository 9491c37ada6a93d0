// The program at one end: memory, set-up, posting.
#include "sim/endpoint.h"

#include <algorithm>
#include <cerrno>

#include "base/reason.h"

namespace verbena::sim {
namespace {

using transport::QpState;
using namespace transport;

constexpr memory::PdNumber kPd = 1, kOtherPd = 2;
constexpr std::uint64_t kSkew = 4;  // of a region's addresses against its memory's alignment
constexpr std::uint32_t kRtsMask =
    kAttrSqPsn | kAttrTimeout | kAttrRetryCount | kAttrRnrRetry | kAttrMaxQpRdAtomic;
constexpr Duration kLookAnyway = 5 * kMillisecond;
constexpr std::uint32_t kWrongKey = 0x40000000;  // makes a key's index one that no table has
constexpr memory::Access kAllRemote =
    memory::kLocalWrite | memory::kRemoteWrite | memory::kRemoteRead | memory::kRemoteAtomic;

std::uint64_t bits(const void* p) { return reinterpret_cast<std::uintptr_t>(p); }

}  // namespace

Endpoint::Endpoint(Process& process, SharedRegion& shared, EndpointPlan plan, std::uint64_t seed,
                   unsigned number)
    : process_(process),
      world_(process.world()),
      shared_(shared),
      plan_(std::move(plan)),
      random_(seed),
      number_(number),
      ops_(plan_.ops.size()),
      receives_(plan_.receives.size()) {
    for (std::uint32_t i = 0; i < ops_.size(); i++) op_by_id_[plan_.ops[i].key] = i;
    for (std::uint32_t i = 0; i < receives_.size(); i++) receive_by_id_[plan_.receives[i].wr_id] = i;
    lay_out();
    process_.add(*this);
}

Endpoint::~Endpoint() = default;

void Endpoint::cut(std::uint32_t length, std::uint32_t count, std::vector<Piece>& pieces) {
    for (std::uint32_t i = 0; i < count; i++) {
        const std::uint32_t here =
            i + 1 == count ? length : static_cast<std::uint32_t>(random_.below(std::uint64_t{length} + 1));
        pieces.push_back({arena_.reserve(here, 1, static_cast<std::uint32_t>(1 + random_.below(16))), here});
        length -= here;
    }
}

void Endpoint::lay_out() {
    target_ = arena_.reserve(plan_.target_size, 64);
    for (std::size_t i = 0; i < ops_.size(); i++) {
        const Op& op = plan_.ops[i];
        if (op.is_atomic())
            ops_[i].pieces.push_back({arena_.reserve(8, 8), 8});
        else
            cut(op.length, op.sge_count, ops_[i].pieces);
    }
    for (std::size_t i = 0; i < receives_.size(); i++)
        if (plan_.buffers && i >= plan_.buffers)
            receives_[i].pieces = receives_[i - plan_.buffers].pieces;
        else
            cut(plan_.receives[i].capacity, plan_.receives[i].sge_count, receives_[i].pieces);
    // Room for what a responder without bounds would write behind its region.
    arena_.reserve(plan_.target_size + plan_.attributes.path_mtu, 1);
    arena_.allocate(random_.next());
    const std::span<const std::uint8_t> target = arena_.actual(target_, plan_.target_size);
    target_at_first_.assign(target.begin(), target.end());
    // What will be sent lies ready; what will be read into does not matter yet.
    for (std::size_t i = 0; i < ops_.size(); i++) {
        if (plan_.ops[i].is_read() || plan_.ops[i].is_atomic()) continue;
        std::size_t offset = 0;
        for (const Piece& piece : ops_[i].pieces) {
            fill_pattern(plan_.ops[i].key, offset, arena_.actual(piece.offset, piece.length));
            fill_pattern(plan_.ops[i].key, offset, arena_.expected(piece.offset, piece.length));
            offset += piece.length;
        }
    }
}

void Endpoint::register_memory() {
    memory::RegionTable& regions = process_.adapter().regions();
    const std::uint64_t address = bits(arena_.address(target_));
    iova_ = plan_.iova_kind == 0 ? address : plan_.iova_kind == 1 ? 0 : 0x4000'0000'0000 + address % 4096;
    auto add = [&](memory::PdNumber pd, void* at, std::uint64_t length, std::uint64_t iova,
                   memory::Access access) {
        memory::Keys keys{};
        if (regions.add(pd, at, length, iova, access, keys))
            violation("registration failed: %s", last_reason());
        return keys;
    };
    std::uint8_t* target = arena_.address(target_);
    local_keys_ = add(kPd, arena_.address(0), arena_.size(), bits(arena_.address(0)), memory::kLocalWrite);
    target_keys_ = add(kPd, target, plan_.target_size, iova_, kAllRemote);
    closed_keys_ = add(kPd, target, plan_.target_size, iova_, memory::kLocalWrite);
    foreign_keys_ = add(kOtherPd, target, plan_.target_size, iova_, kAllRemote);
    skewed_keys_ = add(kPd, target, plan_.target_size, iova_ + kSkew, kAllRemote);
    for (const Op& op : peer_->plan_.ops)
        victims_.push_back(op.operation == Operation::send_with_invalidate
                               ? add(kPd, target, 8, iova_, memory::kRemoteRead)
                               : memory::Keys{});
}

void Endpoint::create(Endpoint& peer) {
    peer_ = &peer;
    register_memory();
    const std::uint32_t room = plan_.capabilities.max_send_wr + plan_.capabilities.max_receive_wr + 8;
    send_cq_ = std::make_unique<WatchedCq>(world_, room, process_.plan(), random_.next());
    if (!plan_.one_cq)
        receive_cq_ = std::make_unique<WatchedCq>(world_, room, process_.plan(), random_.next());
    QpSetup setup;
    setup.pd = kPd;
    setup.capabilities = plan_.capabilities;
    setup.signal_all = plan_.signal_all;
    setup.send_cq = &send_cq_->queue();
    setup.receive_cq = plan_.one_cq ? &send_cq_->queue() : &receive_cq_->queue();
    setup.receive_queue =
        std::make_shared<ReceiveQueue>(plan_.capabilities.max_receive_wr, plan_.capabilities.max_receive_sge);
    setup.listener = this;
    qp_ = process_.adapter().create_qp(setup, world_.now());
    if (!qp_) violation("create_qp failed: %s", last_reason());

    last_writer_.assign(peer.plan_.target_size, kNone);
    std::uint32_t receive = 0;
    for (std::uint32_t i = 0; i < ops_.size(); i++) {
        if (!plan_.ops[i].consumes_receive()) continue;
        ops_[i].receive = receive;
        peer.receives_[receive].op = i;
        receive++;
    }
}

void Endpoint::modify(QpState state, std::uint32_t mask) {
    Attributes attributes = plan_.attributes;
    attributes.state = state;
    attributes.port = 1;
    attributes.sqd_async_notify = true;
    attributes.destination_qp = peer_number_;
    const bool ipv6 = plan_.attributes.path.interface_index != 0;
    attributes.path = {};
    attributes.path.source = world_.network.gid(process_.plan().host, ipv6);
    attributes.path.destination = world_.network.gid(peer_->process_.plan().host, ipv6);
    attributes.path.udp_source_port =
        wire::udp_source_port(wire::flow_label_from_qpns(qp_->number(), peer_number_));
    if (process_.adapter().modify(*qp_, attributes, kAttrState | mask, world_.now()))
        violation("modify to %s failed: %s", to_string(state), last_reason());
    note_edge();
}

void Endpoint::connect(bool ipv6) {
    const_cast<EndpointPlan&>(plan_).attributes.path.interface_index = ipv6;
    peer_number_ = peer_->qp_->number();
    world_.watch.pair(qp_->number(), peer_number_);
    prepare_to_receive();
    world_.scheduler.after(plan_.rts_delay, [this] {
        if (process_.dead() || qp_->state() != QpState::rtr) return;
        modify(QpState::rts, kRtsMask);
        ready_to_send_ = true;
        process_.wake(world_.now());
    });
    process_.wake(world_.now());
}

void Endpoint::note_edge() {
    if (qp_->state() == last_state_) return;
    world_.coverage.edges[static_cast<std::size_t>(last_state_)][static_cast<std::size_t>(qp_->state())]++;
    last_state_ = qp_->state();
}

// ERR -> RESET, and once more to RTS: nothing is left of the first life, and query returns what modify set.
void Endpoint::live_again() {
    modify(QpState::reset, 0);
    Attributes got;
    process_.adapter().query(*qp_, got);
    if (got.state != QpState::reset || got.destination_qp != 0 || got.sq_psn != 0)
        violation("after RESET the QP still has its attributes");
    prepare_to_receive();
    modify(QpState::rts, kRtsMask);
    process_.adapter().query(*qp_, got);
    const Attributes& set = plan_.attributes;
    if (got.state != QpState::rts || got.sq_psn != set.sq_psn || got.rq_psn != set.rq_psn ||
        got.path_mtu != set.path_mtu || got.timeout != set.timeout || got.retry_count != set.retry_count ||
        got.rnr_retry != set.rnr_retry || got.min_rnr_timer != set.min_rnr_timer ||
        got.max_rd_atomic != set.max_rd_atomic || got.access != set.access ||
        got.max_destination_rd_atomic != set.max_destination_rd_atomic || got.destination_qp != peer_number_)
        violation("query does not return what modify has set");
    if (send_cq_->queue().waiting() || (receive_cq_ && receive_cq_->queue().waiting()))
        violation("completions of the first life after RESET");
}

void Endpoint::prepare_to_receive() {
    modify(QpState::init, kAttrPkeyIndex | kAttrPort | kAttrAccessFlags);
    modify(QpState::rtr,
           kAttrAv | kAttrPathMtu | kAttrDestQpn | kAttrRqPsn | kAttrMaxDestRdAtomic | kAttrMinRnrTimer);
}

void Endpoint::qp_event(QueuePair&, QpEvent event) {
    world_.coverage.qp_events[static_cast<std::size_t>(event)]++;
    if (event == QpEvent::send_queue_drained) drained_ = true;
}

bool Endpoint::turn() {
    if (!qp_) return false;
    bool did = look_at_queues();
    note_edge();
    did |= post_receives();
    did |= drain();
    did |= post_sends();
    return did;
}

bool Endpoint::look_at_queues() {
    auto take = [this](const completion::Completion& c) { return completed(c); };
    const Time now = world_.now();
    // Who waits for events looks now and then all the same; an event that is missing shows then.
    const bool force = now >= look_at_;
    if (force) look_at_ = kNever;
    bool did = send_cq_->look(take, force);
    if (receive_cq_) did |= receive_cq_->look(take, force);
    const bool waiting =
        send_cq_->queue().waiting() > 0 || (receive_cq_ && receive_cq_->queue().waiting() > 0);
    if (waiting && look_at_ == kNever) look_at_ = now + kLookAnyway;
    if (waiting) process_.wake(look_at_);
    return did;
}

bool Endpoint::post_receives() {
    bool did = false;
    while (receives_posted_ < receives_.size() && receives_posted_ - receives_done_ < plan_.receive_depth) {
        const ReceivePlan& planned = plan_.receives[receives_posted_];
        // The receives behind one that is never posted would take its place.
        if (planned.mistake == Mistake::missing_receive && !closing_ && qp_->state() != QpState::error) break;
        if (world_.now() < may_receive_at_) {
            process_.wake(may_receive_at_);
            break;
        }
        if (plan_.receive_delay) may_receive_at_ = world_.now() + random_.between(0, plan_.receive_delay);
        ReceiveState& state = receives_[receives_posted_];
        std::vector<Sge> sges;
        for (const Piece& piece : state.pieces) {
            Sge sge{bits(arena_.address(piece.offset)), piece.length, local_keys_.lkey};
            if (planned.mistake == Mistake::bad_receive_lkey) sge.lkey ^= kWrongKey;
            sges.push_back(sge);
        }
        if (planned.mistake == Mistake::short_receive) {
            // One byte less than the message.
            std::uint32_t left = peer_->plan_.ops[state.op].length - 1;
            for (Sge& sge : sges) {
                sge.length = std::min(sge.length, left);
                left -= sge.length;
            }
        }
        const ReceiveRequest request{planned.wr_id, sges};
        std::size_t index = 0;
        state.posted_at = world_.now();
        receives_posted_++;
        if (process_.adapter().post_receive(*qp_, {&request, 1}, index, world_.now()))
            violation("post_receive failed: %s", last_reason());
        did = true;
    }
    return did;
}

bool Endpoint::post_sends() {
    if (!ready_to_send_ || draining_) return false;
    bool did = false;
    while (posted_ < ops_.size() && posted_ - done_ < plan_.capabilities.max_send_wr) {
        if ((broken_ || closing_) && posts_when_broken_ == 0) break;
        if (plan_.drains && !drain_done_ && posted_ == plan_.drain_before) break;
        if (world_.now() < may_post_at_) {
            process_.wake(may_post_at_);
            break;
        }
        if (broken_ || closing_) posts_when_broken_--;
        if (plan_.think) may_post_at_ = world_.now() + random_.between(plan_.think / 2, plan_.think);
        std::uint32_t most = std::min(static_cast<std::uint32_t>(ops_.size()) - posted_,
                                      plan_.capabilities.max_send_wr - (posted_ - done_));
        if (plan_.drains && !drain_done_) most = std::min(most, plan_.drain_before - posted_);
        if (post_batch(std::min(most, plan_.batch)) == 0) break;
        did = true;
    }
    return did;
}

std::uint32_t Endpoint::post_batch(std::uint32_t count) {
    std::vector<SendRequest> requests(count);
    std::vector<std::vector<Sge>> sges(count);
    for (std::uint32_t i = 0; i < count; i++) {
        build(posted_ + i, requests[i], sges[i]);
        ops_[posted_ + i].posted_at = world_.now();
        will_execute(posted_ + i);
    }
    const std::uint32_t first = posted_;
    posted_ += count;
    std::size_t index = 0;
    if (process_.adapter().post_send(qp_->number(), requests, index, world_.now())) {
        violation("post_send of request %zu failed: %s", first + index, last_reason());
        return 0;
    }
    // Inline data was copied: its buffer is the program's again.
    for (std::uint32_t i = first; i < posted_; i++) {
        if (!(plan_.ops[i].flags & kInline)) continue;
        for (const Piece& piece : ops_[i].pieces) {
            fill_pattern(~plan_.ops[i].key, 0, arena_.actual(piece.offset, piece.length));
            arena_.accept(piece.offset, piece.length);
        }
    }
    return count;
}

void Endpoint::build(std::uint32_t index, SendRequest& request, std::vector<Sge>& sges) {
    const Op& op = plan_.ops[index];
    for (const Piece& piece : ops_[index].pieces) {
        Sge sge{bits(arena_.address(piece.offset)), piece.length, local_keys_.lkey};
        if (op.flags & kInline) sge.lkey = 0xdeadbeef;
        if (op.mistake == Mistake::bad_lkey) sge.lkey ^= kWrongKey;
        sges.push_back(sge);
    }
    request.wr_id = op.key;
    request.operation = op.operation;
    request.flags = op.flags;
    request.sges = sges;
    request.compare_add = op.compare_add;
    request.swap = op.swap;
    request.immediate_or_key = op.immediate;
    if (op.operation == Operation::send_with_invalidate)
        request.immediate_or_key = op.mistake == Mistake::stale_invalidate
                                       ? peer_->victims_[index].rkey ^ kWrongKey
                                       : peer_->victims_[index].rkey;
    request.remote_address = peer_->iova_ + op.remote_offset;
    request.rkey = peer_->target_keys_.rkey;
    if (op.mistake == Mistake::bad_rkey) request.rkey ^= kWrongKey;
    if (op.mistake == Mistake::wrong_pd) request.rkey = peer_->foreign_keys_.rkey;
    if (op.mistake == Mistake::misaligned) request.rkey = peer_->skewed_keys_.rkey;
    if (op.mistake == Mistake::no_access) request.rkey = peer_->closed_keys_.rkey;
    if (op.shared_word) {
        request.remote_address = bits(&peer_->shared_.words[op.shared_word - 1]);
        request.rkey = peer_->shared_.keys.rkey;
    }
    ops_[index].rkey = request.rkey;
}

// RTS -> SQD, all that was begun completes, the event, SQD -> RTS (IBA 10.3.1.5).
bool Endpoint::drain() {
    if (!plan_.drains || drain_done_ || posted_ != plan_.drain_before || !ready_to_send_) return false;
    if (broken_ || closing_ || qp_->state() == QpState::error) {
        drain_done_ = true;
        draining_ = false;
        return true;
    }
    if (!draining_) {
        draining_ = true;
        drained_ = false;
        modify(QpState::sqd, kAttrSqdAsyncNotify);
        return true;
    }
    if (!drained_) return false;
    modify(QpState::rts, 0);
    draining_ = false;
    drain_done_ = true;
    return true;
}

bool Endpoint::idle() const {
    if (process_.dead()) return true;
    if (done_ != posted_) return false;
    return posted_ == ops_.size() || ((broken_ || closing_) && posts_when_broken_ == 0) ||
           (closing_ && !ready_to_send_);
}

void Endpoint::close() {
    if (process_.dead() || closing_) return;
    closing_ = true;
    if (qp_->state() != QpState::error) modify(QpState::error, 0);
    process_.wake(world_.now());
}

std::string Endpoint::describe() const {
    char text[240];
    std::snprintf(
        text, sizeof text,
        "end %u (QP 0x%06x, %s%s): %u of %zu requests posted, %u done; %u of %zu receives posted, %u done",
        number_, qp_ ? qp_->number() : 0, qp_ ? to_string(qp_->state()) : "destroyed",
        process_.dead() ? ", dead" : "", posted_, ops_.size(), done_, receives_posted_, receives_.size(),
        receives_done_);
    return text;
}

}  // namespace verbena::sim
