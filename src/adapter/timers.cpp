// All atomics here are sequentially consistent: set() stores the deadline and then reads what the node waits
// for, follow() stores what it waits for and then reads the deadline, so that at least one of them sees the
// other.

#include "adapter/timers.h"

#include <utility>

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

// The node's time in the heap has come. If its deadline has, too, it leaves the heap, is put into taken_, and
// the answer is true; otherwise it waits for its deadline.
bool Timers::reschedule(TimerNode& node, Time now) {
    const Time deadline = node.deadline.load();
    if (deadline > now) {
        follow(node, deadline);
        return false;
    }
    erase(node);
    node.scheduled.store(kNever);
    taken_ = &node;  // its owner sets the next deadline
    return true;
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
                insert(node);
            } else {
                sift_up(node.place);
                sift_down(node.place);
            }
        }
        const Time latest = node.deadline.load();
        if (latest >= deadline) return;
        deadline = latest;
    }
}

void Timers::insert(TimerNode& node) {
    node.place = heap_.size();
    heap_.push_back(&node);
    sift_up(node.place);
}

void Timers::erase(TimerNode& node) {
    const std::size_t place = node.place;
    exchange(place, heap_.size() - 1);
    heap_.pop_back();
    if (place < heap_.size()) {
        sift_up(place);
        sift_down(place);
    }
}

void Timers::exchange(std::size_t a, std::size_t b) {
    std::swap(heap_[a], heap_[b]);
    heap_[a]->place = a;
    heap_[b]->place = b;
}

void Timers::sift_up(std::size_t place) {
    while (place > 0 && earlier(place, (place - 1) / 2)) {
        exchange(place, (place - 1) / 2);
        place = (place - 1) / 2;
    }
}

void Timers::sift_down(std::size_t place) {
    for (;;) {
        std::size_t least = place;
        for (std::size_t child = 2 * place + 1; child <= 2 * place + 2 && child < heap_.size(); child++)
            if (earlier(child, least)) least = child;
        if (least == place) return;
        exchange(place, least);
        place = least;
    }
}

}  // namespace verbena::adapter
