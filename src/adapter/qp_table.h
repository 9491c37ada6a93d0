// From a queue pair number to its slot, in two loads and without a lock; and the numbers that may be given
// out.
//
// Slots are never freed, only reused: a thread that found one locks it and then looks whether the queue pair
// it came for is still there. That is what makes destruction safe against packets that arrive at the same
// moment.
//
// Thread safety: find(), slot_of() and is_ours() from any thread; the rest under the adapter's lock.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include "adapter/outgoing.h"
#include "adapter/segment.h"
#include "adapter/timers.h"
#include "base/lock.h"
#include "link/steering.h"
#include "transport/queue_pair.h"

namespace verbena::adapter {

// Two cache lines: with a third, thousands of queue pairs lost a quarter of their rate.
struct alignas(64) Slot : TimerNode {
    Lock lock;
    // Under the lock.
    std::unique_ptr<transport::QueuePair> qp;
    QpRecord* record = nullptr;
    std::uint32_t number = 0;
    bool was_connected = false;  // packets for it may be on their way
    bool again = false;          // its timer is set because it has more to do, not for a deadline

    // The thread in progress() only.
    bool touched = false;
    bool owing = false;
    bool told = false;  // since it was touched: what it was told may have set any deadline

    // Copies that are read without the lock: by post_receive(), and to prefetch.
    std::atomic<transport::QpState> state{transport::QpState::reset};
    std::atomic<const transport::QueuePair*> there{nullptr};

    // Under the lock.
    std::uint64_t mark_sent = 0, mark_received = 0, mark_retransmitted = 0;
    std::uint32_t turn = 0;   // Outgoing::turn by then
    Outgoing* out = nullptr;  // what its last packets were put into
};
static_assert(sizeof(Slot) == 128);

class QpTable {
   public:
    ~QpTable();

    Slot* find(std::uint32_t number) const {
        const Block* block =
            blocks_[number / link::kBlockSize % link::kMaxBlocks].load(std::memory_order_acquire);
        return block ? block->slots[number % link::kBlockSize].load(std::memory_order_acquire) : nullptr;
    }
    // The same, or one that never has a queue pair.
    Slot& slot_of(std::uint32_t number) {
        Slot* slot = find(number);
        return slot ? *slot : nowhere_;
    }
    // Whether packets for this number belong to this process at all.
    bool is_ours(std::uint32_t number) const {
        return blocks_[number / link::kBlockSize % link::kMaxBlocks].load(std::memory_order_acquire) !=
               nullptr;
    }

    void set(std::uint32_t number, Slot* slot);
    void add_range(std::uint32_t first, std::uint32_t count);

    Slot& take_slot();
    void give_back(Slot& slot) { free_slots_.push_back(&slot); }

    bool has_numbers(Time now);
    // 0: none is left. `random` is any number.
    std::uint32_t take_number(std::uint64_t random, Time now);
    void give_back_number(std::uint32_t number, Time free_at);

   private:
    struct Block {
        std::array<std::atomic<Slot*>, link::kBlockSize> slots{};
    };
    struct Quarantined {
        std::uint32_t number;
        Time free_at;
    };

    std::array<std::atomic<Block*>, link::kMaxBlocks> blocks_{};
    Slot nowhere_;
    std::deque<Slot> slots_;
    std::vector<Slot*> free_slots_;
    std::vector<std::uint32_t> free_numbers_;
    std::deque<Quarantined> quarantine_;
};

}  // namespace verbena::adapter
