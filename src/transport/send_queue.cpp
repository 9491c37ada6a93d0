#include "transport/send_queue.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>

#include "base/reason.h"

namespace verbena::transport {

SendQueue::SendQueue(const Capabilities& capabilities, const completion::CompletionQueue* cq)
    : capacity_(capabilities.max_send_wr),
      max_sge_(capabilities.max_send_sge),
      max_inline_(capabilities.max_inline_data),
      mask_(std::bit_ceil(std::max<std::uint32_t>(capacity_, 1)) - 1),
      entries_(std::make_unique<SendEntry[]>(slots())),
      sges_(std::make_unique<Sge[]>(std::size_t{slots()} * max_sge_)),
      inline_(std::make_unique<std::uint8_t[]>(std::size_t{slots()} * max_inline_)),
      cq_(cq),
      places_(std::make_unique<std::uint64_t[]>(slots())) {}

int SendQueue::check_room() const {
    if (!full()) return 0;
    return fail(ENOMEM,
                "the send queue is full: %u requests, %u of which have completed and wait to be polled",
                capacity_, untaken_);
}

}  // namespace verbena::transport
