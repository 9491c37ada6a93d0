// What waits in line, in one block of memory that doubles when it is full: who has reserved for as many as
// there can be needs no memory afterwards, and one that is filled and emptied again and again never does.
//
// Thread safety: none.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <memory>
#include <type_traits>
#include <utility>

namespace verbena {

template <class Thing>
class Fifo {
    static_assert(std::is_trivially_copyable_v<Thing>);

   public:
    std::size_t size() const { return size_; }
    bool empty() const { return size_ == 0; }
    std::size_t capacity() const { return capacity_; }
    // The first is the 0th.
    Thing& operator[](std::size_t place) { return places_[(first_ + place) & (capacity_ - 1)]; }
    const Thing& operator[](std::size_t place) const { return places_[(first_ + place) & (capacity_ - 1)]; }
    Thing& front() { return (*this)[0]; }
    const Thing& front() const { return (*this)[0]; }
    Thing& back() { return (*this)[size_ - 1]; }
    const Thing& back() const { return (*this)[size_ - 1]; }

    // For so many in all. Throws std::bad_alloc, and has changed nothing.
    void reserve(std::size_t things) {
        if (things > capacity_) move_to(std::bit_ceil(things));
    }
    // Throw likewise, but not within what was reserved.
    void push_back(const Thing& thing) {
        if (size_ == capacity_) [[unlikely]]
            move_to(std::max<std::size_t>(8, 2 * capacity_));
        (*this)[size_++] = thing;
    }
    void push_front(const Thing& thing) {
        if (size_ == capacity_) [[unlikely]]
            move_to(std::max<std::size_t>(8, 2 * capacity_));
        first_ = (first_ + capacity_ - 1) & (capacity_ - 1);
        size_++;
        front() = thing;
    }
    void pop_front() {
        first_ = (first_ + 1) & (capacity_ - 1);
        size_--;
    }
    // How many they were. The others stay in order.
    template <class Predicate>
    std::size_t erase_if(Predicate predicate) {
        std::size_t kept = 0;
        for (std::size_t i = 0; i < size_; i++)
            if (!predicate((*this)[i])) (*this)[kept++] = (*this)[i];
        const std::size_t gone = size_ - kept;
        size_ = kept;
        return gone;
    }

   private:
    void move_to(std::size_t capacity) {
        auto places = std::make_unique_for_overwrite<Thing[]>(capacity);
        for (std::size_t i = 0; i < size_; i++) places[i] = (*this)[i];
        places_ = std::move(places);
        capacity_ = capacity;
        first_ = 0;
    }

    std::unique_ptr<Thing[]> places_;
    std::size_t capacity_ = 0;  // 0, or a power of two
    std::size_t first_ = 0, size_ = 0;
};

}  // namespace verbena
