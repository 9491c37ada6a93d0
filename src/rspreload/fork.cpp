#include "rspreload/fork.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <rdma/rsocket.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <mutex>

#include "base/abstract_address.h"
#include "base/own_socket.h"
#include "rspreload/entries.h"
#include "rspreload/real.h"

namespace verbena::rspreload {
namespace {

constexpr int kLateMs = 2'000;

std::mutex migrating;

auto* generic(sockaddr_storage& storage) { return static_cast<sockaddr*>(static_cast<void*>(&storage)); }

// The rsocket behaves as the kernel's did; nobody needs that connection any more.
int replace(int fd, Entry& entry, int rs) {
    for (auto [level, option] : {std::pair{SOL_SOCKET, SO_KEEPALIVE}, {IPPROTO_TCP, 1 /* TCP_NODELAY */}}) {
        int value = 0;
        socklen_t size = sizeof value;
        if (real().getsockopt(fd, level, option, &value, &size) == 0)
            rsetsockopt(rs, level, option, &value, size);
    }
    rfcntl(rs, F_SETFL, static_cast<long>(real().fcntl(fd, F_GETFL) & O_NONBLOCK));
    real().shutdown(fd, SHUT_RDWR);
    entry.pid = getpid();
    entry.rs.store(rs);
    entry.state.store(State::ready, std::memory_order_release);
    return rs;
}

int keep(Entry& entry) {
    entry.state.store(State::plain, std::memory_order_release);
    return -1;
}

// Only one process listens on a port at a time. A name of the network namespace's is the lock: who dies
// leaves it. Others look again after a moment, since nobody can wait for a name.
class OnePerPort {
   public:
    explicit OnePerPort(std::uint16_t port) : fd_(own_socket(AF_UNIX, SOCK_DGRAM)) {
        char name[40];
        std::snprintf(name, sizeof name, "verbena-fork-%u-%u", geteuid(), port);
        const verbena::AbstractAddress address(name);
        constexpr timespec kMoment{0, 500'000};
        while (fd_ >= 0 && real().bind(fd_, address.get(), address.size()) != 0) {
            if (errno == EADDRINUSE) {
                nanosleep(&kMoment, nullptr);
                continue;
            }
            real().close(fd_);
            fd_ = -1;
        }
    }
    ~OnePerPort() {
        if (fd_ >= 0) real().close(fd_);
    }
    OnePerPort(const OnePerPort&) = delete;
    OnePerPort& operator=(const OnePerPort&) = delete;
    explicit operator bool() const { return fd_ >= 0; }

   private:
    int fd_;
};

// The peer's rsocket, on the listener; -1 if the peer does not come: it uses the kernel's connection, or ends
// it.
int accept_peer(int listener, int fd) {
    pollfd both[] = {{listener, POLLIN, 0}, {fd, POLLIN, 0}};
    while (rpoll(both, 2, -1) < 0)
        if (errno != EINTR) return -1;
    char byte;
    // A peer that is there ends the kernel's connection, perhaps before we have heard of the other.
    if (!both[0].revents && real().recv(fd, &byte, sizeof byte, MSG_PEEK | MSG_DONTWAIT) == 0)
        rpoll(both, 1, kLateMs);
    return both[0].revents ? raccept(listener, nullptr, nullptr) : -1;
}

}  // namespace

int connect_after_fork(int fd, Entry& entry) {
    std::lock_guard lock(migrating);
    if (entry.state.load() != State::fork_active) return entry.rs.load();
    const int flags = real().fcntl(fd, F_GETFL);
    real().fcntl(fd, F_SETFL, flags & ~O_NONBLOCK);
    std::uint32_t word = 1;
    const ssize_t size = real().recv(fd, &word, sizeof word, MSG_PEEK | MSG_WAITALL);
    real().fcntl(fd, F_SETFL, flags);
    if (size != sizeof word || word != 0) return keep(entry);
    sockaddr_storage peer{};
    socklen_t length = sizeof peer;
    if (real().getpeername(fd, generic(peer), &length) != 0) return keep(entry);
    const int rs = ::rsocket(peer.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (rs < 0) return keep(entry);
    if (rconnect(rs, generic(peer), length) == 0) return replace(fd, entry, rs);
    rclose(rs);
    return keep(entry);
}

int accept_after_fork(int fd, Entry& entry) {
    std::lock_guard lock(migrating);
    if (entry.state.load() != State::fork_passive) return entry.rs.load();
    // A peer with fork support waits for our word. One that has sent or closed has none.
    pollfd spoken{fd, POLLIN, 0};
    if (real().poll(&spoken, 1, 0) > 0) return keep(entry);
    sockaddr_storage local{};
    socklen_t length = sizeof local;
    if (real().getsockname(fd, generic(local), &length) != 0) return keep(entry);
    // Any address, the same port. Address and flow stand behind the port in both families.
    auto* port_end = static_cast<char*>(static_cast<void*>(&local)) + offsetof(sockaddr_in, sin_addr);
    std::memset(port_end, 0, sizeof local - offsetof(sockaddr_in, sin_addr));

    sockaddr_in same_port;
    std::memcpy(&same_port, &local, sizeof same_port);  // the port is at the same place in both families
    const OnePerPort turn(ntohs(same_port.sin_port));
    if (!turn) return keep(entry);
    const int listener = ::rsocket(local.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (listener < 0) return keep(entry);
    int on = 1, rs = -1;
    rsetsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    const std::uint32_t ready = 0;
    if (rbind(listener, generic(local), length) == 0 && rlisten(listener, 1) == 0 &&
        real().send(fd, &ready, sizeof ready, MSG_NOSIGNAL) == sizeof ready)
        rs = accept_peer(listener, fd);
    rclose(listener);
    return rs < 0 ? keep(entry) : replace(fd, entry, rs);
}

}  // namespace verbena::rspreload
