#include "rdmacm/way.h"

#include "base/route_socket.h"
#include "host/client.h"
#include "host/device_table.h"

namespace verbena::rdmacm {
namespace {

bool is_own(const Gid& address) {
    const host::DeviceTable* const devices = host::devices();
    std::uint32_t index;
    return devices && host::find_address(*devices, address, index);
}

}  // namespace

Way way_to(const cm::Endpoint& remote) {
    if (remote.is_any() || remote.is_loopback() || is_own(remote.address)) return Way::here;
    const bool out = !host::fabric().ends_here() && RouteSocket(remote.address, remote.scope_id).error() == 0;
    return out ? Way::out : Way::none;
}

}  // namespace verbena::rdmacm
