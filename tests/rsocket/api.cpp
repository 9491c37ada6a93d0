#include "api.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <rdma/rsocket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ostream>

// Of the head of rdma-core.
extern "C" {
int repoll_create(int flags);
int repoll_ctl(int epoll, int operation, int fd, epoll_event* event);
int repoll_wait(int epoll, epoll_event* events, int count, int timeout);
}

namespace verbena::rsocket_test {

const Api kKernel{"kernel",      ::socket,      ::bind,       ::listen,     ::accept,  ::connect,
                  ::shutdown,    ::close,       ::recv,       ::recvfrom,   ::recvmsg, ::readv,
                  ::send,        ::sendto,      ::sendmsg,    ::writev,     ::poll,    ::select,
                  ::getpeername, ::getsockname, ::setsockopt, ::getsockopt, ::fcntl,   ::epoll_create1,
                  ::epoll_ctl,   ::epoll_wait};
const Api kRsockets{"rsockets",     ::rsocket,      ::rbind,       ::rlisten,     ::raccept,  ::rconnect,
                    ::rshutdown,    ::rclose,       ::rrecv,       ::rrecvfrom,   ::rrecvmsg, ::rreadv,
                    ::rsend,        ::rsendto,      ::rsendmsg,    ::rwritev,     ::rpoll,    ::rselect,
                    ::rgetpeername, ::rgetsockname, ::rsetsockopt, ::rgetsockopt, ::rfcntl,   ::repoll_create,
                    ::repoll_ctl,   ::repoll_wait};

void PrintTo(const Outcome& outcome, std::ostream* out) {
    *out << outcome.result;
    if (outcome.result == -1) *out << " (" << std::strerror(outcome.error) << ")";
}

Outcome outcome(long result) { return {result, result == -1 ? errno : 0}; }

Name::Name(int family, std::uint16_t port) {
    storage.ss_family = static_cast<sa_family_t>(family);
    length = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    if (family == AF_INET) {
        sockaddr_in in{};
        in.sin_family = AF_INET;
        in.sin_port = htons(port);
        in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        std::memcpy(&storage, &in, sizeof in);
    } else {
        sockaddr_in6 in6{};
        in6.sin6_family = AF_INET6;
        in6.sin6_port = htons(port);
        in6.sin6_addr = in6addr_loopback;
        std::memcpy(&storage, &in6, sizeof in6);
    }
}

std::uint16_t Name::port() const {
    std::uint16_t port;  // at the same place in both families
    std::memcpy(&port, static_cast<const char*>(static_cast<const void*>(&storage)) + 2, 2);
    return ntohs(port);
}

int Sockets::open(int family, int type) {
    const int fd = api().socket(family, type, 0);
    EXPECT_GE(fd, 0) << std::strerror(errno);
    open_.push_back(fd);
    return fd;
}

int Sockets::close(int fd) {
    open_.erase(std::remove(open_.begin(), open_.end(), fd), open_.end());
    return api().close(fd);
}

void Sockets::TearDown() {
    for (int fd : open_)
        if (fd >= 0) api().close(fd);
}

int Sockets::listener(Name& name, int backlog, int family) {
    name = Name(family);
    const int fd = open(family);
    EXPECT_EQ(outcome(api().bind(fd, name.get(), name.length)), outcome(0));
    EXPECT_EQ(outcome(api().listen(fd, backlog)), outcome(0));
    EXPECT_EQ(outcome(api().getsockname(fd, name.get(), &name.length)), outcome(0));
    EXPECT_NE(name.port(), 0);
    return fd;
}

Sockets::Pair Sockets::connected(int family) {
    Name name;
    const int listening = listener(name, 5, family);
    Pair pair;
    pair.client = open(family);
    EXPECT_EQ(outcome(api().connect(pair.client, name.get(), name.length)), outcome(0));
    pair.server = api().accept(listening, nullptr, nullptr);
    EXPECT_GE(pair.server, 0) << std::strerror(errno);
    open_.push_back(pair.server);
    close(listening);
    return pair;
}

short Sockets::poll_one(int fd, short events, int ms) {
    pollfd one{fd, events, 0};
    EXPECT_GE(api().poll(&one, 1, ms), 0) << std::strerror(errno);
    return one.revents;
}

bool Sockets::readable(int fd, int ms) { return poll_one(fd, POLLIN, ms) & POLLIN; }

std::string Sockets::receive(int fd, std::size_t size) {
    std::string data(size, '\0');
    std::size_t have = 0;
    while (have < size) {
        if (!readable(fd)) break;
        const ssize_t got = api().recv(fd, data.data() + have, size - have, 0);
        if (got <= 0) break;
        have += static_cast<std::size_t>(got);
    }
    data.resize(have);
    return data;
}

void Sockets::nonblocking(int fd) {
    ASSERT_EQ(outcome(api().fcntl(fd, F_SETFL, long{O_NONBLOCK})), outcome(0));
}

int Sockets::option(int fd, int level, int name) {
    int value = -1;
    socklen_t size = sizeof value;
    EXPECT_EQ(outcome(api().getsockopt(fd, level, name, &value, &size)), outcome(0)) << level << " " << name;
    return value;
}

std::string pattern(std::size_t size, unsigned seed) {
    std::string data(size, '\0');
    for (std::size_t i = 0; i < size; i++) data[i] = static_cast<char>((i * 131 + seed * 7919) >> 3);
    return data;
}

}  // namespace verbena::rsocket_test
