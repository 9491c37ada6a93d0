#include "rdmacm/way.h"

#include "base/route_socket.h"
#include "host/client.h"

namespace verbena::rdmacm {

Way way_to(const cm::Endpoint& remote) {
    if (remote.is_any() || remote.is_loopback() || host::is_own(remote.address)) return Way::here;
    const bool out = !host::fabric().ends_here() && RouteSocket(remote.address, remote.scope_id).error() == 0;
    return out ? Way::out : Way::none;
}

}  // namespace verbena::rdmacm
