// rsocket.h, the calls that stand for socket(2) to close(2). Here arguments are checked and brought into one
// form; the sockets do the rest.
#include <fcntl.h>
#include <rdma/rsocket.h>

#include <cerrno>
#include <cstdarg>
#include <new>

#include "base/call_fault.h"
#include "base/out_of_memory.h"
#include "base/reason.h"
#include "rsocket/datagram.h"
#include "rsocket/epoll.h"
#include "rsocket/stream.h"
#include "rsocket/table.h"

using namespace verbena;
using namespace verbena::rsocket;

namespace {

// Behaves like the call on a stream without waiting for its end in the table: rclose.
template <class Act>
auto with_socket(const char* name, int fd, Act act) -> decltype(act(std::declval<Socket&>())) {
    Call call(name);
    auto socket = socket_of(fd);
    if (!socket) return -1;
    const auto result = minus_one_if_out_of_memory([&] { return act(*socket); });
    const int error = errno;
    socket.reset();  // the end of one that was closed meanwhile changes errno
    errno = error;
    return result;
}

// In the table. nullptr with errno.
std::shared_ptr<Socket> make_socket(int domain, int type) {
    Service* const service = Service::get();
    if (!service) return nullptr;
    std::shared_ptr<Socket> socket;
    if (type == SOCK_STREAM) {
        socket = std::make_shared<Stream>(domain, *service);
    } else {
        auto datagram = std::make_shared<Datagram>(domain, *service);
        if (datagram->open_udp() != 0) return nullptr;
        socket = std::move(datagram);
    }
    if (socket->open() != 0) return nullptr;
    insert_socket(socket);
    return socket;
}

int check(const iovec* pieces, std::size_t count) {
    if (count > IOV_MAX) return fail(EMSGSIZE, "%zu buffers, %d are possible", count, IOV_MAX);
    if (count > 0 && !pieces) return fail(EFAULT, "the array of buffers is NULL");
    return 0;
}

ssize_t take(Socket& socket, Cursor room, int flags, Address* from, int* out_flags) {
    if (flags & MSG_ERRQUEUE) {  // nothing is ever in it
        errno = EAGAIN;
        return -1;
    }
    return socket.receive(room, flags, from, out_flags);
}

ssize_t receive(const char* name, int fd, std::span<const iovec> pieces, int flags, sockaddr* from,
                socklen_t* length) {
    return with_socket(name, fd, [&](Socket& socket) -> ssize_t {
        Address source;
        const ssize_t size = take(socket, Cursor(pieces), flags, from ? &source : nullptr, nullptr);
        if (size < 0 || !length) return size;
        if (socket.type() == SOCK_DGRAM && from)
            source.copy_to(from, length);
        else
            *length = 0;
        return size;
    });
}

ssize_t send(const char* name, int fd, std::span<const iovec> pieces, int flags, const sockaddr* to,
             socklen_t length) {
    return with_socket(name, fd, [&](Socket& socket) -> ssize_t {
        Address destination;
        if (to && socket.type() == SOCK_DGRAM)
            if (int error = destination.assign(to, length)) {
                errno = error;
                return -1;
            }
        return socket.send(Cursor(pieces), flags, to ? &destination : nullptr);
    });
}

}  // namespace

extern "C" {

int rsocket(int domain, int type, int protocol) {
    if (const Fault fault{"rsocket"}) return fault.minus_one();
    Call call("rsocket");
    const int kind = type & ~(SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (domain != AF_INET && domain != AF_INET6)
        return fail_minus_one(EAFNOSUPPORT, "domain %d; rsockets are AF_INET or AF_INET6", domain);
    if ((kind != SOCK_STREAM || (protocol != 0 && protocol != IPPROTO_TCP)) &&
        (kind != SOCK_DGRAM || (protocol != 0 && protocol != IPPROTO_UDP)))
        return fail_minus_one(EOPNOTSUPP, "type %d, protocol %d; rsockets are SOCK_STREAM or SOCK_DGRAM",
                              type, protocol);
    const auto socket = unless_out_of_memory([&] { return make_socket(domain, kind); });
    if (!socket) return -1;
    socket->set_nonblocking((type & SOCK_NONBLOCK) != 0);
    if (!(type & SOCK_CLOEXEC)) fcntl(socket->fd(), F_SETFD, 0);
    return socket->fd();
}

int rbind(int fd, const sockaddr* address, socklen_t length) {
    if (const Fault fault{"rbind"}) return fault.minus_one();
    return with_socket("rbind", fd, [&](Socket& socket) {
        Address local;
        if (local.assign(address, length) != 0) return -1;
        return socket.bind(local);
    });
}

int rlisten(int fd, int backlog) {
    if (const Fault fault{"rlisten"}) return fault.minus_one();
    return with_socket("rlisten", fd, [&](Socket& socket) { return socket.listen(backlog); });
}

int raccept(int fd, sockaddr* address, socklen_t* length) {
    if (const Fault fault{"raccept"}) return fault.minus_one();
    return with_socket("raccept", fd, [&](Socket& socket) {
        if (address && !length) return fail_minus_one(EFAULT, "an address without its length");
        auto child = socket.accept();
        if (!child) return -1;
        if (address) {
            Address peer = Address::any(socket.domain());
            child->peer_address(peer);
            peer.copy_to(address, length);
        }
        const int child_fd = child->fd();
        fcntl(child_fd, F_SETFD, 0);
        insert_socket(std::move(child));
        return child_fd;
    });
}

int rconnect(int fd, const sockaddr* address, socklen_t length) {
    if (const Fault fault{"rconnect"}) return fault.minus_one();
    return with_socket("rconnect", fd, [&](Socket& socket) {
        Address peer;
        if (peer.assign(address, length) != 0) return -1;
        return socket.connect(peer);
    });
}

int rshutdown(int fd, int how) {
    if (const Fault fault{"rshutdown"}) return fault.minus_one();
    return with_socket("rshutdown", fd, [&](Socket& socket) { return socket.shutdown(how); });
}

int rclose(int fd) {
    if (const Fault fault{"rclose"}) return fault.minus_one();
    Call call("rclose");
    if (close_epoll(fd)) return 0;
    auto socket = take_socket(fd);
    if (!socket) return fail_minus_one(EBADF, "descriptor %d is no rsocket of this process", fd);
    socket->close();
    return 0;
}

ssize_t rrecv(int fd, void* buffer, size_t size, int flags) {
    if (const Fault fault{"rrecv"}) return fault.minus_one();
    const iovec piece{buffer, size};
    return receive("rrecv", fd, {&piece, 1}, flags, nullptr, nullptr);
}

ssize_t rrecvfrom(int fd, void* buffer, size_t size, int flags, sockaddr* from, socklen_t* length) {
    if (const Fault fault{"rrecvfrom"}) return fault.minus_one();
    const iovec piece{buffer, size};
    return receive("rrecvfrom", fd, {&piece, 1}, flags, from, length);
}

ssize_t rrecvmsg(int fd, msghdr* message, int flags) {
    if (const Fault fault{"rrecvmsg"}) return fault.minus_one();
    if (!message) return fail_minus_one(EFAULT, "the message is NULL");
    if (check(message->msg_iov, message->msg_iovlen) != 0) return -1;
    return with_socket("rrecvmsg", fd, [&](Socket& socket) -> ssize_t {
        Address source;
        int out = 0;
        const ssize_t size = take(socket, Cursor({message->msg_iov, message->msg_iovlen}), flags,
                                  message->msg_name ? &source : nullptr, &out);
        if (size < 0) return size;
        message->msg_flags = out;
        message->msg_controllen = 0;
        if (message->msg_name && socket.type() == SOCK_DGRAM)
            source.copy_to(static_cast<sockaddr*>(message->msg_name), &message->msg_namelen);
        else
            message->msg_namelen = 0;
        return size;
    });
}

ssize_t rread(int fd, void* buffer, size_t size) {
    if (const Fault fault{"rread"}) return fault.minus_one();
    const iovec piece{buffer, size};
    return receive("rread", fd, {&piece, 1}, 0, nullptr, nullptr);
}

ssize_t rreadv(int fd, const iovec* pieces, int count) {
    if (const Fault fault{"rreadv"}) return fault.minus_one();
    if (count < 0 || count > IOV_MAX)
        return fail_minus_one(EINVAL, "%d buffers, %d are possible", count, IOV_MAX);
    if (check(pieces, static_cast<std::size_t>(count)) != 0) return -1;
    return receive("rreadv", fd, {pieces, static_cast<std::size_t>(count)}, 0, nullptr, nullptr);
}

ssize_t rsend(int fd, const void* buffer, size_t size, int flags) {
    if (const Fault fault{"rsend"}) return fault.minus_one();
    const iovec piece{const_cast<void*>(buffer), size};
    return send("rsend", fd, {&piece, 1}, flags, nullptr, 0);
}

ssize_t rsendto(int fd, const void* buffer, size_t size, int flags, const sockaddr* to, socklen_t length) {
    if (const Fault fault{"rsendto"}) return fault.minus_one();
    const iovec piece{const_cast<void*>(buffer), size};
    return send("rsendto", fd, {&piece, 1}, flags, to, length);
}

ssize_t rsendmsg(int fd, const msghdr* message, int flags) {
    if (const Fault fault{"rsendmsg"}) return fault.minus_one();
    if (!message) return fail_minus_one(EFAULT, "the message is NULL");
    if (check(message->msg_iov, message->msg_iovlen) != 0) return -1;
    if (message->msg_controllen > 0)
        return fail_minus_one(EOPNOTSUPP, "%zu bytes of control data; rsockets carry none",
                              static_cast<std::size_t>(message->msg_controllen));
    return send("rsendmsg", fd, {message->msg_iov, message->msg_iovlen}, flags,
                static_cast<const sockaddr*>(message->msg_name), message->msg_namelen);
}

ssize_t rwrite(int fd, const void* buffer, size_t size) {
    if (const Fault fault{"rwrite"}) return fault.minus_one();
    const iovec piece{const_cast<void*>(buffer), size};
    return send("rwrite", fd, {&piece, 1}, 0, nullptr, 0);
}

ssize_t rwritev(int fd, const iovec* pieces, int count) {
    if (const Fault fault{"rwritev"}) return fault.minus_one();
    if (count < 0 || count > IOV_MAX)
        return fail_minus_one(EINVAL, "%d buffers, %d are possible", count, IOV_MAX);
    if (check(pieces, static_cast<std::size_t>(count)) != 0) return -1;
    return send("rwritev", fd, {pieces, static_cast<std::size_t>(count)}, 0, nullptr, 0);
}

int rgetpeername(int fd, sockaddr* address, socklen_t* length) {
    if (const Fault fault{"rgetpeername"}) return fault.minus_one();
    return with_socket("rgetpeername", fd, [&](Socket& socket) {
        Address peer;
        if (!address || !length) return fail_minus_one(EFAULT, "nowhere to put the address");
        if (socket.peer_address(peer) != 0) return -1;
        peer.copy_to(address, length);
        return 0;
    });
}

int rgetsockname(int fd, sockaddr* address, socklen_t* length) {
    if (const Fault fault{"rgetsockname"}) return fault.minus_one();
    return with_socket("rgetsockname", fd, [&](Socket& socket) {
        Address local;
        if (!address || !length) return fail_minus_one(EFAULT, "nowhere to put the address");
        if (socket.local_address(local) != 0) return -1;
        local.copy_to(address, length);
        return 0;
    });
}

int rfcntl(int fd, int command, ...) {
    if (const Fault fault{"rfcntl"}) return fault.minus_one();
    va_list arguments;
    va_start(arguments, command);
    const long argument = va_arg(arguments, long);
    va_end(arguments);
    return with_socket("rfcntl", fd, [&](Socket& socket) {
        switch (command) {
            case F_GETFL:
                return O_RDWR | (socket.nonblocking() ? O_NONBLOCK : 0);
            case F_SETFL:
                socket.set_nonblocking((argument & O_NONBLOCK) != 0);
                return 0;
            case F_GETFD:
                return fcntl(fd, F_GETFD);
            case F_SETFD:
                return fcntl(fd, F_SETFD, static_cast<int>(argument));
            default:
                return fail_minus_one(EOPNOTSUPP, "fcntl command %d on a rsocket", command);
        }
    });
}

off_t riomap(int fd, void* buffer, size_t size, int protection, int, off_t offset) {
    if (const Fault fault{"riomap"}) return fault.minus_one();
    return with_socket("riomap", fd, [&](Socket& socket) -> off_t {
        auto* stream = dynamic_cast<Stream*>(&socket);
        if (!stream) return fail_minus_one(EOPNOTSUPP, "buffers are mapped on streams only");
        return stream->map(buffer, size, protection, offset);
    });
}

int riounmap(int fd, void* buffer, size_t size) {
    if (const Fault fault{"riounmap"}) return fault.minus_one();
    return with_socket("riounmap", fd, [&](Socket& socket) {
        auto* stream = dynamic_cast<Stream*>(&socket);
        if (!stream) return fail_minus_one(EOPNOTSUPP, "buffers are mapped on streams only");
        return stream->unmap(buffer, size);
    });
}

size_t riowrite(int fd, const void* buffer, size_t size, off_t offset, int flags) {
    if (const Fault fault{"riowrite"}) return fault.minus_one();
    const iovec piece{const_cast<void*>(buffer), size};
    const ssize_t written = with_socket("riowrite", fd, [&](Socket& socket) -> ssize_t {
        auto* stream = dynamic_cast<Stream*>(&socket);
        if (!stream) return fail_minus_one(EOPNOTSUPP, "buffers are mapped on streams only");
        return stream->write_mapped(Cursor({&piece, 1}), offset, flags);
    });
    return static_cast<size_t>(written);
}

}  // extern "C"
