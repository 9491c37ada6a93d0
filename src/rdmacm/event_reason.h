// The sentence about a connection manager event that reports a failure, for VERBENA_LOG: the event's status
// alone is a number that means something else for each type.
#pragma once

#include <rdma/rdma_cma.h>

#include <string>

#include "rdmacm/id.h"

namespace verbena::rdmacm {

// The sentence; empty if the event is no failure. `peer`: the text of its address.
std::string sentence(const EventRecord& event, const std::string& peer);

// Logs at `warn` if the event is a failure; nothing otherwise, and no text is made when nobody asked for it.
void explain_failure(const EventRecord& event);

}  // namespace verbena::rdmacm
