// What went over the wire and completed, by time: for the plots.
#pragma once

#include <cstdint>
#include <vector>

#include "report/conversation.h"

namespace verbena::report {

struct Series {
    std::uint64_t start = 0, step = 1;  // nanoseconds
    // One value for each step.
    std::vector<std::uint64_t> bytes;        // of payload, packets of data
    std::vector<std::uint32_t> packets;      // of data
    std::vector<std::uint32_t> messages;     // of data, counted at their last packet
    std::vector<std::uint32_t> completions;  // successful
    std::vector<std::uint32_t> failed;       // completions
    std::vector<std::uint32_t> repeated;     // packets sent again, lost ones, NAKs
};

Series make_series(const Recording& recording, const std::vector<ViewedPacket>& views);

}  // namespace verbena::report
