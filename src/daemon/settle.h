// What a process inherits and a daemon of all programs must not have from the first: ignored signals, limits,
// the umask, and where, how and how eagerly it is scheduled.
#pragma once

namespace verbena::daemon {

// As far as this user may. What stays: hard limits, cgroups, filters of system calls. Who starts the daemon
// by hand has also decided how it is scheduled.
void settle(bool by_program);

}  // namespace verbena::daemon
