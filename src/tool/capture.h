// verbena capture: the packets of all programs of the user, from now until Ctrl-C.
#pragma once

#include <string>

namespace verbena::tool {

// `file`: "-" is stdout, for a pipe into Wireshark. The exit status.
int capture(const std::string& file);

}  // namespace verbena::tool
