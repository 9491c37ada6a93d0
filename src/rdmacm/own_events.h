// Events that the library writes into a channel itself, since the daemon would only repeat what it has told:
// two changes of process less. The daemon hears of it along with the next command.
//
// Thread safety: all calls.
#pragma once

#include <optional>

#include "cm/types.h"

namespace verbena::rdmacm {

struct Channel;
struct Id;

// Whether the library can write to this channel. The first time it cannot: it asks the daemon for its end the
// second time, since who resolves one route would gain nothing, and then no more.
bool can_write(Channel& channel);

// ROUTE_RESOLVED of an id whose last event was ADDR_RESOLVED, which told everything that there is to know;
// once. Otherwise nothing.
std::optional<cm::Event> take_route(Id& id);

// Writes it, on a channel that can be written to. 0, or -1 with errno and a reason: the daemon is gone.
int write_route(const Id& id, const cm::Event& resolved);

}  // namespace verbena::rdmacm
