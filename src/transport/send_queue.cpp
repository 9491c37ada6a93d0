#include "transport/send_queue.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cerrno>
#include <limits>

#include "base/reason.h"

namespace verbena::transport {
namespace {

// Bytes for each request, behind the entries: SendQueue::elements(), inline_data().
std::size_t room_behind(const Capabilities& capabilities) {
    return capabilities.max_send_sge * sizeof(Sge) + capabilities.max_inline_data;
}

std::size_t entries_in(std::size_t bytes) { return (bytes + sizeof(SendEntry) - 1) / sizeof(SendEntry); }

}  // namespace

SendQueue::SendQueue(const Capabilities& capabilities, const completion::CompletionQueue* cq)
    : capacity_(capabilities.max_send_wr),
      max_sge_(capabilities.max_send_sge),
      max_inline_(capabilities.max_inline_data),
      mask_(std::bit_ceil(std::max<std::uint32_t>(capacity_, 1)) - 1),
      entries_(std::make_unique<SendEntry[]>(slots() + entries_in(slots() * room_behind(capabilities)))),
      cq_(cq) {
    assert(max_sge_ <= std::numeric_limits<decltype(SendEntry::sge_count)>::max());
}

int SendQueue::check_room() const {
    if (!full()) return 0;
    return fail(ENOMEM,
                "the send queue is full: %u requests, %u of which have completed and wait to be polled",
                capacity_, untaken_);
}

}  // namespace verbena::transport
