// The send queue: a ring of work requests with room for their scatter/gather elements and inline data,
// allocated once. Index 0 is the oldest request that has not completed.
//
// A request whose completion the program has not taken yet still occupies its place, as on adapters: who
// posts without polling gets ENOMEM, and a completion queue as large as the send queues that use it cannot
// overrun. One that completes silently is free at once.
//
// Thread safety: none (the queue pair's lock).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/dense_memory.h"
#include "base/small_copy.h"
#include "completion/completion_queue.h"
#include "transport/attributes.h"
#include "transport/requests.h"
#include "transport/vendor_error.h"

namespace verbena::transport {

// What SENDs and WRITEs have comes first, in one cache line.
struct alignas(64) SendEntry {
    std::uint64_t wr_id;
    std::uint64_t remote_address;
    std::uint32_t rkey;
    std::uint32_t immediate_or_key;
    std::uint32_t remote_srq;  // XRC
    std::uint32_t length;      // bytes, at most 2^31
    std::uint32_t first_psn;   // valid once started
    std::uint32_t packets;     // PSNs that it occupies: of the request, or of its READ responses
    VendorError local_error;   // found when it was about to be sent; reported when it is the oldest
    std::uint8_t flags;        // kFence ...
    Operation operation;
    bool signaled : 1;
    bool started : 1;        // its first packet was sent, PSNs are assigned; or, if local, it was executed
    bool beside_window : 1;  // it left as one packet, not counted in the window (rc_straight.cpp)
    bool fetched : 1;        // the peer is asked to fetch the payload (rc_direct.cpp)
    bool placed : 1;         // ... and what has left of it, or the last part of that, is there already; of a
                             // READ, all parts so far that we copy
    bool halved : 1;         // ... and we copy every other part of it (rc_halves.cpp)
    bool done : 1;           // local, and nobody uses what it changed any more
    std::uint8_t sge_count;
    Sge sge;  // the element, if it is one; or up to so many bytes of inline data

    // Not of this request: where in the completion queue one is that the program may not have taken yet.
    std::uint64_t place;

    // Of other requests, and not set for those.
    std::uint64_t range;  // of a bind or a FLUSH (requests.h)
    std::uint64_t compare_add;
    std::uint64_t swap;
    std::uint32_t range_access;
    std::uint32_t chunk;  // READ: packets asked for by one READ request (rc_requester.h)
    std::uint8_t share;   // ... and Rest::share, if it is halved

    bool is_send() const {
        return operation == Operation::send || operation == Operation::send_with_immediate ||
               operation == Operation::send_with_invalidate;
    }
    bool is_read() const { return operation == Operation::rdma_read; }
    bool is_atomic() const {
        return operation == Operation::compare_swap || operation == Operation::fetch_add;
    }
    // Completed by a response of their own, not by an acknowledgement; the initiator depth limits them
    // (annex A19.3.2 for FLUSH and ATOMIC WRITE, whose response is empty).
    bool awaits_response() const {
        return is_read() || is_atomic() || operation == Operation::flush ||
               operation == Operation::atomic_write;
    }
    // The elements are where a result goes, not what is sent.
    bool awaits_data() const { return is_read() || is_atomic(); }
    // Executed here, without a packet and without PSNs.
    bool is_local() const {
        return operation == Operation::bind_window || operation == Operation::local_invalidate;
    }
    bool is_write() const {
        return operation == Operation::rdma_write || operation == Operation::rdma_write_with_immediate;
    }
};

static_assert(offsetof(SendEntry, place) == 64 && sizeof(SendEntry) == 128);

class SendQueue {
   public:
    // `cq`: where completions go; must outlive the queue.
    SendQueue(const Capabilities& capabilities, const completion::CompletionQueue* cq)
        : SendQueue(capabilities, cq, make_places(capabilities)) {}
    // The same with what it allocates.
    using Places = DenseArray<SendEntry>;
    static Places make_places(const Capabilities& capabilities) {
        return Places(
            count_places(capabilities.max_send_wr, capabilities.max_send_sge, capabilities.max_inline_data));
    }
    SendQueue(const Capabilities& capabilities, const completion::CompletionQueue* cq,
              Places&& places) noexcept;
    ~SendQueue() { const Places gone(entries_, count_places(capacity_, max_sge_, max_inline_)); }
    SendQueue(const SendQueue&) = delete;
    SendQueue& operator=(const SendQueue&) = delete;

    bool full() const { return count_ + untaken_ >= capacity_ && room() == 0; }
    // 0, or ENOMEM with the reason.
    int check_room() const;
    bool empty() const { return count_ == 0; }
    std::uint32_t size() const { return count_; }
    std::uint32_t capacity() const { return capacity_; }
    std::uint32_t max_sge() const { return max_sge_; }
    std::uint32_t max_inline() const { return max_inline_; }  // bytes
    std::uint32_t room() const { return capacity_ - count_ - untaken(); }
    // Requests that are done and that the program has not heard of: it has not taken their completions yet,
    // or they were executed without one since the last that had one.
    std::uint32_t unheard() const { return untaken() + silent_; }
    void done_silently() { silent_++; }
    std::uint32_t slots() const { return mask_ + 1; }
    std::uint32_t slot_of(const SendEntry& entry) const {  // below slots()
        return static_cast<std::uint32_t>(&entry - entries_);
    }

    // The queue is not full, the request was checked. `length` is the sum of its elements. Inline data is
    // copied.
    [[gnu::always_inline]] SendEntry& push(const SendRequest& request, std::uint32_t length, bool signaled) {
        SendEntry& entry = entries_[(head_ + count_++) & mask_];
        entry.wr_id = request.wr_id;
        entry.remote_address = request.remote_address;
        entry.rkey = request.rkey;
        entry.immediate_or_key = request.immediate_or_key;
        entry.remote_srq = request.remote_srq;
        entry.length = length;
        entry.first_psn = entry.packets = 0;
        entry.local_error = VendorError::none;
        entry.flags = static_cast<std::uint8_t>(request.flags);
        entry.operation = request.operation;
        entry.signaled = signaled;
        entry.started = entry.beside_window = entry.fetched = entry.placed = entry.halved = entry.done =
            false;
        entry.sge_count = 0;
        if (!request.is_plain()) [[unlikely]] {
            entry.range_access = request.range_access;
            entry.range = request.range;
            entry.compare_add = request.compare_add;
            entry.swap = request.swap;
        }
        if (request.flags & kInline) {
            std::uint8_t* to = inline_data(entry);
            for (const Sge& sge : request.sges) {
                small_copy(to, reinterpret_cast<const void*>(static_cast<std::uintptr_t>(sge.address)),
                           sge.length);
                to += sge.length;
            }
            return entry;
        }
        entry.sge_count = static_cast<std::uint8_t>(request.sges.size());
        if (entry.sge_count == 1) [[likely]] {
            entry.sge = request.sges[0];
        } else {
            Sge* to = elements(slot_of(entry));
            for (const Sge& sge : request.sges) *to++ = sge;
        }
        return entry;
    }
    // Who finds the queue empty begins at its first place again: among thousands of queue pairs, with few
    // requests outstanding each, it is known in advance where the next one will be.
    void pop() {
        count_--;
        head_ = count_ > 0 ? (head_ + 1) & mask_ : 0;
    }
    // The oldest, about to be popped, has completed at that place of the completion queue (0: nowhere).
    void completed(std::uint64_t place) {
        silent_ = 0;
        // Adapters round small queues up, and programs that go in step with their peer (perftest with events,
        // depth 1) post the next request before they poll.
        if (place && capacity_ > kInStep) entries_[(first_untaken_ + untaken_++) & mask_].place = place;
    }
    void clear() { head_ = count_ = untaken_ = silent_ = 0; }

    const void* first_place() const { return entries_; }
    SendEntry& at(std::uint32_t index) { return entries_[(head_ + index) & mask_]; }
    const SendEntry& at(std::uint32_t index) const { return entries_[(head_ + index) & mask_]; }
    std::span<const Sge> sges(const SendEntry& entry) const {
        return {entry.sge_count == 1 ? &entry.sge : elements(slot_of(entry)), entry.sge_count};
    }
    std::uint8_t* inline_data(SendEntry& entry) {
        if (entry.length <= sizeof entry.sge) return reinterpret_cast<std::uint8_t*>(&entry.sge);
        return reinterpret_cast<std::uint8_t*>(elements(slots())) + std::size_t{slot_of(entry)} * max_inline_;
    }

   private:
    static constexpr std::uint32_t kInStep = 2;  // places

    // Completions that the program has not taken yet.
    std::uint32_t untaken() const {
        while (untaken_ > 0 && cq_->gone(entries_[first_untaken_].place)) {
            first_untaken_ = (first_untaken_ + 1) & mask_;
            untaken_--;
        }
        return untaken_;
    }

    // Of the entries and what lies behind them.
    static std::size_t count_places(std::uint32_t capacity, std::size_t max_sge, std::size_t max_inline);
    // Behind the entries lie the elements of requests that have more than one, and then inline data.
    Sge* elements(std::uint32_t slot) const {
        return reinterpret_cast<Sge*>(entries_ + slots()) + std::size_t{slot} * max_sge_;
    }

    std::uint32_t capacity_;
    std::uint16_t max_sge_, max_inline_;
    std::uint32_t mask_;  // the ring is a power of two
    std::uint32_t head_ = 0, count_ = 0;
    mutable std::uint32_t first_untaken_ = 0, untaken_ = 0;  // as far as untaken() has looked
    std::uint32_t silent_ = 0;
    SendEntry* const entries_;
    const completion::CompletionQueue* cq_;
};

}  // namespace verbena::transport
