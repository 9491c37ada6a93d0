// Getting UDP port 4791, the wire, which one user at a time can have.
//
// The daemon that has it listens on a well-known name; an idle one leaves when another asks, a busy one says
// who it is. The sockets that a dead daemon's programs still hold are waited for (they close them as soon as
// they notice). We never join a group that is alive: its programs would get our packets and we theirs.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/descriptor.h"
#include "base/time.h"
#include "daemon/loop.h"

namespace verbena::daemon {

// Waits until nobody holds the port, at most `patience`. True: it can be bound. False: `note` says who has
// it, as the beginning of a sentence ("UDP port 4791 is taken by ...").
bool wait_for_port(std::uint16_t port, Duration patience, std::string& note);

// Answers those who want the port.
class YieldListener {
   public:
    struct Answer {
        bool leaving = false;
        std::string holder;  // "pid 77, 2 programs"
    };
    using Ask = std::function<Answer()>;

    // Failure means only that nobody can ask.
    void open(Loop& loop, std::uint16_t port, Ask ask);
    void close(Loop& loop);

   private:
    Descriptor listener_;
};

}  // namespace verbena::daemon
