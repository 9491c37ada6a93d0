// From a queue pair number to its slot, in two loads and without a lock; and the numbers that may be given
// out.
//
// Slots are never freed, only reused: a thread that found one locks it and then looks whether the queue pair
// it came for is still there. That is what makes destruction safe against packets that arrive at the same
// moment.
//
// Thread safety: find(), slot_of(), is_ours(), expect() and comes_to() from any thread; the rest under the
// adapter's lock.
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

    std::atomic<transport::QpState> state{transport::QpState::reset};  // a copy, for who has no lock

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
        const Entry* entry = entry_of(number);
        return entry ? entry->slot.load(std::memory_order_acquire) : nullptr;
    }
    // The same, or one that never has a queue pair.
    Slot& slot_of(std::uint32_t number) {
        Slot* slot = find(number);
        return slot ? *slot : nowhere_;
    }
    // Whether packets for this number belong to this process at all.
    bool is_ours(std::uint32_t number) const { return entry_of(number) != nullptr; }

    // The queue pair, which need not exist, will be worked on soon: what of it is cold, among many, is
    // fetched into the cache meanwhile.
    void expect(std::uint32_t number) const {
        if (const Entry* entry = entry_of(number)) fetch(*entry);
    }
    // A thread comes to this one, and to which before. Programs mostly go from one to the next in the same
    // order: while that is so, the one after the next is expected, too.
    void comes_to(std::uint32_t number, std::uint32_t before) {
        const Entry* const entry = entry_of(number);
        Entry* const last = entry_of(before);
        if (!entry || entry == last) return;
        fetch(*entry);
        if (!last) return;
        if (last->follower.load(std::memory_order_relaxed) != number)
            return last->follower.store(number, std::memory_order_relaxed);
        if (const Entry* next = entry_of(entry->follower.load(std::memory_order_relaxed)))
            expect(next->follower.load(std::memory_order_relaxed));
    }

    void set(std::uint32_t number, Slot* slot, const transport::QueuePair* qp);
    void add_range(std::uint32_t first, std::uint32_t count);

    Slot& take_slot();
    void give_back(Slot& slot) { free_slots_.push_back(&slot); }

    bool has_numbers(Time now);
    // 0: none is left. `random` is any number.
    std::uint32_t take_number(std::uint64_t random, Time now);
    void give_back_number(std::uint32_t number, Time free_at);

   private:
    struct Entry {
        std::atomic<Slot*> slot{nullptr};
        std::atomic<const transport::QueuePair*> qp{nullptr};  // what slot->qp points to
        std::atomic<std::uint32_t> follower{0};                // came after it the last time
    };
    using Block = std::array<Entry, link::kBlockSize>;
    struct Quarantined {
        std::uint32_t number;
        Time free_at;
    };

    Entry* entry_of(std::uint32_t number) const {
        Block* const block =
            blocks_[number / link::kBlockSize % link::kMaxBlocks].load(std::memory_order_acquire);
        return block ? &(*block)[number % link::kBlockSize] : nullptr;
    }
    static void fetch(const Entry& entry) {
        const Slot* const slot = entry.slot.load(std::memory_order_acquire);
        if (!slot) return;
        __builtin_prefetch(&slot->lock, 1);
        __builtin_prefetch(&slot->number, 1);
        transport::QueuePair::prefetch(entry.qp.load(std::memory_order_relaxed));
    }

    std::array<std::atomic<Block*>, link::kMaxBlocks> blocks_{};
    Slot nowhere_;
    std::deque<Slot> slots_;
    std::vector<Slot*> free_slots_;
    std::vector<std::uint32_t> free_numbers_;
    std::deque<Quarantined> quarantine_;
};

}  // namespace verbena::adapter
