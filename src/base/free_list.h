// Numbered things that were given back, to be taken again. Who gives back what was taken never needs memory
// for that: the room is made before a thing is taken for the first time.
//
// Thread safety: none.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace verbena {

template <class Thing>
class FreeList {
   public:
    // The last one that was given back; false if there is none.
    bool take(Thing& out) {
        if (free_.empty()) return false;
        out = free_.back();
        free_.pop_back();
        return true;
    }
    // Another one is to be taken that has never been here. Throws std::bad_alloc, and has changed nothing.
    void make_room() {
        if (known_ == free_.capacity()) free_.reserve(std::max<std::size_t>(64, 2 * known_));
        known_++;
    }
    void give_back(Thing thing) noexcept { free_.push_back(thing); }
    const Thing* data() const { return free_.data(); }

   private:
    std::vector<Thing> free_;
    std::size_t known_ = 0;  // free and taken
};

}  // namespace verbena
