// Which packets concern the traced program: a fabric's capture has those of all programs.
#pragma once

#include <cstdint>
#include <set>

#include "trace/tail.h"

namespace verbena::trace {

class Concerned {
   public:
    // Learns queue pairs and their peers from events, in their order.
    void note(const Json& event);
    // Packets of the connection manager (to queue pair 1) concern everybody; others the program that has the
    // queue pair, or one that is connected with it. `data`: whether those are wanted at all.
    bool concerns(const Json& packet, bool data) const;

   private:
    std::set<std::uint32_t> queue_pairs_;  // the program's own, and their peers
};

}  // namespace verbena::trace
