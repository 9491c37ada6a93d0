// The tree of the devices as they are now.
#pragma once

namespace verbena::view {

// The root of the tree that shows the devices of this process's user, network namespace and fabric, under the
// names that this process gives them; nullptr with errno and a reason if there are none to show. Asks the
// daemon, starting it if need be, at most once a second; no descriptor stays open. The string lives for ever.
// Thread safety: all; after fork(), too. Not for signal handlers.
const char* current_root();

}  // namespace verbena::view
