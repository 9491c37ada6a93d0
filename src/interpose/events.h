// The events file: lines of JSON, each appended with one write(2), so that many processes share it and a
// killed one leaves whole lines (docs/trace.md has their form).
#pragma once

#include <cstdint>

#include "interpose/line.h"

namespace verbena::interpose {

// By VERBENA_TRACE_EVENTS: the file's path. Without it no event is written.
bool tracing();
// By VERBENA_TRACE_DATA=0: posts, polls and successful completions are not written.
bool tracing_data();

std::uint64_t wall_clock();  // CLOCK_REALTIME, nanoseconds
std::uint64_t steady_clock();

// Begins an event's line: its kind, "t", "pid" and "tid".
void begin_event(Line& line, const char* kind, std::uint64_t time);
// Closes the line's object and writes it, behind the process's own first line if need be. Keeps errno. What
// cannot be written is lost, since the program is not to be disturbed: it is counted (lost_events.h), and
// told in the file as soon as it takes a line again.
void write_event(Line& line);

}  // namespace verbena::interpose
