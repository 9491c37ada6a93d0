// What has gone over each device's port and is nobody's any more: the counts of programs that have ended, the
// connection manager's own packets, and how often the port went down. As long as the daemon lives.
#pragma once

#include <cstdint>
#include <map>

#include "observe/tables.h"

namespace verbena::daemon {

class Totals {
   public:
    // A program that had opened a device has ended; its tables can still be read.
    void program_ended(int tables);
    void mad_sent(std::uint32_t device);
    void mad_received(std::uint32_t device);
    // Looks for ports that are down and were up before.
    void port_is(std::uint32_t device, bool active);

    std::uint64_t ended() const { return ended_; }  // programs
    adapter::PortTotals of(std::uint32_t device) const {
        const auto found = ports_.find(device);
        return found == ports_.end() ? adapter::PortTotals{} : found->second;
    }

   private:
    observe::Ports ports_;
    std::map<std::uint32_t, bool> active_;
    std::uint64_t ended_ = 0;
};

}  // namespace verbena::daemon
