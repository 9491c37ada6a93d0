// Everything that failed in a recording, one entry for each kind, with what the numbers mean.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "report/conversation.h"
#include "report/words.h"

namespace verbena::report {

struct Trouble {
    std::uint64_t time = 0;  // of the first
    std::string who;         // the program; may be empty
    std::string title;       // "ibv_modify_qp: EINVAL", "IBV_WC_RETRY_EXC_ERR"
    std::string reason;      // the sentence with the values that the library gave; of the first
    std::vector<std::pair<std::string, std::string>> explanations;  // heading, text
    bool expected = false;                                          // belongs to a tear-down
    unsigned count = 1;
    std::size_t packet = kNone;  // of those that are about packets
};

// In order of time.
std::vector<Trouble> find_troubles(const Recording& recording, const std::vector<ViewedPacket>& views,
                                   Language language);

}  // namespace verbena::report
