// One seed of the connection manager simulation: programs that come and go on two or three hosts, MADs that
// are lost, doubled, late and corrupted; everything must end, and leave nothing behind.
#pragma once

#include <cstdint>

#include "sim/rc_run.h"

namespace verbena::sim {

Outcome run_connection_managers(std::uint64_t seed);

}  // namespace verbena::sim
