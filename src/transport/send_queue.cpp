#include "transport/send_queue.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cerrno>
#include <limits>

#include "base/reason.h"

namespace verbena::transport {
namespace {

// The ring is a power of two.
std::uint32_t slots_for(std::uint32_t capacity) {
    return std::bit_ceil(std::max<std::uint32_t>(capacity, 1));
}

}  // namespace

// For each slot an entry, and behind them its elements and its inline data: elements(), inline_data().
std::size_t SendQueue::count_places(std::uint32_t capacity, std::size_t max_sge, std::size_t max_inline) {
    const std::size_t slots = slots_for(capacity), behind = slots * (max_sge * sizeof(Sge) + max_inline);
    return slots + (behind + sizeof(SendEntry) - 1) / sizeof(SendEntry);
}

SendQueue::SendQueue(const Capabilities& capabilities, const completion::CompletionQueue* cq,
                     Places&& places) noexcept
    : capacity_(capabilities.max_send_wr),
      max_sge_(static_cast<std::uint16_t>(capabilities.max_send_sge)),
      max_inline_(static_cast<std::uint16_t>(capabilities.max_inline_data)),
      mask_(slots_for(capacity_) - 1),
      entries_(places.release()),
      cq_(cq) {
    assert(capabilities.max_send_sge <= std::numeric_limits<decltype(SendEntry::sge_count)>::max());
    assert(capabilities.max_inline_data <= std::numeric_limits<decltype(max_inline_)>::max());
}

int SendQueue::check_room() const {
    if (!full()) return 0;
    return fail(ENOMEM,
                "the send queue is full: %u requests, %u of which have completed and wait to be polled",
                capacity_, untaken_);
}

}  // namespace verbena::transport
