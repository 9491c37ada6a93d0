// Whether there is a way to an address. Connecting a datagram socket asks exactly that and sends nothing.

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/own_socket.h"
#include "base/reason.h"
#include "verbs/queries.h"

namespace verbena::verbs {
namespace {

// RoCE v2's; as good as any other for the question.
constexpr std::uint16_t kPort = 4791;

int connect_to(int fd, const sockaddr* address, socklen_t size) {
    return connect(fd, address, size) == 0 ? 0 : errno;
}

int ask_kernel(const wire::Path& path) {
    const Gid& destination = path.destination;
    const int fd = own_socket(destination.is_ipv4() ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC);
    if (fd < 0) return 0;  // not the answer to this question
    int error;
    if (destination.is_ipv4()) {
        sockaddr_in to{};
        to.sin_family = AF_INET;
        to.sin_port = htons(kPort);
        to.sin_addr.s_addr = htonl(destination.ipv4());
        error = connect_to(fd, reinterpret_cast<const sockaddr*>(&to), sizeof to);
    } else {
        sockaddr_in6 to{};
        to.sin6_family = AF_INET6;
        to.sin6_port = htons(kPort);
        std::memcpy(&to.sin6_addr, destination.bytes.data(), sizeof to.sin6_addr);
        if (destination.is_link_local()) to.sin6_scope_id = path.interface_index;
        error = connect_to(fd, reinterpret_cast<const sockaddr*>(&to), sizeof to);
    }
    close(fd);
    return error;
}

}  // namespace

int check_route(const wire::Path& path) {
    if (path.destination.is_multicast()) return 0;
    const int error = ask_kernel(path);
    if (error != ENETUNREACH && error != EHOSTUNREACH) return 0;
    return fail(error, "there is no route to grh.dgid %s", to_string(path.destination).c_str());
}

}  // namespace verbena::verbs
