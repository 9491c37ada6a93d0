#include "transport/send_queue.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace verbena::transport {

SendQueue::SendQueue(const Capabilities& capabilities)
    : capacity_(capabilities.max_send_wr),
      max_sge_(capabilities.max_send_sge),
      max_inline_(capabilities.max_inline_data),
      mask_(std::bit_ceil(std::max<std::uint32_t>(capacity_, 1)) - 1),
      entries_(std::size_t{mask_} + 1),
      sges_((std::size_t{mask_} + 1) * max_sge_),
      inline_((std::size_t{mask_} + 1) * max_inline_) {}

SendEntry& SendQueue::push(const SendRequest& request, std::uint32_t length, bool signaled) {
    const std::uint32_t slot = (head_ + count_++) & mask_;
    SendEntry& entry = entries_[slot];
    entry = SendEntry{};
    entry.wr_id = request.wr_id;
    entry.remote_address = request.remote_address;
    entry.compare_add = request.compare_add;
    entry.swap = request.swap;
    entry.rkey = request.rkey;
    entry.immediate_or_key = request.immediate_or_key;
    entry.length = length;
    entry.flags = request.flags;
    entry.slot = slot;
    entry.operation = request.operation;
    entry.signaled = signaled;
    if (request.flags & kInline) {
        std::uint8_t* to = inline_data(entry);
        for (const Sge& sge : request.sges) {
            if (sge.length == 0) continue;
            std::memcpy(to, reinterpret_cast<const void*>(static_cast<std::uintptr_t>(sge.address)),
                        sge.length);
            to += sge.length;
        }
    } else {
        entry.sge_count = static_cast<std::uint32_t>(request.sges.size());
        std::ranges::copy(request.sges, sges_.data() + std::size_t{slot} * max_sge_);
    }
    return entry;
}

}  // namespace verbena::transport
