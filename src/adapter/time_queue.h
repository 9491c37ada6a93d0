// A priority queue for times that mostly come in order: a deadline is the time of day and one of a few
// intervals. Each lane is a queue whose times ascend; an entry goes behind the latest that is not later than
// itself, and into a heap if there is none. So the usual costs no search, however many entries there are.
//
// Thread safety: none.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <functional>
#include <limits>
#include <vector>

#include "base/fifo.h"
#include "base/time.h"

namespace verbena::adapter {

template <class Node>
class TimeQueue {
   public:
    struct Entry {
        Time at;  // before kNever
        Node* node;
        bool operator>(const Entry& other) const { return at > other.at; }
    };

    TimeQueue() {
        firsts_.fill(kNever);
        lasts_.fill(kBeforeAll);
    }

    std::size_t size() const { return size_; }
    // kNever: there is none.
    Time earliest() const { return firsts_[earliest_place()]; }

    // For so many entries, however late: push() needs no memory then. Throws std::bad_alloc.
    void reserve(std::size_t entries) {
        if (entries <= reserved_) return;
        for (auto& lane : lanes_) lane.reserve(entries);
        heap_.reserve(lanes_[0].capacity());
        reserved_ = lanes_[0].capacity();
    }
    void push(Entry entry) {
        size_++;
        std::size_t behind = kLanes;
        for (std::size_t lane = 0; lane < kLanes; lane++)
            if (lasts_[lane] <= entry.at && (behind == kLanes || lasts_[lane] > lasts_[behind]))
                behind = lane;
        firsts_[behind] = std::min(firsts_[behind], entry.at);
        if (behind < kLanes) {
            lanes_[behind].push_back(entry);
            lasts_[behind] = entry.at;
        } else {
            heap_.push_back(entry);
            std::push_heap(heap_.begin(), heap_.end(), std::greater{});
        }
    }
    // The earliest; there is one.
    const Entry& first() const {
        const std::size_t place = earliest_place();
        return place < kLanes ? lanes_[place].front() : heap_.front();
    }
    Entry pop() {
        size_--;
        const std::size_t place = earliest_place();
        Entry first;
        if (place < kLanes) {
            first = lanes_[place].front();
            lanes_[place].pop_front();
            look_again(place);
        } else {
            std::pop_heap(heap_.begin(), heap_.end(), std::greater{});
            first = heap_.back();
            heap_.pop_back();
            firsts_[kLanes] = heap_.empty() ? kNever : heap_.front().at;
        }
        return first;
    }
    template <class Predicate>
    void erase_if(Predicate predicate) {
        for (std::size_t lane = 0; lane < kLanes; lane++) {
            lanes_[lane].erase_if(predicate);
            look_again(lane);
        }
        std::erase_if(heap_, predicate);
        std::make_heap(heap_.begin(), heap_.end(), std::greater{});
        firsts_[kLanes] = heap_.empty() ? kNever : heap_.front().at;
        size_ = heap_.size();
        for (const auto& lane : lanes_) size_ += lane.size();
    }

   private:
    static constexpr std::size_t kLanes = 6;
    static constexpr Time kBeforeAll = std::numeric_limits<Time>::min();

    std::size_t earliest_place() const {
        return static_cast<std::size_t>(std::min_element(firsts_.begin(), firsts_.end()) - firsts_.begin());
    }
    void look_again(std::size_t lane) {
        const bool empty = lanes_[lane].empty();
        firsts_[lane] = empty ? kNever : lanes_[lane].front().at;
        lasts_[lane] = empty ? kBeforeAll : lanes_[lane].back().at;
    }

    std::array<Time, kLanes + 1> firsts_;  // of each lane, and of the heap
    std::array<Time, kLanes> lasts_;       // of each lane
    std::size_t size_ = 0, reserved_ = 0;
    std::array<Fifo<Entry>, kLanes> lanes_;
    std::vector<Entry> heap_;
};

}  // namespace verbena::adapter
