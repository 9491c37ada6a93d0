// verbena run --fault: waits for the program, which the plain `verbena run` becomes, and says what never
// fired.
#pragma once

#include <string>
#include <vector>

#include "faults/board.h"

namespace verbena::tool {

// The exit status if the program succeeded and some rule of its plan never fired.
inline constexpr int kNeverFired = 125;

// Runs the program and waits for it, passing signals on. The exit status is the program's; a signal that
// ended it ends us, too. What never fired is told on stderr, and the board's file removed.
int supervise(const std::vector<std::string>& command, const faults::Board& board, const std::string& file);

}  // namespace verbena::tool
