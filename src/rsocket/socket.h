// What streams and datagram sockets have in common: the descriptor by which programs know them, who waits for
// them, and the calls that they answer. The calls return 0 (or a size), or -1 with errno and a reason;
// EAGAIN, EINPROGRESS and EINTR are ordinary and have none.
//
// The descriptor is an epoll set that becomes readable when the socket has something to process: poll() on it
// needs a look at readiness() afterwards.
//
// Thread safety: all calls, except that close() is the last one.
#pragma once

#include <sys/socket.h>
#include <sys/types.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "rsocket/address.h"
#include "rsocket/cursor.h"
#include "rsocket/settings.h"
#include "rsocket/sleeper.h"

namespace verbena::rsocket {

class Socket : public std::enable_shared_from_this<Socket> {
   public:
    explicit Socket(int domain) : domain_(domain) {}
    virtual ~Socket();
    Socket(const Socket&) = delete;
    Socket& operator=(const Socket&) = delete;

    // Makes the descriptor. An errno.
    [[nodiscard]] int open();
    int fd() const { return fd_; }

    int domain() const { return domain_; }
    virtual int type() const = 0;
    bool nonblocking() const { return nonblocking_; }
    void set_nonblocking(bool on) { nonblocking_ = on; }
    bool blocks(int flags) const { return !nonblocking_ && !(flags & MSG_DONTWAIT); }

    virtual int bind(const Address& address) = 0;
    virtual int listen(int backlog) = 0;
    virtual std::shared_ptr<Socket> accept() = 0;
    virtual int connect(const Address& address) = 0;
    virtual ssize_t send(Cursor data, int flags, const Address* to) = 0;
    virtual ssize_t receive(Cursor room, int flags, Address* from, int* out_flags) = 0;
    virtual int shutdown(int how) = 0;
    virtual void close() = 0;
    virtual int local_address(Address& address) = 0;
    virtual int peer_address(Address& address) = 0;
    // Bytes that a receive would return now.
    virtual std::size_t readable_bytes() = 0;

    virtual Settings settings() = 0;
    virtual int change(const Settings& settings) = 0;  // an errno
    virtual int take_error() = 0;

    // Handles what has come; the poll() events that hold, of those wanted (POLLERR, POLLHUP always). `self`
    // is not woken by what this handles: it has the answer.
    virtual short readiness(short wanted, const Waker* self) = 0;
    // From now on the descriptor becomes readable when something comes. Look at readiness() afterwards.
    virtual void arm() = 0;
    // Empties what made the descriptor readable. All but `self` are told.
    virtual void drain(const Waker* self) = 0;

    // How often something has come that made the descriptor readable. Who waits for edges compares.
    unsigned arrivals() const { return arrivals_.load(); }

    void add_waker(Waker& waker);
    void remove_waker(const Waker& waker);
    // A sleeper that is registered for as long as this lives, and no longer where its thread is cancelled.
    class Registration {
       public:
        Registration(Socket& socket, Sleeper& sleeper) : socket_(socket), sleeper_(sleeper) {
            socket.add_waker(sleeper);
        }
        ~Registration() { socket_.remove_waker(sleeper_); }
        Registration(const Registration&) = delete;
        Registration& operator=(const Registration&) = delete;

       private:
        Socket& socket_;
        Sleeper& sleeper_;
    };

   protected:
    // Whoever sleeps looks again.
    void wake_all(const Waker* except = nullptr);
    // The same for those who sleep on the descriptor alone, in an epoll set of the program's.
    void nudge();
    bool drain_nudge();  // true if there was one
    // What made the descriptor readable was taken away: the others who sleep here look again.
    void note_arrival(const Waker* except);
    int watch(int fd, int operation);  // an errno

    const int domain_;

   private:
    int fd_ = -1;
    int nudge_fd_ = -1;
    std::atomic<bool> nonblocking_{false};
    std::atomic<unsigned> waiting_{0};  // wakers_.size()
    std::atomic<unsigned> arrivals_{0};
    std::mutex wakers_mutex_;
    std::vector<Waker*> wakers_;
};

}  // namespace verbena::rsocket
