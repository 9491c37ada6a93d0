// Which faults to try on a program, by what it did without any: each call failed, each CM message and each
// kind of packet lost, late or twice, each kind of request refused by its receiver; one at a time.
#pragma once

#include <string>
#include <vector>

#include "explore/recorded.h"

namespace verbena::explore {

enum class Subject { calls, messages, packets };

struct Trial {
    Subject subject;
    std::string plan;  // as verbena run --fault takes it
    // Reliable services and the connection manager make good for it, so that the program should not notice.
    bool made_good = false;
};

// Of a call that comes often, the first so many and the last.
inline constexpr unsigned kFirstCalls = 2;

std::vector<Trial> trials_for(const Recorded& run);

}  // namespace verbena::explore
