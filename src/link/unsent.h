// Shows the observer packets that no wire sees, as they would have been: those that travel through shared
// memory, and those that a plan of faults took away or made up.
//
// Thread safety: all calls.
#pragma once

#include "link/hooks.h"
#include "wire/packet.h"
#include "wire/packet_sink.h"

namespace verbena::link {

// One that would have left; packet.note goes along.
void show_unsent(PacketObserver& observer, const wire::OutPacket& packet);
// One that arrives, without payload.
void show_arrival(PacketObserver& observer, const wire::Packet& packet, const wire::Path& path,
                  const char* note);

}  // namespace verbena::link
