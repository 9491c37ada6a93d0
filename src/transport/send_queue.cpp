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
      entries_(std::size_t{mask_} + 1),
      sges_((std::size_t{mask_} + 1) * max_sge_),
      inline_((std::size_t{mask_} + 1) * max_inline_),
      cq_(cq),
      places_(std::size_t{mask_} + 1) {}

std::uint32_t SendQueue::room() const {
    while (untaken_ > 0 && cq_->gone(places_[first_untaken_])) {
        first_untaken_ = (first_untaken_ + 1) & mask_;
        untaken_--;
    }
    return capacity_ - count_ - untaken_;
}

int SendQueue::check_room() const {
    if (!full()) return 0;
    return fail(ENOMEM,
                "the send queue is full: %u requests, %u of which have completed and wait to be polled",
                capacity_, untaken_);
}

SendEntry& SendQueue::push(const SendRequest& request, std::uint32_t length, bool signaled) {
    const std::uint32_t slot = (head_ + count_++) & mask_;
    SendEntry& entry = entries_[slot];
    entry = SendEntry{};
    entry.wr_id = request.wr_id;
    entry.remote_address = request.remote_address;
    entry.compare_add = request.compare_add;
    entry.swap = request.swap;
    entry.range = request.range;
    entry.range_access = request.range_access;
    entry.rkey = request.rkey;
    entry.immediate_or_key = request.immediate_or_key;
    entry.remote_srq = request.remote_srq;
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
        Sge* to = sges_.data() + std::size_t{slot} * max_sge_;
        for (const Sge& sge : request.sges) *to++ = sge;
    }
    return entry;
}

}  // namespace verbena::transport
