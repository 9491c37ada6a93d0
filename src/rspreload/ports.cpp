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

Bound bind_both(int fd, int rs, const Entry& entry, sockaddr_storage& local, socklen_t& length) {
    constexpr int kMost = 100;  // of ports that only TCP has free
    const sockaddr_storage wish = local;
    const bool chooses = lets_choose(wish, length);
    // A client's, which TCP has chosen as it connects.
    if (chooses && option_of(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT) > 0)
        return rbind(rs, generic(local), length) == 0 ? Bound::yes : Bound::no;
    for (int tries = 0;; tries++) {
        const Descriptor probe(like(fd, entry));
        local = wish;
        if (real().bind(probe.get(), generic(local), length) != 0) {
            if (errno == EADDRINUSE || errno == EACCES) return Bound::not_by_tcp;
        } else if (chooses) {
            socklen_t size = length;
            real().getsockname(probe.get(), generic(local), &size);
        }
        if (rbind(rs, generic(local), length) == 0) break;
        if (!chooses || errno != EADDRINUSE || tries == kMost) return Bound::no;
    }
    const int before = errno;
    real().bind(fd, generic(local), length);
    errno = before;
    return Bound::yes;
}

int listen_both(int fd, int rs, Entry& entry, int backlog) {
    if (!entry.bound && entry.type == SOCK_STREAM) {
        entry.local = {};
        entry.local.ss_family = static_cast<sa_family_t>(entry.domain);
        entry.local_length = entry.domain == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
        entry.bound = bind_both(fd, rs, entry, entry.local, entry.local_length) == Bound::yes;
    }
    const int result = rlisten(rs, backlog);
    if (result == 0) entry.listens = true;
    return result;
}

}  // namespace verbena::rspreload
