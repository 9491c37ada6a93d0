// Whether a queue pair can miss its turn (transport/flow.h) when another thread opens and closes the window
// that they share while it looks: every interleaving of two acts of the other thread's with its looks.
#pragma once

#include <string>

namespace verbena::transport::testing {

// Empty, or the first interleaving after which a request is neither sent nor waits.
std::string find_missed_turn();

}  // namespace verbena::transport::testing
