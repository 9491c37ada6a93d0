#include "adapter/srq_table.h"

namespace verbena::adapter {
namespace {

constexpr std::uint32_t kNumberMask = 0xffffff;

}  // namespace

std::uint32_t SrqTable::add(std::shared_ptr<transport::ReceiveQueue> queue) {
    std::lock_guard guard(lock_);
    if (queues_.size() == kNumberMask) return 0;
    do last_ = (last_ + 1) & kNumberMask;
    while (last_ == 0 || queues_.contains(last_));
    queues_.emplace(last_, std::move(queue));
    return last_;
}

void SrqTable::remove(std::uint32_t number) {
    std::lock_guard guard(lock_);
    queues_.erase(number);
}

std::shared_ptr<transport::ReceiveQueue> SrqTable::find(std::uint32_t number) {
    std::lock_guard guard(lock_);
    const auto found = queues_.find(number);
    return found == queues_.end() ? nullptr : found->second;
}

}  // namespace verbena::adapter
