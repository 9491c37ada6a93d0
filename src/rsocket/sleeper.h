// A thread that waits for one or several sockets. It registers with each socket, looks once more, and sleeps
// until a descriptor of theirs is readable or somebody wakes it. Whoever takes something out of a socket's
// descriptors (a completion event) wakes all who are registered there, since they would not see it any more.
//
// Thread safety: wake() from any thread while registered; all else is the owner's.
#pragma once

#include <infiniband/verbs.h>
#include <sys/epoll.h>

#include <cerrno>
#include <cstdint>

#include "base/time.h"

namespace verbena::rsocket {

Time now();

// Of which a process that closes something has some again.
constexpr bool is_want_of_descriptors(int error) { return error == EMFILE || error == ENFILE; }

// Who wants to hear that something has changed at a socket, or that its descriptor was emptied. Called with
// the socket's locks held.
class Waker {
   public:
    virtual void wake() = 0;

   protected:
    ~Waker() = default;
};

class Sleeper final : public Waker {
   public:
    Sleeper() = default;
    ~Sleeper();
    Sleeper(const Sleeper&) = delete;
    Sleeper& operator=(const Sleeper&) = delete;

    // Makes the descriptor, once. An errno.
    [[nodiscard]] int prepare();
    // The same, for who only sleeps: while the process may open no more, in naps, with a look after each.
    [[nodiscard]] int prepare_or_nap();
    int fd() const { return event_fd_; }  // -1: naps
    // When a sleep until `deadline` ends, if nothing ends it before.
    Time wakes_at(Time deadline) const;

    void wake() override;
    void drain() const;

    // Sleeps until woken, until `events` of `socket_fd` (of epoll), or `deadline`. With a context the thread
    // drives the packets meanwhile. 0, ETIMEDOUT or EINTR (a handler without SA_RESTART ran).
    int sleep(ibv_context* context, int socket_fd, Time deadline, std::uint32_t events = EPOLLIN);

   private:
    int nap(int socket_fd, Time deadline, std::uint32_t events) const;

    int event_fd_ = -1;
    int both_fd_ = -1;  // an epoll set of event_fd_ and watched_
    int watched_ = -1;
};

}  // namespace verbena::rsocket
