// Plans of faults as the command reads and shows them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "faults/board.h"
#include "faults/parse.h"

namespace verbena::tool {

// `given` is the name of a file, if there is one of that name, and otherwise the plan itself. False when what
// is wrong was told.
bool read_plan(const std::string& given, std::vector<faults::PlannedRule>& rules);

// False when it was told that there is no room.
bool add_rules(faults::Board& board, const std::vector<faults::PlannedRule>& rules);

// A board in a file of its own, in $XDG_RUNTIME_DIR, /dev/shm or /tmp; `path` is set. nullptr when the reason
// was told.
std::unique_ptr<faults::Board> make_board(std::string& path);

}  // namespace verbena::tool
