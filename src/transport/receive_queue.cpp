// A ring of requests with room for max_sge scatter entries each, allocated once.
#include "transport/receive_queue.h"

#include <algorithm>
#include <cerrno>

#include "base/reason.h"

namespace verbena::transport {

ReceiveQueue::ReceiveQueue(std::uint32_t capacity, std::uint32_t max_sge)
    : capacity_(capacity), max_sge_(max_sge), entries_(capacity), sges_(std::size_t{capacity} * max_sge) {}

int ReceiveQueue::post(const ReceiveRequest& request) {
    if (request.sges.size() > max_sge_)
        return fail(EINVAL, "num_sge is %zu; the receive queue was created for at most %u",
                    request.sges.size(), max_sge_);
    std::lock_guard guard(lock_);
    if (count_ == capacity_) return fail(ENOMEM, "the receive queue is full (%u requests)", capacity_);
    std::uint32_t slot = head_ + count_;
    if (slot >= capacity_) slot -= capacity_;
    entries_[slot] = {request.wr_id, static_cast<std::uint32_t>(request.sges.size())};
    std::ranges::copy(request.sges,
                      sges_.begin() + static_cast<std::ptrdiff_t>(std::size_t{slot} * max_sge_));
    count_++;
    return 0;
}

bool ReceiveQueue::take(std::uint64_t& wr_id, std::span<Sge> sges, std::uint32_t& sge_count) {
    std::lock_guard guard(lock_);
    if (count_ == 0) return false;
    const Entry& entry = entries_[head_];
    wr_id = entry.wr_id;
    sge_count = entry.sge_count;
    std::copy_n(sges_.begin() + static_cast<std::ptrdiff_t>(std::size_t{head_} * max_sge_), entry.sge_count,
                sges.begin());
    if (++head_ == capacity_) head_ = 0;
    count_--;
    return true;
}

bool ReceiveQueue::take_id(std::uint64_t& wr_id) {
    std::lock_guard guard(lock_);
    if (count_ == 0) return false;
    wr_id = entries_[head_].wr_id;
    if (++head_ == capacity_) head_ = 0;
    count_--;
    return true;
}

std::uint32_t ReceiveQueue::waiting() {
    std::lock_guard guard(lock_);
    return count_;
}

void ReceiveQueue::clear() {
    std::lock_guard guard(lock_);
    head_ = count_ = 0;
}

}  // namespace verbena::transport
