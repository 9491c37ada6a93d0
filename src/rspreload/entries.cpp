#include "rspreload/entries.h"

#include <poll.h>
#include <rdma/rsocket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <mutex>

#include "base/no_cancellation.h"
#include "base/own_pid.h"
#include "base/reason.h"
#include "rspreload/fork.h"
#include "rspreload/real.h"
#include "rspreload/sets.h"

namespace verbena::rspreload {
namespace {

std::array<std::atomic<Entry*>, kMostDescriptors> entries;

// Held while an entry is found and counted, so that it does not end in between: for some instructions, after
// any of which the entries are whole. So a forked child takes it over from a thread that it does not have.
ProcessLock holding;

// The new entry of a number; what was there is let go of.
void replace(int fd, Entry* entry) {
    Entry* before;
    {
        std::lock_guard lock(holding);
        before = entries[static_cast<std::size_t>(fd)].exchange(entry);
    }
    if (before) let_go(*before);
}

constexpr const char* kAdvice =
    "With RDMAV_FORK_SAFE=1 connections become rsockets at their first use, in the process that uses them";

// Once in a process: a program that does so does it all the time.
bool is_first_warning() {
    static std::atomic<pid_t> warned{0};
    return warned.exchange(own_pid()) != own_pid();
}

void warn_of_parents(int fd) {
    if (!is_first_warning()) return;
    log(LogLevel::warn,
        "descriptor %d is a rsocket of process %d, and works in no other, this child of it included. %s", fd,
        static_cast<int>(find(fd)->pid), kAdvice);
}

// As if the network had failed.
int answer_for_parent(int fd, Use use) {
    warn_of_parents(fd);
    if (use == Use::look || use == Use::ready) return kPlain;  // a socket without a connection
    errno = ECONNRESET;
    return kNotYet;
}

}  // namespace

bool is_of_a_parent(const Entry& entry) {
    if (entry.pid == own_pid()) return false;
    const State state = entry.state.load(std::memory_order_acquire);
    return state == State::ready || state == State::connecting;
}

bool is_vfork_child() { return own_pid() != getpid(); }

void warn_of_passing(int fd) {
    if (!is_first_warning()) return;
    log(LogLevel::warn,
        "descriptor %d, which is sent to another process, is a rsocket of this one, and works in no other. "
        "%s",
        fd, kAdvice);
}

Entry* find(int fd) {
    if (!has_place(fd)) return nullptr;
    return entries[static_cast<std::size_t>(fd)].load(std::memory_order_acquire);
}

Held::Held(int fd) {
    if (!find(fd)) return;
    std::lock_guard lock(holding);
    entry_ = find(fd);
    if (entry_) entry_->references.fetch_add(1);
}

Held::~Held() {
    if (entry_) let_go(*entry_);
}

int rsocket_for(int fd, Use use, int flags) {
    const Entry* found = find(fd);
    if (!found) return kPlain;
    if (is_of_a_parent(*found)) [[unlikely]]
        return answer_for_parent(fd, use);
    switch (found->state.load(std::memory_order_acquire)) {
        case State::ready:
            return found->rs.load(std::memory_order_relaxed);
        case State::plain:
        case State::fork_idle:
        case State::fork_listen:
            return kPlain;
        case State::connecting:
        case State::fork_active:
        case State::fork_late:
        case State::fork_passive:
            break;
    }
    const Held entry(fd);
    if (!entry) return kPlain;
    switch (entry->state.load(std::memory_order_acquire)) {
        case State::connecting:
            return settle(fd, *entry) ? kPlain : entry->rs.load();
        case State::fork_active:
        case State::fork_late:
            return connect_after_fork(fd, *entry, use, flags);
        case State::fork_passive:
            return accept_after_fork(fd, *entry);
        default:  // what another thread has made of it meanwhile
            return entry->rs.load();
    }
}

int rsocket_of(int fd) {
    const Entry* entry = find(fd);
    if (!entry) return kPlain;
    return is_unsettled(entry->state.load(std::memory_order_acquire)) ? kPlain : rsocket_for(fd, Use::look);
}

bool insert(int fd, Entry* entry) {
    if (!has_place(fd)) return false;
    entry->pid = own_pid();
    remove_set(fd);
    replace(fd, entry);
    return true;
}

bool share(int from, int to) {
    if (!has_place(to) || is_vfork_child()) return false;
    Held entry(from);
    if (!entry) return false;
    replace(to, entry.keep());
    return true;
}

void remove(int fd) {
    if (find(fd) && !is_vfork_child()) replace(fd, nullptr);
}

void let_go(Entry& entry) {
    if (entry.references.fetch_sub(1) != 1) return;
    const NoCancellation whole;
    const int rs = entry.rs.exchange(-1);
    if (rs >= 0) {
        if (entry.pid == getpid())
            rclose(rs);
        else
            real().close(rs);  // a forked child's copy of the descriptor
    }
    end_connecting(entry);
    if (entry.timer >= 0) real().close(entry.timer);
    delete &entry;
}

void become_plain(int fd, Entry& entry) {
    const int before = errno;
    const int rs = entry.rs.exchange(-1);
    entry.state.store(State::plain);
    if (rs >= 0) rclose(rs);
    if (entry.bound) real().bind(fd, generic(entry.local), entry.local_length);
    errno = before;
}

bool settle(int fd, Entry& entry) {
    const int before = errno;
    pollfd look{entry.rs.load(), POLLOUT, 0};
    if (rpoll(&look, 1, 0) <= 0) {
        errno = before;
        return false;
    }
    State expected = State::connecting;
    if (!(look.revents & (POLLERR | POLLHUP))) {
        if (entry.state.compare_exchange_strong(expected, State::ready)) end_connecting(entry);
        errno = before;
        return false;
    }
    if (!entry.state.compare_exchange_strong(expected, State::plain)) {
        errno = before;
        return entry.rs.load() < 0;
    }
    end_connecting(entry);
    become_plain(fd, entry);
    real().connect(fd, generic(entry.peer), entry.peer_length);
    move_registrations(fd, entry);
    errno = before;
    return true;
}

}  // namespace verbena::rspreload
