// A program's plan of faults: from the environment (VERBENA_FAULT names the board's file; verbena run --fault
// sets it) or from the daemon (verbena fault). Sets the seams of calls and packets, as far as the rules need
// them, and never takes them back.
//
// Thread safety: all calls.
#pragma once

#include <functional>

#include "faults/rule.h"

namespace verbena::faults {

inline constexpr char kVariable[] = "VERBENA_FAULT";
// The same for the interposer over other libraries, which know of no plan.
inline constexpr char kInterposedVariable[] = "VERBENA_CALL_FAULT";

// A link goes down or a device fails; called with locks held, so it must not wait.
using PortFault = std::function<void(const Rule&)>;

// Reads the environment, the first time.
void start_from_environment(const PortFault& port);
// The daemon has a board for us; `fd` stays the caller's. The same one again is looked at again, since it may
// have more rules.
void start(int fd, const PortFault& port);

// Rules about ports without conditions come true now, once: the program has a device.
void device_opened(const PortFault& port);

// While a link is down, nothing leaves or arrives.
void set_link_down(bool down);
bool link_is_down();

// The board's descriptor, -1 if there is none.
int board_fd();

}  // namespace verbena::faults
