// A receive queue: an object of its own that a queue pair refers to, so that shared receive queues
// (IBA 10.2.9) and XRC need no other transport. Entries are taken in order.
//
// Thread safety: all calls.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <vector>

#include "transport/requests.h"

namespace verbena::transport {

class ReceiveQueue {
   public:
    ReceiveQueue(std::uint32_t capacity, std::uint32_t max_sge);

    // ENOMEM: full. EINVAL: too many SGEs.
    int post(const ReceiveRequest& request);

    // Takes the oldest request; its SGEs are copied to `sges` (room for max_sge()). False if there is none.
    bool take(std::uint64_t& wr_id, std::span<Sge> sges, std::uint32_t& sge_count);

    // The same without the SGEs, for flushing.
    bool take_id(std::uint64_t& wr_id);

    std::uint32_t capacity() const { return capacity_; }
    std::uint32_t max_sge() const { return max_sge_; }
    std::uint32_t waiting();
    void clear();

   private:
    struct Entry {
        std::uint64_t wr_id;
        std::uint32_t sge_count;
    };

    std::mutex lock_;
    std::uint32_t capacity_;
    std::uint32_t max_sge_;
    std::vector<Entry> entries_;
    std::vector<Sge> sges_;
    std::uint32_t head_ = 0;
    std::uint32_t count_ = 0;
};

}  // namespace verbena::transport
