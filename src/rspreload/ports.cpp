#include "rspreload/ports.h"

#include <netinet/in.h>
#include <rdma/rsocket.h>

#include <cerrno>
#include <utility>

#include "rspreload/descriptor.h"
#include "rspreload/real.h"

namespace verbena::rspreload {
namespace {

// A stream of the kernel's that may share its port with whom this one may.
int like(int fd, const Entry& entry) {
    const int other = real().socket(entry.domain, SOCK_STREAM | SOCK_CLOEXEC, 0);
    for (const auto& [level, option] :
         {std::pair{SOL_SOCKET, SO_REUSEADDR}, {SOL_SOCKET, SO_REUSEPORT}, {IPPROTO_IPV6, IPV6_V6ONLY}}) {
        int value;
        socklen_t size = sizeof value;
        if (other >= 0 && real().getsockopt(fd, level, option, &value, &size) == 0)
            real().setsockopt(other, level, option, &value, size);
    }
    return other;
}

bool lets_choose(const sockaddr_storage& address, socklen_t length) {
    const void* const bytes = &address;
    in_port_t port = 1;
    if (address.ss_family == AF_INET && length >= sizeof(sockaddr_in))
        port = static_cast<const sockaddr_in*>(bytes)->sin_port;
    if (address.ss_family == AF_INET6 && length >= sizeof(sockaddr_in6))
        port = static_cast<const sockaddr_in6*>(bytes)->sin6_port;
    return port == 0;
}

}  // namespace

int bind_both(int fd, int rs, const Entry& entry, sockaddr_storage& local, socklen_t& length) {
    constexpr int kMost = 100;  // of ports that only TCP has free
    const sockaddr_storage wish = local;
    const bool chooses = lets_choose(wish, length);
    for (int tries = 0;; tries++) {
        const Descriptor probe(like(fd, entry));
        local = wish;
        if (real().bind(probe.get(), generic(local), length) != 0) {
            if (errno == EADDRINUSE) return -1;
        } else if (chooses) {
            socklen_t size = length;
            real().getsockname(probe.get(), generic(local), &size);
        }
        if (rbind(rs, generic(local), length) == 0) break;
        if (!chooses || errno != EADDRINUSE || tries == kMost) return -1;
    }
    const int before = errno;
    real().bind(fd, generic(local), length);
    errno = before;
    return 0;
}

}  // namespace verbena::rspreload
