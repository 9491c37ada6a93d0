// The C library's socket calls, as programs find them when this library is preloaded: those on a descriptor
// that stands for a rsocket go there, all others to the C library.
#include <fcntl.h>
#include <linux/sockios.h>
#include <rdma/rsocket.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdarg>
#include <cstring>
#include <memory>
#include <utility>

#include "base/own_file.h"
#include "rspreload/config.h"
#include "rspreload/descriptor.h"
#include "rspreload/entries.h"
#include "rspreload/ports.h"
#include "rspreload/real.h"
#include "rspreload/sets.h"
#include "rspreload/settings.h"

using namespace verbena::rspreload;

namespace {

void remember(sockaddr_storage& storage, socklen_t& length, const sockaddr* address, socklen_t size) {
    length = std::min<socklen_t>(size, sizeof storage);
    if (address) std::memcpy(&storage, address, length);
}

int no_more() {
    errno = EMFILE;
    return -1;
}

// As the kernel, which has a number for the connection before it takes one from the backlog: without one the
// connection stays there.
int accept_rsocket(int listener, sockaddr* address, socklen_t* length, int domain, int type, int flags) {
    Descriptor fd(real().socket(domain, type | SOCK_CLOEXEC | (flags & SOCK_NONBLOCK), 0));
    if (fd.get() < 0) return -1;
    if (!has_place(fd.get())) return no_more();
    const auto identity = verbena::FileIdentity::of(fd.get());
    const int rs = raccept(listener, address, length);
    const int before = errno;
    const bool taken = !identity.is(fd.get());  // by dup2(), as only one that is free may be
    if (taken) fd.keep();
    errno = before;
    if (rs < 0) return -1;
    if (taken) fd.reset(real().socket(domain, type | SOCK_CLOEXEC | (flags & SOCK_NONBLOCK), 0));
    auto entry = std::make_unique<Entry>();
    entry->domain = domain;
    entry->type = type;
    entry->rs = rs;
    if (!insert(fd.get(), entry.get())) {
        rclose(rs);
        return no_more();
    }
    static_cast<void>(entry.release());
    if (!(flags & SOCK_CLOEXEC)) real().fcntl(fd.get(), F_SETFD, 0);
    rfcntl(rs, F_SETFD, long{FD_CLOEXEC});
    if (flags & SOCK_NONBLOCK) rfcntl(rs, F_SETFL, long{O_NONBLOCK});
    errno = before;
    return fd.keep();
}

int accept_any(int fd, sockaddr* address, socklen_t* length, int flags) {
    const int rs = rsocket_of(fd);
    int domain = 0, type = 0;
    bool migrates = false;
    // Not held while the call waits: closing the listener ends it.
    if (const Held entry(fd); entry) {
        domain = entry->domain;
        type = entry->type;
        migrates = entry->state == State::fork_listen;
    }
    if (rs >= 0) return accept_rsocket(rs, address, length, domain, type, flags);
    const int child = real().accept4(fd, address, length, flags);
    if (child >= 0 && migrates) {
        auto later = std::make_unique<Entry>();
        later->domain = domain;
        later->type = type;
        later->state = State::fork_passive;
        if (insert(child, later.get())) static_cast<void>(later.release());
    }
    return child;
}

// The kernel has made `to`, in place of what it was.
int duplicated(int from, int to) {
    if (to < 0) return to;
    if (!share(from, to)) remove(to);
    if (!share_set(from, to)) remove_set(to);
    return to;
}

// Not the peer's want of rsockets, but ours of means: the kernel's socket, which has its own, would meet
// nobody, and the program would look for the fault with the peer.
bool is_out_of_means(int error) { return error == EMFILE || error == ENFILE || error == ENOMEM; }

bool unknown_to_rsockets(int error) { return error == ENOPROTOOPT || error == EOPNOTSUPP; }

// The kernel's socket would take them, and the program wait for what its error queue never has.
bool needs_an_error_queue(int level, int option) {
    return level == SOL_SOCKET &&
           (option == SO_ZEROCOPY || option == SO_TIMESTAMPING_OLD || option == SO_TIMESTAMPING_NEW);
}

bool is_zero(const void* value, socklen_t size) {
    int number = 1;
    if (value && size >= sizeof number) std::memcpy(&number, value, sizeof number);
    return number == 0;
}

bool may_be_a_rsocket(int fd) {
    const Held entry(fd);
    return entry && entry->state != State::plain && !is_of_a_parent(*entry);
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

int socket(int domain, int type, int protocol) {
    Descriptor made(real().socket(domain, type, protocol));
    const int fd = made.get(), kind = type & ~(SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0 || !wanted(domain, kind, protocol) || is_library_code(__builtin_return_address(0)))
        return made.keep();
    const int before = errno;
    auto entry = std::make_unique<Entry>();
    restore_settings();
    entry->domain = domain;
    entry->type = kind;
    if (fork_support() && kind == SOCK_STREAM) {
        entry->state = State::fork_idle;
    } else {
        entry->rs = rsocket(domain, type | SOCK_CLOEXEC, protocol);
        if (entry->rs < 0 && is_out_of_means(errno)) return -1;
        errno = before;
        if (entry->rs < 0) return made.keep();  // no RDMA here: the kernel's socket it is
    }
    if (insert(fd, entry.get()))
        static_cast<void>(entry.release());
    else if (entry->rs >= 0)
        rclose(entry->rs);
    return made.keep();
}

int bind(int fd, const sockaddr* address, socklen_t length) {
    const Held entry(fd);
    const int rs = rsocket_of(fd);
    if (rs < 0) return real().bind(fd, address, length);
    sockaddr_storage local{};
    socklen_t size = 0;
    remember(local, size, address, length);
    const bool asks_tcp = entry->type == SOCK_STREAM && address && !entry->bound;
    const Bound result = asks_tcp                          ? bind_both(fd, rs, *entry, local, size)
                         : rbind(rs, address, length) == 0 ? Bound::yes
                                                           : Bound::no;
    if (result == Bound::yes) {
        entry->bound = true;
        entry->local = local;
        entry->local_length = size;
        return 0;
    }
    if (result == Bound::not_by_tcp) return -1;
    // An address that no RDMA device has may be one of the host's all the same. And the connection manager
    // has one listener for a port: who shares it comes second, and serves the peers without rsockets.
    const bool kernel_may =
        errno == ENODEV || errno == EADDRNOTAVAIL || (errno == EADDRINUSE && entry->shares_port);
    if (entry->type != SOCK_STREAM || !kernel_may) return -1;
    become_plain(fd, *entry);
    const int plain = real().bind(fd, address, length);
    move_registrations(fd, *entry);
    return plain;
}

int listen(int fd, int backlog) {
    const Held entry(fd);
    const int rs = rsocket_of(fd);
    if (rs >= 0) return listen_both(fd, rs, *entry, backlog);
    const int result = real().listen(fd, backlog);
    if (result == 0 && entry && entry->state == State::fork_idle) entry->state = State::fork_listen;
    return result;
}

int accept(int fd, sockaddr* address, socklen_t* length) { return accept_any(fd, address, length, 0); }
int accept4(int fd, sockaddr* address, socklen_t* length, int flags) {
    return accept_any(fd, address, length, flags);
}

int connect(int fd, const sockaddr* address, socklen_t length) {
    const Held entry(fd);
    const int rs = rsocket_of(fd);
    if (rs < 0) {
        const bool migrates = entry && entry->state == State::fork_idle;
        if (migrates) begin_fork_connection(fd, *entry);
        const int result = real().connect(fd, address, length);
        if (!migrates) return result;
        end_fork_connection(fd, *entry, result == 0 || errno == EINPROGRESS);
        return result;
    }
    remember(entry->peer, entry->peer_length, address, length);
    const int result = rconnect(rs, address, length);
    if (result == 0 || entry->type != SOCK_STREAM) return result;
    if (find(fd) != entry.get()) return result;  // closed meanwhile: the number may be another's
    if (is_out_of_means(errno)) return result;
    switch (errno) {
        case EINPROGRESS:
            begin_connecting(*entry);
            entry->state = State::connecting;
            return result;
        case EALREADY:
        case EISCONN:
        case EINTR:
        case EFAULT:
        case EINVAL:
        case EAFNOSUPPORT:
            return result;
        default: {  // nobody listens there with rsockets: perhaps without
            become_plain(fd, *entry);
            const int plain = real().connect(fd, address, length);
            move_registrations(fd, *entry);
            return plain;
        }
    }
}

int shutdown(int fd, int how) {
    if (const Held entry(fd); entry && is_unsettled(entry->state)) return shut_down(fd, *entry, how);
    const int rs = rsocket_of(fd);
    return rs >= 0 ? rshutdown(rs, how) : real().shutdown(fd, how);
}

int getpeername(int fd, sockaddr* address, socklen_t* length) {
    const int rs = rsocket_of(fd);
    return rs >= 0 ? rgetpeername(rs, address, length) : real().getpeername(fd, address, length);
}

int getsockname(int fd, sockaddr* address, socklen_t* length) {
    const int rs = rsocket_of(fd);
    return rs >= 0 ? rgetsockname(rs, address, length) : real().getsockname(fd, address, length);
}

// The kernel's socket gets every option too: it may have to take over.
int setsockopt(int fd, int level, int option, const void* value, socklen_t size) {
    const int rs = rsocket_of(fd);
    if (needs_an_error_queue(level, option) && may_be_a_rsocket(fd) && !is_zero(value, size)) {
        errno = EOPNOTSUPP;
        return -1;
    }
    if (rs < 0) return real().setsockopt(fd, level, option, value, size);
    const int before = errno;
    const int result = rsetsockopt(rs, level, option, value, size);
    const int error = errno;
    errno = before;
    const int kernel = real().setsockopt(fd, level, option, value, size);
    if (const Held entry(fd); kernel == 0 && entry && level == SOL_SOCKET && option == SO_REUSEPORT)
        entry->shares_port = *static_cast<const int*>(value) != 0;
    if (result == 0 || unknown_to_rsockets(error)) return result == 0 ? 0 : kernel;
    errno = error;
    return result;
}

int getsockopt(int fd, int level, int option, void* value, socklen_t* size) {
    const int rs = rsocket_of(fd);
    if (rs < 0) return real().getsockopt(fd, level, option, value, size);
    const socklen_t room = size ? *size : 0;
    const int before = errno;
    const int result = rgetsockopt(rs, level, option, value, size);
    if (result == 0 || !unknown_to_rsockets(errno)) return result;
    errno = before;
    if (size) *size = room;
    return real().getsockopt(fd, level, option, value, size);
}

int dup(int fd) { return duplicated(fd, real().dup(fd)); }

int dup2(int from, int to) {
    if (from == to) return real().dup2(from, to);
    before_closing(to);
    return duplicated(from, real().dup2(from, to));
}

int dup3(int from, int to, int flags) {
    if (from != to) before_closing(to);
    return duplicated(from, real().dup3(from, to, flags));
}

int fcntl(int fd, int command, ...) {
    va_list arguments;
    va_start(arguments, command);
    void* const argument = va_arg(arguments, void*);
    va_end(arguments);
    const int result = real().fcntl(fd, command, argument);
    if (command == F_DUPFD || command == F_DUPFD_CLOEXEC) return duplicated(fd, result);
    const Held entry(fd);
    if (!entry) return result;
    if (const int rs = entry->rs.load(); result == 0 && command == F_SETFL && rs >= 0)
        rfcntl(rs, F_SETFL, reinterpret_cast<long>(argument));
    return result;
}

int fcntl64(int fd, int command, ...) {
    va_list arguments;
    va_start(arguments, command);
    void* const argument = va_arg(arguments, void*);
    va_end(arguments);
    return fcntl(fd, command, argument);
}

int ioctl(int fd, unsigned long request, ...) {
    va_list arguments;
    va_start(arguments, request);
    void* const argument = va_arg(arguments, void*);
    va_end(arguments);
    const int rs = request == FIONREAD ? rsocket_for(fd, Use::look) : rsocket_of(fd);
    if (rs == kNotYet) {  // a word is none of the program's bytes
        *static_cast<int*>(argument) = 0;
        return 0;
    }
    if (rs >= 0 && request == FIONREAD) {
        const auto room = std::make_unique<char[]>(1 << 20);
        const int before = errno;
        const ssize_t size = rrecv(rs, room.get(), 1 << 20, MSG_PEEK | MSG_DONTWAIT);
        errno = before;
        *static_cast<int*>(argument) = static_cast<int>(std::max<ssize_t>(size, 0));
        return 0;
    }
    const int result = real().ioctl(fd, request, argument);
    if (rs >= 0 && request == FIONBIO && result == 0)
        rfcntl(rs, F_SETFL, *static_cast<int*>(argument) ? long{O_NONBLOCK} : 0L);
    return result;
}

}  // extern "C"
#pragma GCC visibility pop
