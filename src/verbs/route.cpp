// Whether there is a way to an address. Connecting a datagram socket asks exactly that and sends nothing.
//
// A fabric whose UDP port is its own (host::FabricInfo) ends at this network namespace, whatever routes there
// are.

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/own_socket.h"
#include "base/reason.h"
#include "host/client.h"
#include "verbs/queries.h"

namespace verbena::verbs {
namespace {

// RoCE v2's; as good as any other for the question.
constexpr std::uint16_t kPort = 4791;

struct Answer {
    int error = 0;
    bool own = false;  // an address of this namespace: the kernel would send to it from itself
};

template <class Address>
void ask(int fd, const Address& to, Address& from, Answer& answer) {
    socklen_t size = sizeof from;
    if (connect(fd, reinterpret_cast<const sockaddr*>(&to), sizeof to) != 0 ||
        getsockname(fd, reinterpret_cast<sockaddr*>(&from), &size) != 0)
        answer.error = errno;
}

bool is_loopback(const Gid& gid) { return gid.is_ipv4() && gid.bytes[12] == 127; }

Answer ask_kernel(const wire::Path& path) {
    const Gid& destination = path.destination;
    Answer answer;
    const int fd = own_socket(destination.is_ipv4() ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC);
    if (fd < 0) return {0, true};  // not the answer to this question
    if (destination.is_ipv4()) {
        sockaddr_in to{}, from{};
        to.sin_family = AF_INET;
        to.sin_port = htons(kPort);
        to.sin_addr.s_addr = htonl(destination.ipv4());
        ask(fd, to, from, answer);
        answer.own = from.sin_addr.s_addr == to.sin_addr.s_addr || is_loopback(destination);
    } else {
        sockaddr_in6 to{}, from{};
        to.sin6_family = AF_INET6;
        to.sin6_port = htons(kPort);
        std::memcpy(&to.sin6_addr, destination.bytes.data(), sizeof to.sin6_addr);
        if (destination.is_link_local()) to.sin6_scope_id = path.interface_index;
        ask(fd, to, from, answer);
        answer.own = std::memcmp(&from.sin6_addr, &to.sin6_addr, sizeof to.sin6_addr) == 0;
    }
    close(fd);
    return answer;
}

}  // namespace

int check_route(const wire::Path& path) {
    if (path.destination.is_multicast()) return 0;
    if (path.destination == path.source) return 0;  // an address of our own
    const Answer answer = ask_kernel(path);
    if (answer.error == ENETUNREACH || answer.error == EHOSTUNREACH)
        return fail(answer.error, "there is no route to grh.dgid %s", to_string(path.destination).c_str());
    if (answer.error || answer.own) return 0;
    const host::FabricInfo fabric = host::fabric();
    if (!fabric.name[0] || fabric.wire_available) return 0;
    return fail(ENETUNREACH, "grh.dgid %s: %s", to_string(path.destination).c_str(), fabric.note.data());
}

}  // namespace verbena::verbs
