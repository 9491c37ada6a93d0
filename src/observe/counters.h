// The counters of a port by the names that sysfs, rdma statistic and adapters' drivers use.
//
// Thread safety: no state.
#pragma once

#include <cstdint>
#include <span>

#include "adapter/port_totals.h"

namespace verbena::observe {

struct Counter {
    const char* name;
    std::uint64_t (*value)(const adapter::PortTotals&);
    const char* metric;      // node_exporter's name behind "node_infiniband_"; nullptr: it has none
    const char* help;        // what it counts, a sentence without its full stop
    std::uint32_t unit = 1;  // the metric is so many times the value: port_xmit_data counts words of 4 bytes
};

// ports/1/counters (IBA 16.1.3.5, PortCounters). What has no meaning here is 0, as it is on adapters.
std::span<const Counter> port_counters();
// ports/1/hw_counters: Linux rxe's names.
std::span<const Counter> hw_counters();

}  // namespace verbena::observe
