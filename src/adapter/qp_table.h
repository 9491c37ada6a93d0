// From a queue pair number to its slot, in two loads and without a lock; and the numbers that may be given
// out.
//
// Slots are never freed, only reused: a thread that found one locks it and then looks whether the queue pair
// it came for is still there. That is what makes destruction safe against packets that arrive at the same
// moment.
//
// Thread safety: find(), slot_of(), is_ours(), expect(), expect_later(), comes_to() and came() from any
// thread; show_outside() under the slot's lock; the rest under the adapter's lock.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <memory_resource>
#include <mutex>
#include <vector>

#include "adapter/qp_order.h"
#include "adapter/segment.h"
#include "adapter/timers.h"
#include "base/dense_memory.h"
#include "base/fifo.h"
#include "base/free_list.h"
#include "base/lock.h"
#include "base/prefetch.h"
#include "link/steering.h"
#include "transport/queue_pair.h"
#include "wire/bth.h"
#include "wire/opcode.h"

namespace verbena::adapter {

// What every message needs comes first, in one cache line: among thousands of queue pairs, what a message
// costs is how many of these it touches.
struct alignas(64) Slot : TimerNode {
    Lock lock;
    // Under the lock.
    std::unique_ptr<transport::QueuePair> qp;
    std::uint32_t number = 0;

    // Under the lock.
    std::uint8_t out : 4 = 0;  // which Outgoing its last packets were put into, from 1 on; 0: they have left
    bool again : 1 = false;    // its timer is set because it has more to do, not for a deadline
    std::uint8_t turn = 0;     // Outgoing::turn by then, modulo 256

    transport::QpState state = transport::QpState::reset;  // the one that others have been shown

    // The thread in progress() only.
    enum class Touched : std::uint8_t { no, yes, told };  // told: something that may set any deadline
    Touched touched : 2 = Touched::no;
    bool owing : 1 = false;

    // Under the lock.
    alignas(64) QpRecord* record = nullptr;
    bool was_connected = false;  // packets for it may be on their way
    std::uint64_t mark_sent = 0, mark_received = 0, mark_retransmitted = 0;
};
static_assert(sizeof(Slot) == 128);

class QpTable {
   public:
    using Side = transport::QueuePair::Side;

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
    void expect(std::uint32_t number, wire::Opcode opcode) const {  // for a packet
        expect(number, work_of(opcode));
    }
    void expect(const wire::BthWords& bth) const { expect(bth.destination_qp(), bth.opcode()); }
    // What leads there, for expect() later.
    void expect_later(std::uint32_t number) const {
        if (const Entry* entry = entry_of(number)) prefetch_to_read(entry);
    }
    // A thread, of which that is the order, comes to this one.
    void comes_to(std::uint32_t number, QpOrder& order) {
        follow(number, {Side::requester, false}, order, &Entry::posted_behind);
    }
    // A packet from a peer of this host comes to it. Requests and responses have an order each, though a
    // queue pair remembers only one follower: mostly they come in the same.
    struct Arrivals {
        QpOrder requests, responses;
    };
    void came(const wire::InPacket& packet, Arrivals& orders) {
        const wire::BthWords bth(packet.bytes.data());
        Work work = work_of(bth.opcode());
        const bool request = work.side == Side::responder;
        if (request && packet.aside.acknowledges) work.side = Side::both;
        follow(bth.destination_qp(), work, request ? orders.requests : orders.responses, &Entry::came_behind);
    }

    void set(std::uint32_t number, Slot* slot, const transport::QueuePair* qp);
    // Before that, and when what lies outside of it has moved.
    void show_outside(std::uint32_t number, const transport::QueuePair& qp);
    // std::bad_alloc: nothing has changed.
    void add_range(std::uint32_t first, std::uint32_t count);
    void make_room(std::uint32_t first, std::uint32_t count);  // for that

    Slot& take_slot();
    void give_back(Slot& slot) { free_slots_.give_back(&slot); }

    bool has_numbers(Time now);
    // 0: none is left. `random` is any number.
    std::uint32_t take_number(std::uint64_t random, Time now);
    void give_back_number(std::uint32_t number, Time free_at);

   private:
    struct alignas(64) Entry {  // never in two cache lines
        std::atomic<Slot*> slot{nullptr};
        std::atomic<const transport::QueuePair*> qp{nullptr};  // what slot->qp points to
        std::atomic<const void*> shown{nullptr};               // what the program has of it, two lines
        std::atomic<const void*> counters{nullptr}, sends{nullptr}, receive_queue{nullptr}, receives{nullptr};
        QpOrder::Follower posted_behind{0}, came_behind{0};  // the last time, by kFar
    };
    static_assert(sizeof(Entry) == 64);
    using Block = std::array<Entry, link::kBlockSize>;
    struct Quarantined {
        std::uint32_t number;
        Time free_at;
    };

    // What a message has a queue pair do.
    struct Work {
        Side side;
        bool receives;  // takes a receive request
    };

    static Block* make_block();
    static Work work_of(wire::Opcode opcode) {
        const wire::OpcodeInfo& info = wire::info(opcode);
        const bool one_sided = (info.has_reth && !info.has_immdt) || info.has_atomic_eth;
        return {info.response ? Side::requester : Side::responder, !info.response && !one_sided};
    }
    void expect(std::uint32_t number, Work work) const {
        if (const Entry* entry = entry_of(number)) fetch(*entry, work);
    }
    void follow(std::uint32_t number, Work work, QpOrder& order, QpOrder::Follower Entry::*follower) {
        const auto [this_one, soon, far] = order.comes_to(number, [&](std::uint32_t of) {
            Entry* const entry = of == 0 ? nullptr : entry_of(of);
            return entry ? &(entry->*follower) : nullptr;
        });
        if (!this_one) expect(number, work);
        if (soon != 0) expect(soon, work);
        if (far != 0) expect_later(far);
    }
    Entry* entry_of(std::uint32_t number) const {
        Block* const block =
            blocks_[number / link::kBlockSize % link::kMaxBlocks].load(std::memory_order_acquire);
        return block ? &(*block)[number % link::kBlockSize] : nullptr;
    }
    static void fetch(const Entry& entry, Work work) {
        const Slot* const slot = entry.slot.load(std::memory_order_acquire);
        if (!slot) return;
        prefetch_to_write(&slot->lock);
        transport::QueuePair::prefetch(entry.qp.load(std::memory_order_relaxed), work.side);
        prefetch_to_write(entry.counters.load(std::memory_order_relaxed));
        const void* const shown = entry.shown.load(std::memory_order_relaxed);
        if (work.side != Side::responder) prefetch_to_write(entry.sends.load(std::memory_order_relaxed));
        if (work.side != Side::responder || work.receives) prefetch_to_read(cache_line(shown, 1));
        if (!work.receives) return;
        prefetch_to_read(shown);
        prefetch_to_write(entry.receive_queue.load(std::memory_order_relaxed));
        prefetch_to_write(entry.receives.load(std::memory_order_relaxed));
    }

    std::array<std::atomic<Block*>, link::kMaxBlocks> blocks_{};
    Slot nowhere_;
    std::pmr::deque<Slot> slots_{&dense_memory()};
    FreeList<Slot*> free_slots_;
    // All of them have room in either.
    std::vector<std::uint32_t> free_numbers_;
    Fifo<Quarantined> quarantine_;
    std::size_t numbers_ = 0;
};

}  // namespace verbena::adapter
