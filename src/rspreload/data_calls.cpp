// The calls by which a program's data go, as in calls.cpp.
#include <rdma/rsocket.h>
#include <signal.h>
#include <sys/sendfile.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "rspreload/entries.h"
#include "rspreload/real.h"

using namespace verbena::rspreload;

namespace {

// As TCP does it, and rsockets do not: a stream that takes no more ends a program that does not look.
ssize_t sent(int fd, ssize_t result, int flags = 0) {
    if (result >= 0 || errno != EPIPE || flags & MSG_NOSIGNAL) return result;
    const Entry* entry = find(fd);
    if (!entry || entry->type != SOCK_STREAM) return result;
    raise(SIGPIPE);
    errno = EPIPE;
    return result;
}

template <class Ours, class Kernels>
ssize_t take(int fd, int flags, Ours ours, Kernels kernels) {
    const int rs = rsocket_for(fd, Use::read, flags);
    if (rs >= 0) return ours(rs);
    return rs == kNotYet ? -1 : kernels();
}

template <class Ours, class Kernels>
ssize_t give(int fd, int flags, Ours ours, Kernels kernels) {
    const int rs = rsocket_for(fd, Use::write, flags);
    if (rs >= 0) return sent(fd, ours(rs), flags);
    return rs == kNotYet ? -1 : kernels();
}

// Data that would go along with the connection's request go behind it. False, with errno: there is none, or
// not yet.
bool connected_for(int fd, int& flags, const sockaddr* to, socklen_t length) {
    if (!(flags & MSG_FASTOPEN) || !to) return true;
    const Entry* const entry = find(fd);
    if (!entry || entry->type != SOCK_STREAM || rsocket_of(fd) < 0) return true;
    flags &= ~MSG_FASTOPEN;
    return ::connect(fd, to, length) == 0;
}

// The descriptors that go to another process, or have come from one, by a message.
template <class Action>
void for_each_passed(const msghdr* message, Action action) {
    if (!message || !message->msg_control || message->msg_controllen < CMSG_LEN(sizeof(int))) return;
    auto* const all = const_cast<msghdr*>(message);
    for (cmsghdr* each = CMSG_FIRSTHDR(all); each; each = CMSG_NXTHDR(all, each)) {
        if (each->cmsg_level != SOL_SOCKET || each->cmsg_type != SCM_RIGHTS) continue;
        const std::size_t count = (each->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (std::size_t i = 0; i < count; i++) {
            int fd;
            std::memcpy(&fd, CMSG_DATA(each) + i * sizeof fd, sizeof fd);
            action(fd);
        }
    }
}

// A rsocket does not go along.
void warn_of_passed_rsockets(const msghdr* message) {
    for_each_passed(message, [](int fd) {
        if (const Entry* entry = find(fd); entry && entry->rs >= 0) warn_of_passing(fd);
    });
}

ssize_t receive_message(int fd, msghdr* message, int flags) {
    const ssize_t result = real().recvmsg(fd, message, flags);
    if (result >= 0) for_each_passed(message, adopt);
    return result;
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

ssize_t recv(int fd, void* buffer, size_t size, int flags) {
    return take(
        fd, flags, [&](int rs) { return rrecv(rs, buffer, size, flags); },
        [&] { return real().recv(fd, buffer, size, flags); });
}

ssize_t recvfrom(int fd, void* buffer, size_t size, int flags, sockaddr* from, socklen_t* length) {
    return take(
        fd, flags, [&](int rs) { return rrecvfrom(rs, buffer, size, flags, from, length); },
        [&] { return real().recvfrom(fd, buffer, size, flags, from, length); });
}

ssize_t recvmsg(int fd, msghdr* message, int flags) {
    return take(
        fd, flags, [&](int rs) { return rrecvmsg(rs, message, flags); },
        [&] { return receive_message(fd, message, flags); });
}

ssize_t read(int fd, void* buffer, size_t size) {
    return take(
        fd, 0, [&](int rs) { return rread(rs, buffer, size); },
        [&] { return real().read(fd, buffer, size); });
}

ssize_t readv(int fd, const iovec* pieces, int count) {
    return take(
        fd, 0, [&](int rs) { return rreadv(rs, pieces, count); },
        [&] { return real().readv(fd, pieces, count); });
}

ssize_t send(int fd, const void* buffer, size_t size, int flags) {
    return give(
        fd, flags, [&](int rs) { return rsend(rs, buffer, size, flags); },
        [&] { return real().send(fd, buffer, size, flags); });
}

ssize_t sendto(int fd, const void* buffer, size_t size, int flags, const sockaddr* to, socklen_t length) {
    if (!connected_for(fd, flags, to, length)) return -1;
    return give(
        fd, flags, [&](int rs) { return rsendto(rs, buffer, size, flags, to, length); },
        [&] { return real().sendto(fd, buffer, size, flags, to, length); });
}

ssize_t sendmsg(int fd, const msghdr* message, int flags) {
    warn_of_passed_rsockets(message);
    if (message &&
        !connected_for(fd, flags, static_cast<const sockaddr*>(message->msg_name), message->msg_namelen))
        return -1;
    return give(
        fd, flags, [&](int rs) { return rsendmsg(rs, message, flags); },
        [&] { return real().sendmsg(fd, message, flags); });
}

ssize_t write(int fd, const void* buffer, size_t size) {
    return give(
        fd, 0, [&](int rs) { return rwrite(rs, buffer, size); },
        [&] { return real().write(fd, buffer, size); });
}

ssize_t writev(int fd, const iovec* pieces, int count) {
    return give(
        fd, 0, [&](int rs) { return rwritev(rs, pieces, count); },
        [&] { return real().writev(fd, pieces, count); });
}

ssize_t sendfile(int to, int from, off_t* offset, size_t size) {
    const int rs = rsocket_for(to, Use::write);
    if (rs < 0) return rs == kNotYet ? -1 : real().sendfile(to, from, offset, size);
    std::array<char, 65536> buffer;
    size_t total = 0;
    while (total < size) {
        const size_t wanted_now = std::min(size - total, buffer.size());
        const off_t at = offset ? *offset : lseek(from, 0, SEEK_CUR);
        const ssize_t got = pread(from, buffer.data(), wanted_now, at);
        if (got <= 0) return total > 0 ? static_cast<ssize_t>(total) : got;
        const ssize_t done = rwrite(rs, buffer.data(), static_cast<size_t>(got));
        if (done < 0) return total > 0 ? static_cast<ssize_t>(total) : sent(to, done);
        if (offset)
            *offset += done;
        else
            lseek(from, done, SEEK_CUR);
        total += static_cast<size_t>(done);
        if (done < got) break;
    }
    return static_cast<ssize_t>(total);
}

ssize_t sendfile64(int to, int from, off_t* offset, size_t size) { return sendfile(to, from, offset, size); }

// What programs compiled with _FORTIFY_SOURCE call instead.
ssize_t __read_chk(int fd, void* buffer, size_t size, size_t) { return read(fd, buffer, size); }
ssize_t __recv_chk(int fd, void* buffer, size_t size, size_t, int flags) {
    return recv(fd, buffer, size, flags);
}
ssize_t __recvfrom_chk(int fd, void* buffer, size_t size, size_t, int flags, sockaddr* from,
                       socklen_t* length) {
    return recvfrom(fd, buffer, size, flags, from, length);
}

}  // extern "C"
#pragma GCC visibility pop
