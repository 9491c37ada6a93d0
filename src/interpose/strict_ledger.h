// What strict mode remembers of objects: events that were fetched and not acknowledged, and what is left at
// the end.
//
// Not thread-safe; strict.cpp holds a lock.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace verbena::interpose {

// Events by the object that waits for their acknowledgement when it is destroyed.
class Unacknowledged {
   public:
    using Object = const void*;

    struct Event {
        Object event;      // by which the program acknowledges it; nullptr: they are counted
        std::string name;  // or by type
        int type = 0;
    };
    void fetched(Object object, Event event) { events_[object].push_back(std::move(event)); }
    // The program acknowledges: whether, or for how many of them, the library is to be told. Not for what
    // give_up() has taken, unless events came since then that look the same.
    bool acknowledged(Object event);
    unsigned acknowledged(Object object, unsigned count, int type = 0);

    const std::vector<Event>& of(Object object) const;
    // They are acknowledged in the program's place, who may still do it.
    std::vector<Event> give_up(Object object);
    void forget(Object object) { events_.erase(object); }

   private:
    unsigned take_given_up(Object object, int type, unsigned count);

    std::map<Object, std::vector<Event>> events_;
    std::map<std::pair<Object, int>, unsigned> given_up_;  // by event, or by object and type
};

// The objects of a process, and where they were made.
class Inventory {
   public:
    using Object = const void*;
    static constexpr std::size_t kFrames = 12;
    using Place =
        std::array<const void*, kFrames>;  // return addresses, ending with nullptr if there are fewer

    void made(Object object, const char* kind, const Place& place, pid_t process) {
        known_[object] = {kind, place, process};
    }
    void gone(Object object) { known_.erase(object); }

    struct Left {
        const char* kind;
        unsigned count;
        Place place;
    };
    // Those of that process, by kind and place.
    std::vector<Left> left(pid_t process) const;

   private:
    struct Known {
        const char* kind;
        Place place;
        pid_t process;
    };
    std::map<Object, Known> known_;
};

}  // namespace verbena::interpose
