// A static object that is never destroyed: threads of the program may be in a library, and objects of its own
// refer to it, until the very end. Lies in place, so that its first use needs no memory.
#pragma once

#include <cstddef>
#include <new>

namespace verbena {

template <class Thing>
class Immortal {
   public:
    Immortal() { new (place_) Thing; }
    Immortal(const Immortal&) = delete;
    Immortal& operator=(const Immortal&) = delete;

    Thing& operator*() { return *std::launder(static_cast<Thing*>(static_cast<void*>(place_))); }

   private:
    alignas(Thing) std::byte place_[sizeof(Thing)];
};

}  // namespace verbena
