// One seed of all services beside each other: streams of RC, XRC, UC and UD between a few stations, queues
// that several of them share, multicast groups, memory windows, and crowds of queue pairs that send to one
// receive queue with a small buffer (transport/flow.h).
#pragma once

#include "sim/rc_run.h"

namespace verbena::sim {

Outcome run_services(std::uint64_t seed);

}  // namespace verbena::sim
