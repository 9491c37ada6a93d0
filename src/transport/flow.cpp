#include "transport/flow.h"

#include "transport/mutation.h"

namespace verbena::transport {

void Flow::acknowledged(std::uint32_t cost) {
    const std::uint32_t flight = in_flight_.fetch_sub(cost);
    recover(cost);
    const std::uint32_t window = this->window();
    if (flight < window / 2) return;
    if (const std::uint32_t threshold = threshold_.load(std::memory_order_relaxed); window < threshold) {
        window_.store(std::min(window + cost, threshold), std::memory_order_relaxed);
        return;
    }
    std::uint32_t credit = credit_.load(std::memory_order_relaxed) + cost;
    if (credit >= window) {
        credit -= window;
        window_.store(std::min(window + kIncrease, kMaximumWindow), std::memory_order_relaxed);
    }
    credit_.store(credit, std::memory_order_relaxed);
}

void Flow::recover(std::uint32_t cost) {
    const std::uint32_t left = recovering_.load(std::memory_order_relaxed);
    if (left > 0) recovering_.store(left - std::min(left, cost), std::memory_order_relaxed);
}

void Flow::shrink(std::uint32_t to) {
    if (recovering_.load(std::memory_order_relaxed) > 0) return;
    recovering_.store(in_flight(), std::memory_order_relaxed);
    threshold_.store(std::max(window() / 2, kMinimumWindow), std::memory_order_relaxed);
    window_.store(to, std::memory_order_relaxed);
    credit_.store(0, std::memory_order_relaxed);
}

void Flow::lost() { shrink(std::max(window() / 2, kMinimumWindow)); }
void Flow::collapsed() { shrink(kMinimumWindow); }

void Flow::make_room_for(std::size_t queue_pairs) {
    constexpr std::size_t kGone = 64;  // in line, of queue pairs that are no more
    std::lock_guard lock(lock_);
    waiting_.reserve(queue_pairs + kGone);
}

void Flow::wait(std::uint32_t qp_number, bool first) {
    std::lock_guard lock(lock_);
    if (first)
        waiting_.push_front(qp_number);
    else
        waiting_.push_back(qp_number);
    waiting_count_.store(static_cast<std::uint32_t>(waiting_.size()));
}

std::uint32_t Flow::next_waiting() {
    std::lock_guard lock(lock_);
    if (waiting_.empty()) return 0;
    if (mutated(Mutation::flow_turn_out_of_order)) std::swap(waiting_.front(), waiting_.back());
    if (mutated(Mutation::flow_waiter_forgotten) && waiting_.size() > 1) waiting_.pop_front();
    const std::uint32_t number = waiting_.front();
    waiting_.pop_front();
    waiting_count_.store(static_cast<std::uint32_t>(waiting_.size()));
    return number;
}

bool Flow::is_next(std::uint32_t qp_number) {
    std::lock_guard lock(lock_);
    return !waiting_.empty() && waiting_.front() == qp_number;
}

std::shared_ptr<Flow> FlowTable::find(const Gid& peer, std::uint32_t qp_number) {
    std::lock_guard lock(lock_);
    if (flows_.size() >= sweep_at_) {
        std::erase_if(flows_, [](const auto& entry) { return entry.second.expired(); });
        sweep_at_ = 2 * flows_.size() + 64;
    }
    std::weak_ptr<Flow>& place = flows_[{peer, qp_number >> kNumbersOfAQueue}];
    std::shared_ptr<Flow> flow = place.lock();
    if (!flow) place = flow = std::make_shared<Flow>();
    return flow;
}

}  // namespace verbena::transport
