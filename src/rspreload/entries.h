// Which of the program's descriptors stand for rsockets. The program's descriptor is a socket of the
// kernel's, unconnected: it keeps the number, answers what rsockets do not know, and takes over when the peer
// speaks no rsockets. Duplicates share an entry.
//
// Thread safety: all calls. Looking up costs one load, since every read() of a program does it.
#pragma once

#include <sys/socket.h>
#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "rspreload/fork.h"
#include "rspreload/process_lock.h"
#include "rspreload/registrations.h"

namespace verbena::rspreload {

inline constexpr std::size_t kMostDescriptors = 1 << 16;  // numbers above are ordinary descriptors

enum class State {
    ready,       // a rsocket
    connecting,  // a rsocket whose connection is under way, non-blocking
    plain,       // the kernel's, for good
    fork_idle,   // the kernel's; becomes a rsocket when connected or accepted and used
    fork_listen,
    fork_active,
    fork_late,  // the kernel's for good, but a word of the peer's may still come before its data (words.h)
    fork_passive,
};

// It is not known yet what becomes of the connection, or what comes may be a word of the peer's.
constexpr bool is_unsettled(State state) {
    return state == State::fork_active || state == State::fork_late || state == State::fork_passive;
}

struct Entry {
    std::atomic<int> rs{-1};
    std::atomic<State> state{State::ready};
    std::atomic<int> references{1};  // its descriptors, and calls that hold it
    int domain = 0, type = 0;
    pid_t pid = 0;
    bool bound = false;
    bool listens = false;
    bool shares_port = false;  // SO_REUSEPORT
    sockaddr_storage local{}, peer{};
    socklen_t local_length = 0, peer_length = 0;
    // Fork support (fork.h, mark.h).
    ProcessLock migrating;
    std::int64_t deadline = 0;
    int services[2] = {-1, -1};
    // registrations.cpp
    std::vector<Registration> registrations;
    std::atomic<bool> pending{false};
    int timer = -1;
};

inline sockaddr* generic(sockaddr_storage& storage) {
    return static_cast<sockaddr*>(static_cast<void*>(&storage));
}

// nullptr: an ordinary descriptor.
Entry* find(int fd);

// An entry for a call that goes on using it after it has waited: another thread may close the descriptor.
class Held {
   public:
    explicit Held(int fd);
    ~Held();
    Held(const Held&) = delete;
    Held& operator=(const Held&) = delete;

    explicit operator bool() const { return entry_ != nullptr; }
    Entry* get() const { return entry_; }
    Entry* operator->() const { return entry_; }
    Entry& operator*() const { return *entry_; }
    Entry* keep() { return std::exchange(entry_, nullptr); }  // the reference is the caller's

   private:
    Entry* entry_ = nullptr;
};

// A rsocket that was made before the fork: its parent's, and without use here.
bool is_of_a_parent(const Entry& entry);

// The rsocket that the descriptor stands for now; kPlain: the descriptor itself is meant. Connections that
// wait for their first use (fork support) become rsockets here, or kNotYet.
int rsocket_for(int fd, Use use, int flags = 0);
// The same for calls that need no connection: those that wait for their first use go on waiting.
int rsocket_of(int fd);

// The log says why a rsocket that is sent to another process does not work there.
void warn_of_passing(int fd);

constexpr bool has_place(int fd) { return fd >= 0 && static_cast<std::size_t>(fd) < kMostDescriptors; }
// What stood under the number before was closed by a way that nobody saw. False: the number is too large.
bool insert(int fd, Entry* entry);
// The descriptor was duplicated by the kernel; what stood under the new number ends. False: it is ordinary.
bool share(int from, int to);
// Before the descriptor is closed; closes the rsocket with its last descriptor.
void remove(int fd);
// One reference less.
void let_go(Entry& entry);

// A child made by vfork(2) has descriptors of its own, and its parent's memory: nothing is noted there of
// what it closes and duplicates.
bool is_vfork_child();

// The kernel's socket takes over: the rsocket is closed, and bound as that was. Once it connects or is bound
// anew, move_registrations().
void become_plain(int fd, Entry& entry);
// A non-blocking connection that failed is tried again by the kernel's socket; true if it is that one's now.
bool settle(int fd, Entry& entry);

}  // namespace verbena::rspreload
