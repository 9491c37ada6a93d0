// How much may be in flight: a window in bytes for each receive queue that packets go to, because that
// queue's buffer is what overflows and nobody advertises its size. All queue pairs of the process that send
// there share it. It starts small, doubles per round trip, grows by a packet per round trip after the first
// loss, and halves at a loss, once for all that was in flight then.
//
// A queue pair that finds the window closed, or others waiting, waits for its turn by number; the adapter,
// which knows the queue pairs, lets them send in that order while the window is open (adapter/outgoing.cpp).
//
// Nobody may miss his turn: who lines up looks at what is in flight after it, and who opens the window looks
// at the line after it; these two are sequentially consistent, so that one of them sees the other.
//
// Thread safety: Flow and FlowTable, all calls; nothing but the waiting is under a lock, and counts that two
// threads change at once may be off by a packet. FlowShare: the queue pair's lock.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "base/fifo.h"
#include "base/gid.h"
#include "base/others.h"
#include "transport/wave.h"

namespace verbena::transport {

class Flow {
   public:
    static constexpr std::uint32_t kInitialWindow = 64 * 1024;
    static constexpr std::uint32_t kMinimumWindow = 8 * 1024;
    static constexpr std::uint32_t kMaximumWindow = 512 * 1024;
    // What a packet costs a receiver's socket beyond its payload.
    static constexpr std::uint32_t kPacketOverhead = 512;

    std::uint32_t window() const { return window_.load(std::memory_order_relaxed); }
    std::uint32_t in_flight() const {
        others_act();
        return in_flight_.load();
    }

    // One packet may always be in flight, however large.
    bool allows(std::uint32_t cost) const {
        const std::uint32_t flight = in_flight();
        return flight == 0 || flight + cost <= window();
    }

    void sent(std::uint32_t cost) { in_flight_.fetch_add(cost, std::memory_order_relaxed); }
    // It arrived. A window that is not used does not grow.
    void acknowledged(std::uint32_t cost);
    // It was lost, or nobody will know: it is in flight no more.
    void withdrawn(std::uint32_t cost) {
        in_flight_.fetch_sub(cost);
        recover(cost);
    }

    void lost();
    void collapsed();  // nothing came back at all

    Wave& wave() { return wave_; }  // of those who share this

    bool crowded() const {
        others_act();
        return waiting_count_.load() > 0;
    }
    // So many queue pairs share it: wait() needs no memory then. Throws std::bad_alloc.
    void make_room_for(std::size_t queue_pairs);
    void wait(std::uint32_t qp_number, bool first);
    std::uint32_t next_waiting();  // taken from the line; 0: nobody
    bool is_next(std::uint32_t qp_number);

   private:
    static constexpr std::uint32_t kIncrease = 8 * 1024;

    void recover(std::uint32_t cost);
    void shrink(std::uint32_t to);

    std::atomic<std::uint32_t> in_flight_{0};
    std::atomic<std::uint32_t> window_{kInitialWindow};
    std::atomic<std::uint32_t> threshold_{kMaximumWindow};
    std::atomic<std::uint32_t> credit_{0};
    std::atomic<std::uint32_t> recovering_{0};  // of what was in flight at the last loss, how much still is

    Wave wave_;

    std::atomic<std::uint32_t> waiting_count_{0};
    std::mutex lock_;
    Fifo<std::uint32_t> waiting_;
};

static_assert(Flow::kMaximumWindow / Flow::kPacketOverhead <= 1024);

// What one queue pair has in flight, and its place in the line.
class FlowShare {
   public:
    FlowShare() = default;
    ~FlowShare() { withdraw(); }
    FlowShare(const FlowShare&) = delete;
    FlowShare& operator=(const FlowShare&) = delete;

    // Before anything is sent. Throws std::bad_alloc.
    void join(std::shared_ptr<Flow> flow) {
        flow->make_room_for(static_cast<std::size_t>(flow.use_count()));
        flow_ = std::move(flow);
    }
    const std::shared_ptr<Flow>& flow() const { return flow_; }
    Wave& wave() { return flow_->wave(); }
    bool is_crowded() const { return flow_ && flow_->crowded(); }
    std::shared_ptr<Flow> crowded() const { return is_crowded() ? flow_ : nullptr; }

    bool allows(std::uint32_t cost) const { return (my_turn_ || !flow_->crowded()) && flow_->allows(cost); }
    // Whether a packet of `next` will have no room behind one of `cost`.
    bool closes(std::uint32_t cost, std::uint32_t next) const {
        return flow_->in_flight() + cost + next > flow_->window();
    }
    std::uint32_t window() const { return flow_->window(); }
    std::uint32_t room() const {
        const std::uint32_t flight = flow_->in_flight(), window = flow_->window();
        return flight < window ? window - flight : 0;
    }
    void lost() { flow_->lost(); }
    void collapsed() { flow_->collapsed(); }
    bool idle() const { return mine_ == 0; }
    std::uint32_t under_way() const { return flow_->in_flight(); }
    // Who alone fills the window sends on when its own packets are acknowledged.
    bool alone() const { return flow_->in_flight() == (lent_ ? 0 : mine_) && !flow_->crowded(); }

    void sent(std::uint32_t cost) {
        take_back();
        mine_ += cost;
        flow_->sent(cost);
    }
    // What has just been counted as that costs this.
    void corrects(std::uint32_t from, std::uint32_t to) {
        if (from == to) [[likely]]
            return;
        mine_ += to - from;
        if (to > from)
            flow_->sent(to - from);
        else
            flow_->withdrawn(from - to);
    }
    void acknowledged(std::uint32_t cost) {
        cost = std::min(cost, mine_);
        mine_ -= cost;
        if (!lent_) flow_->acknowledged(cost);
    }
    void withdraw() {
        const std::uint32_t gone = std::exchange(mine_, 0);
        if (!std::exchange(lent_, false) && gone > 0) flow_->withdrawn(gone);
    }
    // Others may have its room while its own packets, which are under way still, get no answer. False: it has
    // none.
    bool lend() {
        if (mine_ == 0 || lent_) return false;
        flow_->withdrawn(mine_);
        return lent_ = true;
    }
    void take_back() {
        if (!lent_) [[likely]]
            return;
        lent_ = false;
        flow_->sent(mine_);
    }

    void wait(std::uint32_t qp_number, bool sent_something) {
        if (!std::exchange(waiting_, true)) flow_->wait(qp_number, my_turn_ && !sent_something);
    }
    bool has_turn() const { return my_turn_; }
    void turn(bool mine) {
        my_turn_ = mine;
        if (mine) waiting_ = false;
    }

   private:
    std::shared_ptr<Flow> flow_;
    std::uint32_t mine_ = 0;
    bool lent_ = false;
    bool waiting_ = false;
    bool my_turn_ = false;
};

class FlowTable {
   public:
    // The receive queue that takes packets for this queue pair of the peer: numbers with equal upper bits
    // share one with us, and it does no harm to take that for everybody's habit.
    std::shared_ptr<Flow> find(const Gid& peer, std::uint32_t qp_number);

   private:
    static constexpr unsigned kNumbersOfAQueue = 12;  // bits

    std::mutex lock_;
    std::map<std::pair<Gid, std::uint32_t>, std::weak_ptr<Flow>> flows_;
    std::size_t sweep_at_ = 64;
};

}  // namespace verbena::transport
