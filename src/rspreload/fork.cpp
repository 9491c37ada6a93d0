#include "rspreload/fork.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <rdma/rsocket.h>
#include <semaphore.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <mutex>

#include "rspreload/entries.h"
#include "rspreload/real.h"

namespace verbena::rspreload {
namespace {

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

// Only one process of the host listens on a port at a time.
class OnePerPort {
   public:
    OnePerPort() : semaphore_(sem_open("/rsocket_fork", O_CREAT | O_RDWR, S_IRWXU | S_IRWXG, 1)) {
        if (*this)
            while (sem_wait(semaphore_) != 0 && errno == EINTR) {
            }
    }
    ~OnePerPort() {
        if (!*this) return;
        sem_post(semaphore_);
        sem_close(semaphore_);
    }
    OnePerPort(const OnePerPort&) = delete;
    OnePerPort& operator=(const OnePerPort&) = delete;
    explicit operator bool() const { return semaphore_ != SEM_FAILED; }

   private:
    sem_t* semaphore_;
};

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
    sockaddr_storage local{};
    socklen_t length = sizeof local;
    if (real().getsockname(fd, generic(local), &length) != 0) return keep(entry);
    // Any address, the same port. Address and flow stand behind the port in both families.
    auto* port_end = static_cast<char*>(static_cast<void*>(&local)) + offsetof(sockaddr_in, sin_addr);
    std::memset(port_end, 0, sizeof local - offsetof(sockaddr_in, sin_addr));

    OnePerPort turn;
    if (!turn) return keep(entry);
    const int listener = ::rsocket(local.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (listener < 0) return keep(entry);
    int on = 1, rs = -1;
    rsetsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    const std::uint32_t ready = 0;
    if (rbind(listener, generic(local), length) == 0 && rlisten(listener, 1) == 0 &&
        real().send(fd, &ready, sizeof ready, MSG_NOSIGNAL) == sizeof ready)
        rs = raccept(listener, nullptr, nullptr);
    rclose(listener);
    return rs < 0 ? keep(entry) : replace(fd, entry, rs);
}

}  // namespace verbena::rspreload
