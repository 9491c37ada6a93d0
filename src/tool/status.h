// verbena status: the daemon and its devices.
#pragma once

namespace verbena::tool {

// Starts the daemon if there is none, as any program would. Returns the exit status.
int show_status(bool json);

}  // namespace verbena::tool
