// A plan of faults reaches this program here (faults/program.h).
#pragma once

#include "base/gid.h"

namespace verbena::verbs {

// The environment's, if no call has looked at it yet.
void read_plan();

// The daemon may have a plan for us, or a longer one; somebody may capture. Call the daemon.
void look_at_plan();
void look_at_captures(bool (*is_local)(const Gid& address));

// A device is open: what the plan wants of ports may come true.
void device_opened();

}  // namespace verbena::verbs
