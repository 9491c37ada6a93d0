// All atomics here are sequentially consistent: set() stores the deadline and then reads what the node waits
// for, follow() stores what it waits for and then reads the deadline, so that at least one of them sees the
// other.

#include "adapter/timers.h"

#include <algorithm>

namespace verbena::adapter {

void Timers::list(TimerNode& node) {
    TimerNode* head = listed_.load();
    do node.next_listed = head;
    while (!listed_.compare_exchange_weak(head, &node));
}

// After the node is on the list: whoever resets this takes the list afterwards and finds the node.
void Timers::announce(Time deadline) {
    Time earliest = earliest_listed_.load();
    while (deadline < earliest && !earliest_listed_.compare_exchange_weak(earliest, deadline)) {
    }
}

void Timers::take_listed() {
    if (!listed_.load() && earliest_listed_.load() == kNever) return;
    earliest_listed_.store(kNever);
    TimerNode* node = listed_.exchange(nullptr);
    while (node) {
        TimerNode* next = node->next_listed;
        node->listed.store(false);  // a later set() lists it again; an earlier one's deadline is read now
        const Time deadline = node->deadline.load();
        if (deadline < node->scheduled.load(std::memory_order_relaxed)) follow(*node, deadline);
        node = next;
    }
}

// The node's time in the heap has come. If its deadline has, too, it leaves the heap, and the answer is true;
// otherwise it waits for its deadline.
bool Timers::reschedule(TimerNode& node, Time now) {
    const Time deadline = node.deadline.load();
    if (deadline > now) {
        follow(node, deadline);
        return false;
    }
    erase(node);
    node.scheduled.store(kNever);
    return true;  // its owner sets the next deadline
}

// Brings the node to `deadline`, and to any earlier one that is set meanwhile.
void Timers::follow(TimerNode& node, Time deadline) {
    for (;;) {
        const Time before = node.scheduled.load(std::memory_order_relaxed);
        if (deadline == kNever) {
            if (before != kNever) erase(node);
            node.scheduled.store(kNever);
        } else {
            node.scheduled.store(deadline);
            if (before == kNever) {
                node.place = heap_.size();
                heap_.emplace_back();
            }
            settle(node.place, {deadline, &node});
        }
        const Time latest = node.deadline.load();
        if (latest >= deadline) return;
        deadline = latest;
    }
}

void Timers::erase(TimerNode& node) {
    const Entry last = heap_.back();
    heap_.pop_back();
    if (last.node != &node) settle(node.place, last);
}

void Timers::put(std::size_t place, Entry entry) {
    heap_[place] = entry;
    entry.node->place = place;
}

// Puts the entry where it belongs, from a place whose entry is to be overwritten.
void Timers::settle(std::size_t place, Entry entry) {
    constexpr std::size_t kChildren = 4;
    for (std::size_t parent; place > 0 && entry.at < heap_[parent = (place - 1) / kChildren].at;
         place = parent)
        put(place, heap_[parent]);
    for (;;) {
        const std::size_t first = kChildren * place + 1, end = std::min(first + kChildren, heap_.size());
        std::size_t least = place;
        Time earliest = entry.at;
        for (std::size_t child = first; child < end; child++)
            if (heap_[child].at < earliest) earliest = heap_[least = child].at;
        if (least == place) break;
        put(place, heap_[least]);
        place = least;
    }
    put(place, entry);
}

}  // namespace verbena::adapter
