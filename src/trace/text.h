// Events as lines for people, as strace writes calls.
#pragma once

#include <cstdint>
#include <string>

#include "trace/timeline.h"

namespace verbena::trace {

class Text {
   public:
    // The line of an event, without its end; empty for what has none. Times are seconds since the first
    // event.
    std::string line(const Json& event, Part part);

   private:
    std::uint64_t first_ = 0;
};

// "{qp_state=RTR, path_mtu=4096}": values as people read them. Names of objects and flags stand without
// quotes, other strings with them.
std::string show_value(const Json& value, const std::string& name = {});

// "qp" of "qp 0x11", "comp_channel" of "comp_channel 2": the kind of an object whose name the value is; empty
// if it is none.
std::string object_kind(const Json& value);

// "127.0.0.1 > 127.0.0.2 rc_send_only qp=0x000011 psn=..": a packet of an event's frame.
std::string show_packet(const std::string& frame);

}  // namespace verbena::trace
