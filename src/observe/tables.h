// A process's exported tables (adapter/segment.h) as another process reads them: by pread(2), record for
// record, so that nothing is mapped, nothing of the file is made real, and a file of nonsense does no harm.
// The process does not notice.
//
// Thread safety: no state.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "adapter/segment.h"

namespace verbena::observe {

struct QueuePair {
    std::uint32_t number = 0, state = 0, service = 0, pd = 0;  // as in adapter::QpRecord
    Gid local, peer;
    std::uint32_t peer_qp = 0, path_mtu = 0;
    std::uint32_t rq_psn = 0, sq_psn = 0;
    std::uint32_t device = 0, peer_device = 0, send_cq = 0, receive_cq = 0;
    transport::QpCounters counters{};
};

struct Region {
    std::uint32_t number = 0;  // index in the table
    std::uint32_t lkey = 0, rkey = 0, access = 0, pd = 0;
    std::uint64_t address = 0, length = 0;
};

struct Object {
    adapter::ObjectKind kind{};
    std::uint32_t number = 0, device = 0, context = 0, pd = 0, cq = 0, size = 0;
};

using Ports = std::map<std::uint32_t, adapter::PortTotals>;  // by host::Device::index

struct Tables {
    std::uint32_t pid = 0;      // as the process sees itself
    std::uint64_t started = 0;  // adapter::now()
    std::string command;        // without control characters; any bytes otherwise
    std::vector<QueuePair> queue_pairs;
    std::vector<Region> regions;
    std::vector<Object> objects;
    Ports ended;  // what queue pairs have counted that are gone

    // What the process has added to each port.
    void add_to(Ports& ports) const;
    // Of all queue pairs, also of those that are gone.
    transport::QpCounters total() const;
};

// What is wanted: everything, or what add_to() and total() need.
enum class Depth : std::uint8_t { counters, everything };

// False: the file has no tables of this version.
bool read_tables(int fd, Depth depth, Tables& out);

}  // namespace verbena::observe
