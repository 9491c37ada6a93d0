// Which way the kernel knows to an address, found out without the daemon: a missing route is the answer of
// rdma_resolve_addr, and asking the daemon for it would be two changes of process for each new connection.
//
// Thread safety: all calls.
#pragma once

#include "cm/types.h"

namespace verbena::rdmacm {

enum class Way {
    none,  // or it is not known, so that the daemon has to be asked
    here,  // it is this host
    out,
};
Way way_to(const cm::Endpoint& remote);

}  // namespace verbena::rdmacm
