// What a run did, from the events that verbena record has of it: which calls, CM messages and packets there
// were, what its programs had not given back when they ended, and which calls they were still in.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "trace/tail.h"

namespace verbena::explore {

struct Recorded {
    std::map<std::string, unsigned> calls;     // the program's own; how often
    std::map<std::string, unsigned> messages;  // "REQ", of the connection manager
    std::map<std::string, unsigned> packets;   // "RC_SEND_ONLY"
    // By program and kind ("rping", "mr"): objects that were made and not destroyed.
    std::map<std::pair<std::string, std::string>, unsigned> left;
    unsigned faults_fired = 0;            // of its plan, how often
    std::vector<std::string> unfinished;  // "rping in rdma_get_cm_event(event_channel 1)"
};

Recorded read_run(const std::vector<trace::Json>& events);

}  // namespace verbena::explore
