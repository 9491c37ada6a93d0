#include "adapter/qp_table.h"

#include <sys/mman.h>

#include <new>
#include <numeric>
#include <type_traits>

namespace verbena::adapter {

QpTable::~QpTable() {
    for (std::atomic<Block*>& block : blocks_)
        if (Block* const mapped = block.load(std::memory_order_relaxed)) munmap(mapped, sizeof(Block));
}

void QpTable::set(std::uint32_t number, Slot* slot, const transport::QueuePair* qp) {
    Block& block = *blocks_[number / link::kBlockSize].load(std::memory_order_relaxed);
    Entry& entry = block[number % link::kBlockSize];
    entry.qp.store(qp, std::memory_order_relaxed);
    entry.shown.store(qp ? qp->setup().listener : nullptr, std::memory_order_relaxed);
    entry.slot.store(slot, std::memory_order_release);
}

void QpTable::show_outside(std::uint32_t number, const transport::QueuePair& qp) {
    Entry& entry = *entry_of(number);
    const transport::QueuePair::Outside outside = qp.outside();
    const auto show = [&qp](std::atomic<const void*>& place, const void* line) {
        place.store(line ? line : &qp, std::memory_order_relaxed);  // to fetch what is fetched costs nothing
    };
    show(entry.counters, outside.counters);
    show(entry.sends, outside.sends);
    show(entry.receive_queue, outside.receive_queue);
    show(entry.receives, outside.receives);
}

void QpTable::make_room(std::uint32_t first, std::uint32_t count) {
    for (std::uint32_t done = 0; done < count;) {
        const std::uint32_t number = first + done;
        std::atomic<Block*>& block = blocks_[number / link::kBlockSize % link::kMaxBlocks];
        if (!block.load(std::memory_order_relaxed)) block.store(make_block(), std::memory_order_release);
        done += link::kBlockSize - number % link::kBlockSize;  // to the next block's first
    }
    free_numbers_.reserve(numbers_ + count);
    quarantine_.reserve(numbers_ + count);
}

void QpTable::add_range(std::uint32_t first, std::uint32_t count) {
    make_room(first, count);
    numbers_ += count;
    const std::size_t before = free_numbers_.size();
    free_numbers_.resize(before + count);
    std::iota(free_numbers_.begin() + static_cast<std::ptrdiff_t>(before), free_numbers_.end(), first);
}

// The kernel's zeros are an empty table; pages of numbers that nobody uses never come into being.
QpTable::Block* QpTable::make_block() {
    static_assert(std::is_trivially_destructible_v<Block>);
    void* const zeros =
        mmap(nullptr, sizeof(Block), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (zeros == MAP_FAILED) throw std::bad_alloc();
    return static_cast<Block*>(zeros);
}

Slot& QpTable::take_slot() {
    if (Slot* slot = nullptr; free_slots_.take(slot)) return *slot;
    free_slots_.make_room_for(slots_.size() + 1);
    return slots_.emplace_back();
}

bool QpTable::has_numbers(Time now) {
    while (!quarantine_.empty() && quarantine_.front().free_at <= now) {
        free_numbers_.push_back(quarantine_.front().number);
        quarantine_.pop_front();
    }
    return !free_numbers_.empty();
}

std::uint32_t QpTable::take_number(std::uint64_t random, Time now) {
    if (!has_numbers(now)) return 0;
    std::uint32_t& chosen = free_numbers_[random % free_numbers_.size()];
    const std::uint32_t number = chosen;
    chosen = free_numbers_.back();
    free_numbers_.pop_back();
    return number;
}

void QpTable::give_back_number(std::uint32_t number, Time free_at) {
    if (free_at == 0)
        free_numbers_.push_back(number);
    else
        quarantine_.push_back({number, free_at});
}

}  // namespace verbena::adapter
