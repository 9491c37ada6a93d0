// Commands that wait for the program that the plain `verbena run` becomes: run --fault, which says what never
// fired, trace, record.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "faults/board.h"

namespace verbena::tool {

// The exit status if the program succeeded and some rule of its plan never fired.
inline constexpr int kNeverFired = 125;

using Meanwhile = std::function<void()>;

// Runs the program and waits for it, passing signals on; `meanwhile`, if there is one, is called some 25
// times a second. Returns a status as waitpid(2) has it; 127 and 126 as exit status if the program cannot be
// run.
int run_and_wait(const std::vector<std::string>& command, const Meanwhile& meanwhile = {});

// The exit status that is the program's, or `instead_of_0`; a signal that ended it ends us, too.
int end_as(int status, int instead_of_0 = 0);

// Ends as the signal ends a program; what is in stdout's buffer is lost.
[[noreturn]] void die_of(int signal);

// On stderr, what never fired; true if everything did.
bool tell_what_never_fired(const faults::Board& board);

}  // namespace verbena::tool
