// The socket calls as a table of functions, so that one test runs over the kernel's sockets and over
// rsockets.
#pragma once

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <cstdint>
#include <string>
#include <vector>

namespace verbena::rsocket_test {

struct Api {
    const char* name;
    int (*socket)(int, int, int);
    int (*bind)(int, const sockaddr*, socklen_t);
    int (*listen)(int, int);
    int (*accept)(int, sockaddr*, socklen_t*);
    int (*connect)(int, const sockaddr*, socklen_t);
    int (*shutdown)(int, int);
    int (*close)(int);
    ssize_t (*recv)(int, void*, std::size_t, int);
    ssize_t (*recvfrom)(int, void*, std::size_t, int, sockaddr*, socklen_t*);
    ssize_t (*recvmsg)(int, msghdr*, int);
    ssize_t (*readv)(int, const iovec*, int);
    ssize_t (*send)(int, const void*, std::size_t, int);
    ssize_t (*sendto)(int, const void*, std::size_t, int, const sockaddr*, socklen_t);
    ssize_t (*sendmsg)(int, const msghdr*, int);
    ssize_t (*writev)(int, const iovec*, int);
    int (*poll)(pollfd*, nfds_t, int);
    int (*select)(int, fd_set*, fd_set*, fd_set*, timeval*);
    int (*getpeername)(int, sockaddr*, socklen_t*);
    int (*getsockname)(int, sockaddr*, socklen_t*);
    int (*setsockopt)(int, int, int, const void*, socklen_t);
    int (*getsockopt)(int, int, int, void*, socklen_t*);
    int (*fcntl)(int, int, ...);
    int (*epoll_create1)(int);
    int (*epoll_ctl)(int, int, int, epoll_event*);
    int (*epoll_wait)(int, epoll_event*, int, int);
};

extern const Api kKernel, kRsockets;

// How a call ended: its result, and errno if that is -1.
struct Outcome {
    long result = 0;
    int error = 0;
    bool operator==(const Outcome&) const = default;
};
void PrintTo(const Outcome& outcome, std::ostream* out);
Outcome outcome(long result);
inline Outcome failed(int error) { return {-1, error}; }

struct Name {
    explicit Name(int family = AF_INET, std::uint16_t port = 0);  // the loopback address
    sockaddr* get() { return static_cast<sockaddr*>(static_cast<void*>(&storage)); }
    std::uint16_t port() const;
    sockaddr_storage storage{};
    socklen_t length;
};

class Sockets : public testing::TestWithParam<const Api*> {
   protected:
    const Api& api() const { return *GetParam(); }
    bool kernel() const { return GetParam() == &kKernel; }
    // Closed at the end, unless a test did.
    int open(int family = AF_INET, int type = SOCK_STREAM);
    int close(int fd);
    void TearDown() override;

    // A listener on the loopback address; its port.
    int listener(Name& name, int backlog = 5, int family = AF_INET);
    struct Pair {
        int client = -1, server = -1;
    };
    Pair connected(int family = AF_INET);
    bool readable(int fd, int ms = 10'000);
    short poll_one(int fd, short events, int ms = 10'000);
    // Exactly so many bytes.
    std::string receive(int fd, std::size_t size);
    void nonblocking(int fd);
    int option(int fd, int level, int name);

   private:
    std::vector<int> open_;
};

std::string pattern(std::size_t size, unsigned seed = 1);

// The same for streams, whose ends are errors here and no signals.
class StreamSockets : public Sockets {
   protected:
    void SetUp() override { signal(SIGPIPE, SIG_IGN); }
};

inline std::string name_of(const testing::TestParamInfo<const Api*>& which) { return which.param->name; }

}  // namespace verbena::rsocket_test
