// Whether there is a way to an address.
//
// A fabric whose UDP port is its own (host::FabricInfo) ends at this network namespace, whatever routes there
// are.

#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>

#include "base/own_socket.h"
#include "base/reason.h"
#include "base/route_socket.h"
#include "base/socket_address.h"
#include "host/client.h"
#include "verbs/queries.h"

namespace verbena::verbs {
namespace {

struct Answer {
    int error = 0;
    bool own = false;  // an address of this namespace: the kernel would send to it from itself
};

Answer ask_kernel(const wire::Path& path) {
    const RouteSocket socket(path.destination, path.interface_index);
    // Else not this question's answer.
    if (!socket.asked()) return {is_refusal(socket.error()) ? ENETUNREACH : 0, true};
    Answer answer;
    sockaddr_in6 from{};
    auto* const any = reinterpret_cast<sockaddr*>(&from);
    socklen_t size = sizeof from;
    if ((answer.error = socket.error()) != 0) return answer;
    if (getsockname(socket.fd(), any, &size) != 0)
        answer.error = errno;
    else
        answer.own = gid_of(any) == path.destination || path.destination.is_loopback();
    return answer;
}

}  // namespace

int check_route(const wire::Path& path) {
    if (path.destination.is_multicast()) return 0;
    if (path.destination == path.source) return 0;  // an address of our own
    const Answer answer = ask_kernel(path);
    if (answer.error == ENETUNREACH || answer.error == EHOSTUNREACH)
        return fail(answer.error, "there is no route to grh.dgid %s", to_string(path.destination).c_str());
    if (!answer.own && path.source.is_loopback() && !host::is_own(path.destination))
        return fail(ENETUNREACH, "grh.dgid %s cannot be reached from %s, an address of this host alone",
                    to_string(path.destination).c_str(), to_string(path.source).c_str());
    if (answer.error || answer.own) return 0;
    const host::FabricInfo fabric = host::fabric();
    if (!fabric.ends_here()) return 0;
    return fail(ENETUNREACH, "grh.dgid %s: %s", to_string(path.destination).c_str(), fabric.note.data());
}

}  // namespace verbena::verbs
