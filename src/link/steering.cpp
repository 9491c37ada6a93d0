#include "link/steering.h"

#include <linux/filter.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <optional>

#include "base/reason.h"
#include "base/socket_address.h"
#include "link/socket_options.h"

namespace verbena::link {
namespace {

int close_and_fail(int fd, int error) {
    close(fd);
    errno = error;
    return -1;
}

bool bind_to(int fd, std::uint16_t port) {
    const SocketAddress any(any_address(family_of(fd)), port);
    return bind(fd, any.get(), any.size()) == 0;
}

int share(int fd) {
    const int on = 1;
    return setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on) == 0 ? 0 : errno;
}

// A port that nobody has, for a new group. Asked for one by a socket that shares, the kernel may choose that
// of another group of this user, and so put ours into it. This one shares only when it is bound, and leaves
// before anybody counts sockets.
class FreePort {
   public:
    FreePort() : fd_(open_lone_socket(0)) {
        if (fd_ >= 0 && share(fd_) == 0) port_ = bound_port(fd_);
    }
    ~FreePort() {
        if (fd_ >= 0) close(fd_);
    }
    FreePort(const FreePort&) = delete;
    FreePort& operator=(const FreePort&) = delete;
    std::uint16_t port() const { return port_; }  // 0: none, the kernel chooses

   private:
    const int fd_;
    std::uint16_t port_ = 0;
};

}  // namespace

int open_lone_socket(std::uint16_t port) {
    const int fd = open_receive_socket(0);
    if (fd < 0) return -1;
    const int off = 0;
    if (family_of(fd) == AF_INET6) setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    return bind_to(fd, port) ? fd : close_and_fail(fd, errno);
}

int open_group_socket(std::uint16_t port, bool gro) {
    int fd = open_receive_socket(SOCK_NONBLOCK);
    if (fd < 0) return fail_minus_one(errno, "no UDP socket: %s", std::strerror(errno));
    if (int error = share(fd))
        return close_and_fail(fd, fail(error, "setsockopt(SO_REUSEPORT): %s", std::strerror(error)));
    if (int error = prepare_receive_socket(fd, gro)) return close_and_fail(fd, error);
    std::optional<FreePort> free;
    if (port == 0) port = free.emplace().port();
    bool bound = bind_to(fd, port);
    if (!bound && free && errno == EADDRINUSE) {
        free.reset();  // a kernel where who is bound cannot begin to share
        bound = bind_to(fd, port);
    }
    if (!bound)
        return close_and_fail(fd,
                              fail(errno, "binding UDP port %u: %s", unsigned{port}, std::strerror(errno)));
    return fd;
}

std::uint16_t bound_port(int fd) {
    sockaddr_in6 address{};
    auto* const either = reinterpret_cast<sockaddr*>(&address);
    socklen_t size = sizeof address;
    return getsockname(fd, either, &size) == 0 ? port_of(either) : 0;
}

int attach_steering(int fd, std::uint32_t group_size) {
    // Offset 0 is the first byte of the UDP payload. A load beyond the end of a runt makes the program return
    // 0.
    sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 4),  // BTH: reserved byte, destination QPN
        BPF_STMT(BPF_ALU | BPF_AND | BPF_K, 0xffffff),
        BPF_STMT(BPF_ALU | BPF_RSH | BPF_K, kBlockBits),
        BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, group_size, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, 0),
        BPF_STMT(BPF_RET | BPF_A, 0),
    };
    const sock_fprog program{sizeof code / sizeof code[0], code};
    if (setsockopt(fd, SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &program, sizeof program) != 0)
        return fail(errno, "setsockopt(SO_ATTACH_REUSEPORT_CBPF): %s", std::strerror(errno));
    return 0;
}

int lock_filter(int fd) {
    const int on = 1;
    if (setsockopt(fd, SOL_SOCKET, SO_LOCK_FILTER, &on, sizeof on) != 0)
        return fail(errno, "setsockopt(SO_LOCK_FILTER): %s", std::strerror(errno));
    return 0;
}

unsigned drain(int fd) {
    unsigned count = 0;
    char byte;
    // A pending socket error ends a call like a datagram does; the bound stops a queue that fills as fast as
    // we read.
    while (count < 1'000'000 && (recv(fd, &byte, 1, MSG_DONTWAIT | MSG_TRUNC) >= 0 ||
                                 (errno != EAGAIN && errno != EWOULDBLOCK && errno != EBADF)))
        count++;
    return count;
}

int park(int fd) {
    const int smallest = 0;  // the kernel makes it its minimum
    if (setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &smallest, sizeof smallest) != 0)
        return fail(errno, "setsockopt(SO_RCVBUF): %s", std::strerror(errno));
    drain(fd);
    return 0;
}

int unpark(int fd) {
    drain(fd);
    return enlarge_receive_buffer(fd);
}

}  // namespace verbena::link
