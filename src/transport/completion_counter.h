// Completion counters (ibv_create_comp_cntr(3)): what a queue pair's operations add up to, without an entry
// in a completion queue for each. A success adds 1 or its bytes to the one count, a failure 1 to the other.
//
// Thread safety: a counter all calls; the set of a queue pair, the queue pair's lock.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "completion/completion.h"
#include "memory/regions.h"
#include "transport/requests.h"

namespace verbena::transport {

// The bits of enum ibv_qp_attach_comp_cntr_op. Local operations count when they complete, signaled or not; a
// peer's WRITE when its last byte is in memory, a peer's READ when the last packet of its first answer has
// left. A peer's that is refused counts nowhere: it was not executed. A peer's WRITE with immediate is a
// remote_write, and the receive that it takes a receive of no bytes: they lie nowhere that the receive names,
// and a counter of both operations would add them up twice.
enum class Counted : std::uint8_t { send, receive, read, remote_read, write, remote_write };
inline constexpr std::size_t kCountedOperations = 6;

class CompletionCounter {
   public:
    explicit CompletionCounter(bool of_bytes) : of_bytes_(of_bytes) {}

    void count(bool success, std::uint64_t bytes) {
        (success ? completed : failed).fetch_add(success && of_bytes_ ? bytes : 1, std::memory_order_release);
    }

    // Both wrap at 2^64.
    std::atomic<std::uint64_t> completed{0}, failed{0};

   private:
    const bool of_bytes_;
};

// Which counter each operation of a queue pair has, if any.
class CompletionCounters {
   public:
    bool overlaps(std::uint32_t operations) const {
        for (std::size_t i = 0; i < kCountedOperations; i++)
            if ((operations >> i & 1) && counters_[i]) return true;
        return false;
    }
    void add(const std::shared_ptr<CompletionCounter>& counter, std::uint32_t operations) {
        for (std::size_t i = 0; i < kCountedOperations; i++)
            if (operations >> i & 1) counters_[i] = counter;
    }
    void count(Counted operation, bool success, std::uint64_t bytes) const {
        if (const auto& counter = of(operation)) counter->count(success, bytes);
    }
    // Of a request of ours that ended.
    void count(Operation operation, bool success, std::uint64_t bytes) const {
        switch (operation) {
            case Operation::send:
            case Operation::send_with_immediate:
            case Operation::send_with_invalidate:
                return count(Counted::send, success, bytes);
            case Operation::rdma_write:
            case Operation::rdma_write_with_immediate:
                return count(Counted::write, success, bytes);
            case Operation::rdma_read:
                return count(Counted::read, success, bytes);
            default:
                return;
        }
    }
    // What peers on this host may not do to our memory by themselves, because nobody would count it.
    memory::Access by_packets_only() const {
        return static_cast<memory::Access>((of(Counted::remote_write) ? memory::kRemoteWrite : 0) |
                                           (of(Counted::remote_read) ? memory::kRemoteRead : 0));
    }

   private:
    const std::shared_ptr<CompletionCounter>& of(Counted operation) const {
        return counters_[static_cast<std::size_t>(operation)];
    }

    std::array<std::shared_ptr<CompletionCounter>, kCountedOperations> counters_;
};

}  // namespace verbena::transport
