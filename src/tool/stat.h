// verbena stat: counters of ports and of queue pairs. verbena metrics: those of ports for Prometheus.
#pragma once

#include <cstdint>

namespace verbena::tool {

struct StatOptions {
    bool json = false;
    bool all = false;          // also what is 0
    bool queue_pairs = false;  // of each queue pair, instead of ports
    std::uint32_t pid = 0;     // of this program only; 0: of all
};

// Returns the exit status.
int show_counters(const StatOptions& options);

// In the OpenMetrics text format, by node_exporter's names.
int show_metrics();

}  // namespace verbena::tool
