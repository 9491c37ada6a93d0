// Events that the library writes into a channel itself, since the daemon would only repeat what it has told:
// two changes of process less. The daemon hears of it along with the next command.
//
// Thread safety: all calls.
#pragma once

#include <optional>

#include "cm/types.h"
#include "host/protocol.h"
#include "rdmacm/known_addresses.h"

namespace verbena::rdmacm {

struct Channel;
struct Id;

// Whether the library can write to this channel. The first time it cannot: it asks the daemon for its end the
// second time, since who resolves one route would gain nothing, and then no more.
bool can_write(Channel& channel);

// ADDR_RESOLVED of an id that is not bound and has no options, if the daemon has said before what it says of
// that address, and has lent a port. Otherwise nothing.
std::optional<cm::Event> take_address(const Id& id, const cm::Endpoint& remote);
// The daemon is asked about an address of this host for such an id: its answer is to be known from then on.
void will_learn(Id& id, const KnownAddresses::Moment& asked);
void learn_address(Id& id, const cm::Event& resolved);

// ROUTE_RESOLVED of an id whose last event was ADDR_RESOLVED, which told everything that there is to know;
// once. Otherwise nothing.
std::optional<cm::Event> take_route(Id& id);

// Writes it, on a channel that can be written to. 0, or -1 with errno and a reason: the daemon is gone.
int write_address(const Id& id, host::ResolveAddressRequest request, const cm::Event& resolved);
int write_route(const Id& id, const cm::Event& resolved);

}  // namespace verbena::rdmacm
