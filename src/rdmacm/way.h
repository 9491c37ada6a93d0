// Whether the kernel knows a way to an address, found out without the daemon: a missing route is the answer
// of rdma_resolve_addr, and asking the daemon for it would be two changes of process for each new connection.
//
// Thread safety: all calls.
#pragma once

#include "cm/types.h"

namespace verbena::rdmacm {

// False: there is none, or it is not known, so that the daemon has to be asked.
bool has_way(const cm::Endpoint& remote);

}  // namespace verbena::rdmacm
