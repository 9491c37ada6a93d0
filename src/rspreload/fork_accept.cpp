// The side that accepted (fork.h).
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <rdma/rsocket.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <utility>

#include "base/abstract_address.h"
#include "base/own_socket.h"
#include "rspreload/config.h"
#include "rspreload/entries.h"
#include "rspreload/fork.h"
#include "rspreload/mark.h"
#include "rspreload/real.h"
#include "rspreload/settings.h"
#include "rspreload/words.h"

namespace verbena::rspreload {
namespace {

// How long the peer has to come. A program that never waits has others to serve meanwhile.
constexpr std::int64_t kOfferMs = 2'000, kShortOfferMs = 500;

// The sockets that have names. A child that is forked meanwhile would keep the name.
constexpr int kMostNames = 64;
constinit std::atomic<int> named[kMostNames] = {};  // numbers, and one more

void leave_names() {
    for (std::atomic<int>& each : named)
        if (const int number = each.exchange(0); number > 0) real().close(number - 1);
}
[[maybe_unused]] const int at_fork = pthread_atfork(nullptr, nullptr, leave_names);

std::atomic<int>* note_name(int fd) {
    for (std::atomic<int>& each : named)
        if (int none = 0; each.compare_exchange_strong(none, fd + 1)) return &each;
    return nullptr;
}

// Only one process listens on a port at a time. A name of the network namespace's is the lock: who dies
// leaves it. Others look again after a moment, since nobody can wait for a name.
class OnePerPort {
   public:
    OnePerPort(std::uint16_t port, std::int64_t deadline) : fd_(own_socket(AF_UNIX, SOCK_DGRAM)) {
        if (fd_ < 0) return;
        noted_ = note_name(fd_);
        if (!noted_) {  // more at once than anybody waits for
            real().close(std::exchange(fd_, -1));
            return;
        }
        char name[40];
        std::snprintf(name, sizeof name, "verbena-fork-%u-%u", geteuid(), port);
        const verbena::AbstractAddress address(name);
        constexpr timespec kMoment{0, 500'000};
        while (fd_ >= 0 && real().bind(fd_, address.get(), address.size()) != 0) {
            if (errno == EADDRINUSE && milliseconds_now() < deadline) {
                nanosleep(&kMoment, nullptr);
                continue;
            }
            leave();
        }
    }
    ~OnePerPort() { leave(); }
    OnePerPort(const OnePerPort&) = delete;
    OnePerPort& operator=(const OnePerPort&) = delete;
    explicit operator bool() const { return fd_ >= 0; }

   private:
    void leave() {
        if (fd_ < 0) return;
        noted_->store(0);
        real().close(std::exchange(fd_, -1));
    }

    int fd_;
    std::atomic<int>* noted_ = nullptr;
};

// A rsocket that listens on the connection's port, at any address; -1 without.
int listen_beside(sockaddr_storage local, socklen_t length) {
    // Address and flow stand behind the port in both families.
    auto* port_end = static_cast<char*>(static_cast<void*>(&local)) + offsetof(sockaddr_in, sin_addr);
    std::memset(port_end, 0, sizeof local - offsetof(sockaddr_in, sin_addr));
    restore_settings();
    const int listener = ::rsocket(local.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (listener < 0) return -1;
    int on = 1;
    rsetsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (rbind(listener, generic(local), length) == 0 && rlisten(listener, 1) == 0) {
        rfcntl(listener, F_SETFL, long{O_NONBLOCK});
        return listener;
    }
    rclose(listener);
    return -1;
}

// Whether rs, or a listener, is ready before the peer says something on the kernel's connection: then it uses
// that, or ends it.
bool ready_first(int rs, int fd, std::int64_t deadline) {
    pollfd both[] = {{rs, POLLIN, 0}, {fd, POLLIN, 0}};
    int ready;
    while ((ready = rpoll(both, 2, milliseconds_until(deadline))) < 0 && errno == EINTR) {
    }
    return ready > 0 && both[0].revents != 0 && both[1].revents == 0;
}

// The peer's rsocket. Another's may come to the port, and one that was asked before.
int accept_peer(int listener, int fd, const Word& word, std::int64_t deadline) {
    while (ready_first(listener, fd, deadline)) {
        const int rs = raccept(listener, nullptr, nullptr);
        if (rs < 0 && (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED)) continue;
        if (rs < 0) return -1;  // for want of descriptors, which will not end soon
        Word said;
        if (ready_first(rs, fd, deadline) &&
            rrecv(rs, said.data(), said.size(), MSG_DONTWAIT) == static_cast<ssize_t>(said.size()) &&
            said == word)
            return rs;
        rclose(rs);
    }
    return -1;
}

// One of rdma-core's says nothing there, and ends the kernel's connection when it has come, perhaps before we
// have heard of it.
int accept_old_peer(int listener, int fd, std::int64_t deadline) {
    pollfd both[] = {{listener, POLLIN, 0}, {fd, POLLIN, 0}};
    while (rpoll(both, 2, milliseconds_until(deadline)) < 0 && errno == EINTR) {
    }
    char byte;
    if (!both[0].revents && real().recv(fd, &byte, sizeof byte, MSG_PEEK | MSG_DONTWAIT) == 0)
        rpoll(both, 1, milliseconds_until(deadline));
    return both[0].revents ? raccept(listener, nullptr, nullptr) : -1;
}

// Nobody has closed it meanwhile, and the peer has neither spoken nor closed: that would be its answer.
bool is_waited_for(int fd, const Entry& entry) { return find(fd) == &entry && is_silent(fd); }

int offer(int fd, const Entry& entry, bool marked, const sockaddr_storage& local, socklen_t length,
          std::int64_t deadline) {
    sockaddr_in same_port;  // the port is at the same place in both families
    std::memcpy(&same_port, &local, sizeof same_port);
    const OnePerPort turn(ntohs(same_port.sin_port), deadline);
    if (!turn) return -1;
    const int listener = listen_beside(local, length);
    if (listener < 0) return -1;
    std::uint64_t number = 0;
    [[maybe_unused]] const auto size = getrandom(&number, sizeof number, GRND_NONBLOCK);
    const Word word = come_with(number);
    int rs = -1;
    const bool speaks = is_waited_for(fd, entry);
    if (speaks && marked && say(fd, word))
        rs = accept_peer(listener, fd, word, deadline);
    else if (speaks && !marked && say(fd, &kOldCome, sizeof kOldCome))
        rs = accept_old_peer(listener, fd, deadline);
    rclose(listener);
    return rs;
}

}  // namespace

int accept_after_fork(int fd, Entry& entry) {
    std::lock_guard lock(entry.migrating);
    if (entry.state.load() != State::fork_passive) return entry.rs.load();
    const bool marked = is_marked(fd, entry.domain);
    sockaddr_storage local{};
    socklen_t length = sizeof local;
    // A peer with fork support waits for our word. One that has sent or closed has none.
    int rs = -1;
    if ((marked || speaks_to_all()) && is_waited_for(fd, entry) &&
        real().getsockname(fd, generic(local), &length) == 0) {
        const bool waits = !(real().fcntl(fd, F_GETFL) & O_NONBLOCK);
        rs = offer(fd, entry, marked, local, length, milliseconds_now() + (waits ? kOfferMs : kShortOfferMs));
        if (rs < 0 && marked && is_waited_for(fd, entry)) say(fd, kStay);
    }
    if (find(fd) != &entry) {
        if (rs >= 0) rclose(rs);
        errno = EBADF;
        return kNotYet;
    }
    if (rs >= 0) return take_over(fd, entry, rs);
    entry.state.store(State::plain, std::memory_order_release);
    return kPlain;
}

}  // namespace verbena::rspreload
