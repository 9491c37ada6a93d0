#include "sim/pool.h"

#include "base/reason.h"

namespace verbena::sim {
namespace {

using transport::ReceiveQueue;

constexpr std::uint8_t kFiller = 0xa5;
constexpr std::uint32_t kBufferBits = 8;  // of a wr_id's lower half; above: the generation

}  // namespace

Pool::Pool(Station& station, const Plan& plan, Receiver receiver)
    : station_(station), plan_(plan), receiver_(std::move(receiver)), buffers_(plan.depth) {
    for (Buffer& buffer : buffers_) buffer.offset = station_.arena().reserve(plan_.capacity, 1);
    party_ = station_.add(*this);
    if (!plan_.shared) {
        queue_ = std::make_shared<ReceiveQueue>(plan_.depth, 2);
        return;
    }
    transport::SharedQueueSetup setup{.pd = kStationPd, .listener = this};
    setup.xrc_domain = plan_.xrc_domain;
    if (plan_.xrc_domain) setup.cq = &station_.xrc_cq().queue();
    queue_ = std::make_shared<ReceiveQueue>(plan_.depth, 2, setup);
    number_ = station_.adapter().add_shared_queue(queue_);
}

void Pool::open(transport::QueuePair* owner) {
    owner_ = owner;
    open_ = true;
    for (Buffer& buffer : buffers_) fill(buffer);
    turn();
}

void Pool::fill(Buffer& buffer) {
    const auto bytes = station_.arena().actual(buffer.offset, plan_.capacity);
    std::fill(bytes.begin(), bytes.end(), kFiller);
    station_.arena().accept(buffer.offset, plan_.capacity);
}

bool Pool::post(Buffer& buffer, std::uint32_t index) {
    buffer.wr_id = std::uint64_t{party_} << 32 | ++generation_ << kBufferBits | index;
    const auto cut = static_cast<std::uint32_t>(station_.random().below(plan_.capacity + 1));
    const transport::Sge sges[] = {station_.sge(buffer.offset, cut),
                                   station_.sge(buffer.offset + cut, plan_.capacity - cut)};
    const transport::ReceiveRequest request{buffer.wr_id, sges};
    std::size_t done = 0;
    const Time now = station_.world().now();
    const int error = plan_.shared ? station_.adapter().post_shared_receive(*queue_, {&request, 1}, done, now)
                                   : station_.adapter().post_receive(*owner_, {&request, 1}, done, now);
    if (error) station_.world().verdict.violation(now, "posting a receive failed: %s", last_reason());
    return error == 0;
}

bool Pool::turn() {
    if (!open_) return false;
    watch_limit();
    if (stopped_) return false;
    const Time now = station_.world().now();
    bool did = false;
    for (std::uint32_t i = 0; i < buffers_.size(); i++) {
        if (buffers_[i].wr_id != 0) continue;
        if (now < may_post_at_) {
            station_.process().wake(may_post_at_);
            break;
        }
        if (plan_.slow) may_post_at_ = now + station_.random().between(1, 300) * kMicrosecond;
        if (!post(buffers_[i], i)) return false;
        did = true;
    }
    if (plan_.limit && !armed_ && queue_->waiting() >= plan_.limit) {
        armed_ = true;
        queue_->arm_limit(plan_.limit);
    }
    return did;
}

void Pool::limit_reached(ReceiveQueue&) {
    World& world = station_.world();
    world.coverage.limit_events++;
    if (!armed_) world.verdict.violation(world.now(), "a receive queue's limit is reported and not armed");
    armed_ = false;
}

void Pool::watch_limit() {
    if (armed_ && queue_->waiting() < plan_.limit)
        station_.world().verdict.violation(
            station_.world().now(), "%u requests wait in a shared queue; its limit of %u was not reported",
            queue_->waiting(), plan_.limit);
}

void Pool::completed(const completion::Completion& c) {
    if (abandoned_) return;  // it completed before its queue pair ended
    World& world = station_.world();
    const auto low = static_cast<std::uint32_t>(c.wr_id);
    const std::uint32_t index = low & ((1u << kBufferBits) - 1);
    if (index >= buffers_.size() || buffers_[index].wr_id != c.wr_id)
        return world.verdict.violation(world.now(), "a receive completes that is not posted: wr_id 0x%llx",
                                       static_cast<unsigned long long>(c.wr_id));
    Buffer& buffer = buffers_[index];
    world.coverage.receive_statuses[static_cast<std::size_t>(c.status)]++;
    const std::uint64_t generation = low >> kBufferBits;
    if (!plan_.shared && generation <= last_completed_)
        world.verdict.violation(world.now(), "receives of QP 0x%06x complete out of order", c.qp_number);
    last_completed_ = generation;
    if (c.status == completion::Status::success) {
        const auto bytes = station_.arena().actual(buffer.offset, plan_.capacity);
        const std::size_t used = receiver_({c, bytes});
        for (std::size_t i = half_used_ ? bytes.size() : used; i < bytes.size(); i++)
            if (bytes[i] != kFiller) {
                world.verdict.violation(world.now(), "byte %zu of a receive was written behind its message",
                                        i);
                break;
            }
    } else if (c.status != completion::Status::work_request_flushed) {  // its message never ended
        world.verdict.violation(world.now(), "a receive fails with status %u",
                                static_cast<unsigned>(c.status));
    }
    fill(buffer);
    buffer.wr_id = 0;
}

void Pool::abandon() {
    stopped_ = abandoned_ = true;
    owner_ = nullptr;
    for (Buffer& buffer : buffers_) buffer.wr_id = 0;
}

void Pool::settle() {
    std::uint32_t posted = 0;
    for (Buffer& buffer : buffers_) {
        posted += buffer.wr_id != 0;
        station_.arena().accept(buffer.offset, plan_.capacity);
    }
    World& world = station_.world();
    const std::uint32_t expected = plan_.shared ? queue_->waiting() : 0;
    if (posted != expected)
        world.verdict.violation(world.now(), "%u receives of a %s queue have not completed, %u wait", posted,
                                plan_.shared ? "shared" : "queue pair's", expected);
}

}  // namespace verbena::sim
