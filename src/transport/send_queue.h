// The send queue: a ring of work requests with room for their scatter/gather elements and inline data,
// allocated once. Index 0 is the oldest request that has not completed.
//
// Thread safety: none (the queue pair's lock).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "transport/attributes.h"
#include "transport/requests.h"
#include "transport/vendor_error.h"

namespace verbena::transport {

struct SendEntry {
    std::uint64_t wr_id;
    std::uint64_t remote_address;
    std::uint64_t compare_add;
    std::uint64_t swap;
    std::uint32_t rkey;
    std::uint32_t immediate_or_key;
    std::uint32_t length;     // bytes, at most 2^31
    std::uint32_t flags;      // kFence ...
    std::uint32_t first_psn;  // valid once started
    std::uint32_t packets;    // PSNs that it occupies: of the request, or of its READ responses
    std::uint32_t chunk;      // READ: packets asked for by one READ request (rc_requester.h)
    std::uint32_t slot;       // where its elements and inline data lie
    std::uint32_t sge_count;
    Operation operation;
    bool signaled;
    bool started;             // its first packet was sent, PSNs are assigned
    VendorError local_error;  // found when it was about to be sent; reported when it is the oldest

    bool is_read() const { return operation == Operation::rdma_read; }
    bool is_atomic() const {
        return operation == Operation::compare_swap || operation == Operation::fetch_add;
    }
    // Completed by a response that carries data, not by an acknowledgement.
    bool awaits_data() const { return is_read() || is_atomic(); }
    bool is_write() const {
        return operation == Operation::rdma_write || operation == Operation::rdma_write_with_immediate;
    }
};

class SendQueue {
   public:
    explicit SendQueue(const Capabilities& capabilities);

    bool full() const { return count_ == capacity_; }
    bool empty() const { return count_ == 0; }
    std::uint32_t size() const { return count_; }
    std::uint32_t capacity() const { return capacity_; }

    // The queue is not full, the request was checked. `length` is the sum of its elements. Inline data is
    // copied.
    SendEntry& push(const SendRequest& request, std::uint32_t length, bool signaled);
    void pop() {
        head_ = (head_ + 1) & mask_;
        count_--;
    }
    void clear() { count_ = 0; }

    SendEntry& at(std::uint32_t index) { return entries_[(head_ + index) & mask_]; }
    const SendEntry& at(std::uint32_t index) const { return entries_[(head_ + index) & mask_]; }
    std::span<const Sge> sges(const SendEntry& entry) const {
        return {sges_.data() + std::size_t{entry.slot} * max_sge_, entry.sge_count};
    }
    std::uint8_t* inline_data(const SendEntry& entry) {
        return inline_.data() + std::size_t{entry.slot} * max_inline_;
    }

   private:
    std::uint32_t capacity_, max_sge_, max_inline_;
    std::uint32_t mask_;  // the ring is a power of two
    std::uint32_t head_ = 0, count_ = 0;
    std::vector<SendEntry> entries_;
    std::vector<Sge> sges_;
    std::vector<std::uint8_t> inline_;
};

}  // namespace verbena::transport
