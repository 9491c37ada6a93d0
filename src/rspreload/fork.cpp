#include "rspreload/fork.h"

#include <fcntl.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <rdma/rsocket.h>
#include <sys/ioctl.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <mutex>

#include "base/no_cancellation.h"
#include "base/reason.h"
#include "rspreload/entries.h"
#include "rspreload/mark.h"
#include "rspreload/real.h"
#include "rspreload/settings.h"
#include "rspreload/words.h"

namespace verbena::rspreload {
namespace {

constexpr timeval kConnectTime{2, 0};
// How long close() waits for the peer to have something of the program's, behind which it says no word.
constexpr std::int64_t kFarewellMs = 100;
// The peer has met our rsocket, or gives up, in less; one that is stopped is waited for.
constexpr int kAnswerMs = 30'000;

// While a call waits the number may be closed, and another file's since.
bool is_another(int fd, const Entry& entry) {
    if (find(fd) == &entry) return false;
    errno = EBADF;
    return true;
}

bool hears_words(const Entry& entry) {
    const State state = entry.state.load();
    return is_unsettled(state) && state != State::fork_passive;
}

void stay_with_kernel(int fd, Entry& entry, State state) {
    clear_mark(fd, entry);
    entry.state.store(state, std::memory_order_release);
    settle_pending(fd, entry, -1);
}

int keep(int fd, Entry& entry) {
    stay_with_kernel(fd, entry, State::plain);
    return kPlain;
}

// What the peer says from now on is for the program, but for words that are under way.
void give_up(int fd, Entry& entry) {
    if (entry.state.load() == State::fork_active) stay_with_kernel(fd, entry, State::fork_late);
}

// A rsocket to where the kernel's connection goes; -1: there is no way.
int connect_beside(int fd) {
    sockaddr_storage peer{};
    socklen_t length = sizeof peer;
    if (real().getpeername(fd, generic(peer), &length) != 0) return -1;
    restore_settings();
    const int rs = ::rsocket(peer.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (rs < 0) return -1;
    rsetsockopt(rs, SOL_SOCKET, SO_SNDTIMEO, &kConnectTime, sizeof kConnectTime);
    if (rconnect(rs, generic(peer), length) == 0) {
        constexpr timeval kNoLimit{};
        rsetsockopt(rs, SOL_SOCKET, SO_SNDTIMEO, &kNoLimit, sizeof kNoLimit);
        return rs;
    }
    rclose(rs);
    return -1;
}

// Whether the peer has taken the rsocket: then it ends the kernel's connection. Looks now and then, since
// poll() may be waiting for more bytes than a word has (SO_RCVLOWAT).
bool is_taken(int fd) {
    constexpr int kLookMs = 50;
    const std::int64_t deadline = milliseconds_now() + kAnswerMs;
    while (is_silent(fd) && milliseconds_now() < deadline) {
        pollfd answer{fd, POLLIN, 0};
        real().poll(&answer, 1, kLookMs);
    }
    char byte;
    if (!is_silent(fd)) return real().recv(fd, &byte, sizeof byte, MSG_PEEK | MSG_DONTWAIT) == 0;
    log(LogLevel::warn, "a peer with fork support has said neither yes nor no: the connection ends");
    real().shutdown(fd, SHUT_RDWR);
    return false;
}

// The peer listens. Where we cannot come it says so after a while, or when it hears the program's data.
int come(int fd, Entry& entry, const Word& word) {
    skip(fd, word.size());
    if (entry.state.load() == State::fork_active && hear(fd).what == Said::nothing) {
        const int rs = connect_beside(fd);
        if (rs >= 0 &&
            rsend(rs, word.data(), word.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(word.size()) &&
            is_taken(fd) && !is_another(fd, entry))
            return take_over(fd, entry, rs);
        if (rs >= 0) rclose(rs);
    }
    if (!is_another(fd, entry)) give_up(fd, entry);
    return kNotYet;
}

// If nobody listens there with rsockets, the zero bytes were the program's.
int come_to_old(int fd, Entry& entry) {
    if (entry.state.load() != State::fork_active) return keep(fd, entry);
    const int rs = connect_beside(fd);
    if (is_another(fd, entry)) {
        if (rs >= 0) rclose(rs);
        return kNotYet;
    }
    if (rs < 0) return keep(fd, entry);
    skip(fd, sizeof kOldCome);
    return take_over(fd, entry, rs);
}

// What has come, under the entry's lock.
int take_words(int fd, Entry& entry) {
    while (!is_another(fd, entry)) {
        const Heard heard = hear(fd);
        int result = kNotYet;
        switch (heard.what) {
            case Said::nothing:
                return kNotYet;
            case Said::come:
                result = come(fd, entry, heard.word);
                break;
            case Said::old_come:
                return come_to_old(fd, entry);
            case Said::stay:
                skip(fd, heard.word.size());
                return keep(fd, entry);
            case Said::other:
                return keep(fd, entry);
        }
        if (result != kNotYet) return result;
    }
    return kNotYet;
}

int look(int fd, Entry& entry, Use use) {
    std::lock_guard lock(entry.migrating);
    if (!hears_words(entry)) return entry.rs.load();
    if (const int result = take_words(fd, entry); result != kNotYet) return result;
    if (is_another(fd, entry)) return kNotYet;
    if (use == Use::write || use == Use::ready) {
        if (milliseconds_now() >= entry.deadline) give_up(fd, entry);
        if (use == Use::write && entry.state.load() == State::fork_late) return kPlain;
    }
    errno = EAGAIN;
    return kNotYet;
}

// Until there is something, as long as a read of the program's would. False: it would fail, with errno.
bool wait_to_read(int fd) {
    char byte;
    return real().recv(fd, &byte, sizeof byte, MSG_PEEK) >= 0;
}

template <class Value>
void pass_on(int fd, int rs, int level, int option) {
    Value value{};
    socklen_t size = sizeof value;
    if (real().getsockopt(fd, level, option, &value, &size) == 0)
        rsetsockopt(rs, level, option, &value, size);
}

// Of what the program has written the peer's host has not got all.
bool is_underway(int fd) {
    int size = 0;
    return real().ioctl(fd, SIOCOUTQ, &size) == 0 && size > 0;
}

void wait_to_write(int fd, const Entry& entry) {
    pollfd word{fd, POLLIN, 0};
    real().poll(&word, 1, milliseconds_until(entry.deadline));
}

}  // namespace

std::int64_t milliseconds_now() {
    timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * std::int64_t{1000} + time.tv_nsec / 1'000'000;
}

int milliseconds_until(std::int64_t deadline) {
    return static_cast<int>(std::max<std::int64_t>(deadline - milliseconds_now(), 0));
}

// The rsocket behaves as the kernel's did; nobody needs that connection any more.
int take_over(int fd, Entry& entry, int rs) {
    clear_mark(fd, entry);
    pass_on<int>(fd, rs, SOL_SOCKET, SO_KEEPALIVE);
    pass_on<int>(fd, rs, IPPROTO_TCP, TCP_NODELAY);
    pass_on<linger>(fd, rs, SOL_SOCKET, SO_LINGER);
    pass_on<timeval>(fd, rs, SOL_SOCKET, SO_RCVTIMEO);
    pass_on<timeval>(fd, rs, SOL_SOCKET, SO_SNDTIMEO);
    rfcntl(rs, F_SETFL, static_cast<long>(real().fcntl(fd, F_GETFL) & O_NONBLOCK));
    entry.pid = getpid();
    entry.rs.store(rs);
    entry.state.store(State::ready, std::memory_order_release);
    settle_pending(fd, entry, rs);
    // Last: who waits for the kernel's socket is woken by it, and finds the rsocket.
    real().shutdown(fd, SHUT_RDWR);
    return rs;
}

void begin_fork_connection(int fd, Entry& entry) {
    std::lock_guard lock(entry.migrating);
    set_mark(fd, entry);
    entry.deadline = milliseconds_now() + kPatience;
    make_pending(entry);
}

void end_fork_connection(int fd, Entry& entry, bool connects) {
    const int before = errno;
    std::lock_guard lock(entry.migrating);
    if (connects) {
        State expected = State::fork_idle;
        entry.state.compare_exchange_strong(expected, State::fork_active);
    } else if (!is_another(fd, entry)) {
        clear_mark(fd, entry);
        settle_pending(fd, entry, -1);
    }
    errno = before;
}

// Who will not write any more does not wait for a peer that hears of that. One that is being accepted is done
// with first, unless the program wants to hear no more of it.
int shut_down(int fd, Entry& entry, int how) {
    if (how == SHUT_RDWR && entry.state.load() == State::fork_passive) real().shutdown(fd, how);
    int rs;
    {
        std::lock_guard lock(entry.migrating);
        if (is_another(fd, entry)) return -1;
        if (how != SHUT_RD) give_up(fd, entry);
        rs = entry.rs.load();
        if (rs < 0) return real().shutdown(fd, how);
    }
    return rshutdown(rs, how);
}

// Not that of a forked child, which closes what its parent goes on with. The peer's word may be under way
// only as long as nothing of the program's has come there.
void before_closing(int fd) {
    if (const Entry* found = find(fd); !found || !hears_words(*found) || found->pid != getpid()) return;
    const Held entry(fd);
    constexpr int kDescriptorAndWe = 2;
    if (!entry || entry->references.load() != kDescriptorAndWe) return;
    const int before = errno;
    const NoCancellation whole;
    std::lock_guard lock(entry->migrating);
    give_up(fd, *entry);
    const std::int64_t deadline = milliseconds_now() + kFarewellMs;
    while (hears_words(*entry) && take_words(fd, *entry) == kNotYet && is_underway(fd) &&
           milliseconds_now() < deadline) {
        pollfd word{fd, POLLIN, 0};
        real().poll(&word, 1, 1);
    }
    errno = before;
}

// No lock is held while this waits: the peer may be another thread's, and others have nothing to do with it.
int connect_after_fork(int fd, Entry& entry, Use use, int flags) {
    if (use == Use::write && entry.state.load() == State::fork_late) return kPlain;
    const bool waits = (use == Use::read || use == Use::write) && !(flags & MSG_DONTWAIT) &&
                       !(real().fcntl(fd, F_GETFL) & O_NONBLOCK);
    for (;;) {
        const int result = look(fd, entry, use);
        if (result != kNotYet || !waits || is_another(fd, entry)) return result;
        if (use == Use::write)
            wait_to_write(fd, entry);
        else if (!wait_to_read(fd))
            return kNotYet;
    }
}

}  // namespace verbena::rspreload
