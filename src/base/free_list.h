// Things that were given back, to be taken again. Who gives back what was taken never needs memory for that:
// the room is made before a thing is taken for the first time.
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
    // For so many things in all, before there is the last of them. Throws std::bad_alloc, and has changed
    // nothing.
    void make_room_for(std::size_t things) {
        if (things > free_.capacity()) free_.reserve(std::max<std::size_t>(64, 2 * things));
    }
    void give_back(Thing thing) noexcept { free_.push_back(thing); }
    const Thing* data() const { return free_.data(); }

   private:
    std::vector<Thing> free_;
};

}  // namespace verbena
