#include "rdmacm/way.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/own_socket.h"
#include "base/socket_address.h"
#include "host/client.h"
#include "host/device_table.h"

namespace verbena::rdmacm {
namespace {

constexpr std::uint16_t kPort = 4791;  // RoCE v2's; as good as any other for the question

// A fabric that is not on the wire ends at this network namespace, whatever routes there are.
bool has_wire() {
    const host::FabricInfo fabric = host::fabric();
    return !fabric.name[0] || fabric.wire_available;
}

bool is_own(const Gid& address) {
    const host::DeviceTable* const devices = host::devices();
    std::uint32_t index;
    return devices && host::find_address(*devices, address, index);
}

}  // namespace

bool has_way(const cm::Endpoint& remote) {
    if (remote.is_any() || remote.is_loopback() || is_own(remote.address)) return true;
    if (!has_wire()) return false;
    // Connecting a datagram socket looks the route up and sends nothing.
    const SocketAddress to(remote.address, kPort, remote.scope_id);
    const int fd = own_socket(to.get()->sa_family, SOCK_DGRAM | SOCK_CLOEXEC);
    if (fd < 0) return false;
    const bool has = connect(fd, to.get(), to.size()) == 0;
    close(fd);
    return has;
}

}  // namespace verbena::rdmacm
