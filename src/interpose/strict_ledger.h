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
#include <set>
#include <string>
#include <vector>

namespace verbena::interpose {

// Events by the object that waits for their acknowledgement when it is destroyed.
class Unacknowledged {
   public:
    using Object = const void*;

    // An event is known by its address, if the program acknowledges it by that; completion events are counted
    // (nullptr).
    void fetched(Object object, Object event, const std::string& name) {
        events_[object].push_back({event, name});
    }
    // False if it is one that forget() has given up.
    bool acknowledged(Object event);
    void acknowledged(Object object, unsigned count);

    struct Event {
        Object event;
        std::string name;
    };
    const std::vector<Event>& of(Object object) const;
    // They have been acknowledged in the program's place; what it does about them now is not to be done
    // again.
    void give_up(Object object);
    void forget(Object object) { events_.erase(object); }

   private:
    std::map<Object, std::vector<Event>> events_;
    std::set<Object> given_up_;
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
