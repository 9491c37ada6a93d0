// verbena handshake: the CM messages of a capture as a ladder between the two ends of each connection.
#pragma once

#include <string>
#include <vector>

namespace verbena::tool {

// Draws every connection of the files to stdout. Returns the exit status: 1 if a file cannot be read or there
// is no handshake in it.
int draw_handshake(const std::vector<std::string>& files);

}  // namespace verbena::tool
