// What there is at this moment: devices, programs and their objects, connection manager ids, ports' counters.
// The daemon says who is there; the numbers come from the programs' own tables.
#pragma once

#include <cstdint>
#include <vector>

#include "cm/summary.h"
#include "host/connection.h"
#include "host/device_table.h"
#include "observe/tables.h"

namespace verbena::observe {

struct Program {
    std::uint32_t session = 0;  // the daemon's number of it
    std::uint32_t pid = 0;      // as the daemon sees it; as the program itself does if the daemon cannot
    std::uint32_t user = 0;
    Tables tables;
};

struct Snapshot {
    std::vector<host::Device> devices;
    std::vector<Program> programs;  // that have opened a device, and that this user may see
    struct Id {
        cm::IdSummary id;
        std::uint32_t pid = 0;
    };
    std::vector<Id> ids;
    Ports ports;  // of all of these programs, of those that have ended, and of the connection manager

    const host::Device* device(std::uint32_t index) const;
};

// 0 or an errno with a reason.
int take_snapshot(host::Connection& connection, Depth depth, Snapshot& out);

}  // namespace verbena::observe
